#include "authority/authority_fixture_test.h"

#define HOOK "webhook: {url: \"http://@/ask\""

static int set_up(void **state)
{
    (void)authority_fixture_set_up(state);
    authority_fixture_use_config(HOOK "}");
    return 0;
}

static void the_webhook_says_who_somebody_is(void **state)
{
    static const struct {
        const char *answer;
        uint16_t status;
        enum registry_result want;
    } rows[] = {
        {"{\"result\":\"allow\",\"tenant\":\"t1\",\"device\":\"d2\"}", 200, REGISTRY_OK},
        {"{\"result\":\"allow\",\"device\":\"d2\"}", 200, REGISTRY_OK}, /* the tenant of the user name */
        {"{\"result\":\"allow\",\"tenant\":\"t1\",\"device\":\"none\"}", 200, REGISTRY_BAD_CREDENTIALS},
        {"{\"result\":\"allow\",\"tenant\":\"none\",\"device\":\"d2\"}", 200, REGISTRY_BAD_CREDENTIALS},
        {"{\"result\":\"allow\",\"tenant\":\"t2\",\"device\":\"d3\"}", 200, REGISTRY_BAD_CREDENTIALS}, /* disabled */
        {"{\"result\":\"allow\",\"tenant\":\"t3\",\"device\":\"d4\"}", 200, REGISTRY_ADAPTER_DISABLED},
        {"{\"result\":\"allow\",\"tenant\":\"t1\",\"device\":\"off\"}", 200, REGISTRY_DEVICE_DISABLED},
        {"{\"result\":\"deny\"}", 200, REGISTRY_BAD_CREDENTIALS},
        {"{\"result\":\"deny\"}", 500, REGISTRY_UNAVAILABLE},
        {"{\"result\":\"allow\",\"tenant\":\"t1\",\"device\":\"d2\"}", 503, REGISTRY_UNAVAILABLE},
        {"{\"result\":\"allow\",\"tenant\":\"t1\",\"device\":\"d2\"}", 204, REGISTRY_UNAVAILABLE},
        {"{\"error\":\"who are you?\"}", 401, REGISTRY_UNAVAILABLE},
        {"nonsense", 200, REGISTRY_UNAVAILABLE},
    };
    char name[32];

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        enum registry_result got;

        t.answer = rows[i].status == 204 ? "" : rows[i].answer;
        t.status = rows[i].status;
        (void)snprintf(name, sizeof name, "x%u@t1", i);
        got = authority_fixture_log_in(name, "secret");
        if (got != rows[i].want)
            fail_msg("%s with %u: %s", rows[i].answer, rows[i].status, registry_result_name(got));
        if (got == REGISTRY_OK)
            assert_true(str_equal(t.log_ins[t.n_log_ins - 1].who.device->id, STR("d2")));
        assert_int_equal(t.n_asked, i + 1);
    }
}

static void a_question_holds_what_is_known_of_the_log_in(void **state)
{
    struct log_in *l;

    (void)state;
    authority_fixture_use_config(HOOK ", token: \"hook secret\"}");
    t.answer = "{\"result\":\"deny\"}";
    assert_int_equal(authority_fixture_log_in("a\"1@t1", "p\nw"), REGISTRY_BAD_CREDENTIALS);
    assert_string_equal(t.body, "{\"protocol\":\"mqtt\",\"listener\":\"listeners[0]\",\"client_id\":\"c1\",\"tenant\":\"t1\","
                                "\"auth_id\":\"a\\\"1\",\"user_name\":\"a\\\"1@t1\",\"password\":\"p\\u000aw\"}");
    assert_string_equal(t.authorization, "Bearer hook secret");
    l = authority_fixture_begin(0, "a1@t1", (struct str){"\xff\x00x", 3});
    assert_int_equal(authority_fixture_finish(l), REGISTRY_BAD_CREDENTIALS);
    assert_non_null(strstr(t.body, "\"password_base64\":\"/wB4\"}"));
    l = &t.log_ins[t.n_log_ins++];
    *l = (struct log_in){.wait = {.mail = {.on_mail = authority_fixture_on_mail}, .home = &t.workers.list[1].loop.mailbox}};
    l->login =
        (struct registry_login){.adapter = CONFIG_ADAPTER_HTTP, .token = STR("a.b.c"), .tenant = STR("t9"), .wait = &l->wait};
    authority_fixture_ask(l);
    assert_int_equal(authority_fixture_finish(l), REGISTRY_BAD_CREDENTIALS);
    assert_string_equal(t.body, "{\"protocol\":\"http\",\"tenant\":\"t9\",\"token\":\"a.b.c\"}");
}

static void many_who_bring_the_same_ask_once(void **state)
{
    struct log_in *list[4];

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(list); i++)
        list[i] = authority_fixture_begin(i % WORKERS, "x@t1", STR("secret"));
    authority_fixture_wait_for_questions(1);
    for (int i = 0; i < 4; i++)
        authority_fixture_turn();
    assert_int_equal(t.n_asked, 1);
    authority_fixture_answer_held("{\"result\":\"allow\",\"device\":\"d1\"}");
    for (unsigned i = 0; i < ARRAY_LEN(list); i++) {
        assert_int_equal(authority_fixture_finish(list[i]), REGISTRY_OK);
        assert_int_equal(list[i]->n_mails, 1);
    }
    assert_int_equal(authority_fixture_begin(0, "x@t1", STR("secret"))->result, REGISTRY_OK); /* remembered */
    assert_int_equal(t.n_asked, 1);
    assert_int_equal(authority_fixture_begin(0, "x@t1", STR("secreT"))->result,
                     REGISTRY_PENDING); /* of that nothing is known */
    authority_fixture_wait_for_questions(2);
}

static void what_cannot_be_told_is_not_remembered(void **state)
{
    (void)state;
    t.answer = "";
    t.status = 500;
    assert_int_equal(authority_fixture_log_in("x@t1", "pw"), REGISTRY_UNAVAILABLE);
    t.answer = "{\"result\":\"allow\",\"device\":\"d1\"}";
    t.status = 200;
    assert_int_equal(authority_fixture_log_in("x@t1", "pw"), REGISTRY_OK);
}

static void refusals_are_remembered_for_a_time_of_their_own(void **state)
{
    (void)state;
    authority_fixture_use_config(HOOK ", cache_denied: 0}");
    t.answer = "{\"result\":\"deny\"}";
    assert_int_equal(authority_fixture_log_in("x@t1", "pw"), REGISTRY_BAD_CREDENTIALS);
    t.answer = "{\"result\":\"allow\",\"device\":\"d1\"}";
    assert_int_equal(authority_fixture_log_in("x@t1", "pw"), REGISTRY_OK);
    t.answer = "{\"result\":\"deny\"}";
    assert_int_equal(authority_fixture_log_in("x@t1", "pw"), REGISTRY_OK);
    authority_fixture_use_config(HOOK ", cache: 0}");
    assert_int_equal(authority_fixture_log_in("y@t1", "pw"), REGISTRY_BAD_CREDENTIALS);
    t.answer = "{\"result\":\"allow\",\"device\":\"d1\"}";
    assert_int_equal(authority_fixture_log_in("y@t1", "pw"), REGISTRY_BAD_CREDENTIALS);
}

static void no_more_is_remembered_than_allowed(void **state)
{
    (void)state;
    authority_fixture_use_config(HOOK ", max_cached: 2}");
    t.answer = "{\"result\":\"allow\",\"device\":\"d1\"}";
    assert_int_equal(authority_fixture_log_in("x@t1", "1"), REGISTRY_OK);
    assert_int_equal(authority_fixture_log_in("x@t1", "2"), REGISTRY_OK);
    assert_int_equal(authority_fixture_log_in("x@t1", "3"), REGISTRY_OK);
    assert_int_equal(t.plane.webhook.cache.outcomes.n_entries, 2);
    assert_int_equal(authority_fixture_log_in("x@t1", "3"), REGISTRY_OK);
    assert_int_equal(t.n_asked, 3);
    assert_int_equal(authority_fixture_log_in("x@t1", "1"), REGISTRY_OK);
    assert_int_equal(t.n_asked, 4);
}

static void too_many_questions_are_not_asked(void **state)
{
    struct log_in *first, *second;

    (void)state;
    authority_fixture_use_config(HOOK ", max_waiting: 1}");
    first = authority_fixture_begin(0, "x@t1", STR("1"));
    second = authority_fixture_begin(1, "x@t1", STR("2"));
    assert_int_equal(second->result, REGISTRY_UNAVAILABLE);
    authority_fixture_wait_for_questions(1);
    authority_fixture_answer_held("{\"result\":\"allow\",\"device\":\"d1\"}");
    assert_int_equal(authority_fixture_finish(first), REGISTRY_OK);
    assert_int_equal(authority_fixture_begin(1, "x@t1", STR("2"))->result, REGISTRY_PENDING);
}

static void whoever_does_not_answer_in_time_lets_nobody_in(void **state)
{
    (void)state;
    authority_fixture_use_config(HOOK ", timeout: 20ms}");
    assert_int_equal(authority_fixture_log_in("a1@t1", "pw"), REGISTRY_UNAVAILABLE); /* though the registry knows him */
}

static void a_ttl_ends_the_log_in_and_what_is_remembered(void **state)
{
    struct log_in *l;

    (void)state;
    t.answer = "{\"result\":\"allow\",\"device\":\"d1\",\"ttl\":1000}";
    l = authority_fixture_begin(0, "x@t1", STR("pw"));
    assert_int_equal(authority_fixture_finish(l), REGISTRY_OK);
    assert_in_range(l->expires_at_s, loop_wall_ms() / 1000 + 900, loop_wall_ms() / 1000 + 1000);
    t.answer = "{\"result\":\"allow\",\"device\":\"d1\"}";
    l = authority_fixture_begin(0, "y@t1", STR("pw"));
    assert_int_equal(authority_fixture_finish(l), REGISTRY_OK);
    assert_int_equal(l->expires_at_s, 0);
}

static void the_order_is_that_of_the_configuration(void **state)
{
    static const struct {
        const char *order, *answer, *password;
        unsigned n_asked;
        enum registry_result want;
    } rows[] = {
        {", order: first", "{\"result\":\"deny\"}", "pw", 1, REGISTRY_BAD_CREDENTIALS},
        {", order: first", "{\"result\":\"ignore\"}", "pw", 1, REGISTRY_OK},
        {", order: first", "{\"result\":\"ignore\"}", "no", 1, REGISTRY_BAD_CREDENTIALS},
        {", order: last", "{\"result\":\"deny\"}", "pw", 0, REGISTRY_OK},
        {", order: last", "{\"result\":\"allow\",\"device\":\"d2\"}", "no", 1, REGISTRY_OK},
        {", order: last", "{\"result\":\"ignore\"}", "no", 1, REGISTRY_BAD_CREDENTIALS},
        {", order: last", "{}", "no", 1, REGISTRY_UNAVAILABLE},
        {", order: only", "{\"result\":\"ignore\"}", "pw", 1, REGISTRY_BAD_CREDENTIALS},
        {", order: only", "{\"result\":\"allow\",\"device\":\"d2\"}", "no", 1, REGISTRY_OK},
    };
    char more[128];

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        enum registry_result got;

        (void)snprintf(more, sizeof more, HOOK "%s, cache: 0, cache_denied: 0}", rows[i].order);
        authority_fixture_use_config(more);
        t.n_asked = 0;
        t.answer = rows[i].answer;
        got = authority_fixture_log_in("a1@t1", rows[i].password);
        if (got != rows[i].want || t.n_asked != rows[i].n_asked)
            fail_msg("row %u: %s after %u questions", i, registry_result_name(got), t.n_asked);
    }
}

static void the_end_answers_who_waits(void **state)
{
    struct log_in *l;

    (void)state;
    l = authority_fixture_begin(0, "x@t1", STR("pw"));
    authority_fixture_wait_for_questions(1);
    authority_plane_close(&t.plane);
    assert_int_equal(authority_fixture_finish(l), REGISTRY_UNAVAILABLE);
    assert_int_equal(authority_fixture_log_in("y@t1", "pw"), REGISTRY_UNAVAILABLE);
}

static void whoever_cannot_wait_is_not_let_in(void **state)
{
    struct registry_login login = {.adapter = CONFIG_ADAPTER_MQTT, .has_user_name = true, .user_name = STR("a1@t1")};
    struct principal who;

    (void)state;
    assert_int_equal(registry_authenticate(t.registry, &login, &who), REGISTRY_UNAVAILABLE);
    assert_int_equal(t.n_asked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, authority_fixture_tear_down)
        TEST(the_webhook_says_who_somebody_is),
        TEST(a_question_holds_what_is_known_of_the_log_in),
        TEST(many_who_bring_the_same_ask_once),
        TEST(what_cannot_be_told_is_not_remembered),
        TEST(refusals_are_remembered_for_a_time_of_their_own),
        TEST(no_more_is_remembered_than_allowed),
        TEST(too_many_questions_are_not_asked),
        TEST(whoever_does_not_answer_in_time_lets_nobody_in),
        TEST(a_ttl_ends_the_log_in_and_what_is_remembered),
        TEST(the_order_is_that_of_the_configuration),
        TEST(the_end_answers_who_waits),
        TEST(whoever_cannot_wait_is_not_let_in),
    };

    return cmocka_run_group_tests_name("authority_plane", tests, NULL, NULL);
}
