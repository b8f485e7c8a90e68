#include "broker/broker_refresh.h"

#include "broker/broker_fixture.h"

static struct registry *registry_of(const char *tenants)
{
    static struct config_errors errors;
    struct buf text = {0};
    struct config_source source = {.name = "test.yaml"};
    struct config *config;
    struct registry *registry;

    assert_int_equal(buf_printf(&text, MEM_TEST, "kafka: {bootstrap: k:9092}\nlisteners: [{mqtt: \"127.0.0.1:1883\"}]\n"),
                     E_OK);
    assert_int_equal(buf_printf(&text, MEM_TEST, "tenants: %s\n", tenants), E_OK);
    source.text = buf_str(&text);
    if (config_load(&source, &config, &errors) != E_OK)
        fail_msg("%s", errors.items[0].text);
    buf_free(&text, MEM_TEST);
    registry = registry_new(config);
    config_unref(config);
    return registry;
}

/* A client of tenant `t` that logged in as a device. */
static void enter(struct registry *registry, struct client *cl, const char *device, uint32_t expiry_s, const char *will)
{
    struct registry_login login = {.tenant = STR("t"),
                                   .adapter = CONFIG_ADAPTER_MQTT,
                                   .has_user_name = true,
                                   .has_password = true,
                                   .user_name = str_from(device),
                                   .password = STR("pw")};
    struct principal principal;

    assert_int_equal(registry_authenticate(registry, &login, &principal), REGISTRY_OK);
    CONNECT(cl, device, .tenant = principal.tenant, .device = principal.device, .expiry_s = expiry_s, .will = will);
}

static bool is_refreshed;

static void on_refreshed(struct broker_refresh *r)
{
    (void)r;
    is_refreshed = true;
}

static struct broker_refresh pass;

static void begin_refresh(struct registry *newer)
{
    is_refreshed = false;
    broker_refresh_start(&pass, shard_at(0), newer, on_refreshed);
}

static void refresh(struct registry *newer)
{
    begin_refresh(newer);
    while (!is_refreshed)
        loop_turn(&fx.workers.list[0].loop, 0);
}

static void a_newer_registry_throws_out_whom_it_does_not_let_in(void **state)
{
    struct registry *older =
        registry_of("{t: {devices: {stays: {password: pw}, off: {password: pw}, gone: {password: pw}, away: {password: pw}}}}");
    struct registry *newer = registry_of("{t: {devices: {stays: {password: new}, off: {enabled: false}}}}");
    int64_t registry_bytes;
    struct client stays, off, gone, away;

    (void)state;
    enter(older, &stays, "stays", 100, "s");
    enter(older, &off, "off", 100, "o");
    enter(older, &gone, "gone", 100, "g");
    enter(older, &away, "away", 100, NULL);
    lose(&away);
    registry_unref(older);
    registry_bytes = mem_used(MEM_REGISTRY);
    refresh(newer);
    assert_int_equal(stays.n_barred, 0);
    assert_int_equal(off.n_barred, 1);
    assert_int_equal(gone.n_barred, 1);
    assert_true(strchr(fx.wills, 'o') && strchr(fx.wills, 'g') && !strchr(fx.wills, 's'));
    assert_int_equal(shard_at(0)->sessions.n_entries, 2); /* stays, and off, who may come back */
    assert_true(mem_used(MEM_REGISTRY) < registry_bytes); /* nobody needs the older one any more */
    registry_unref(newer);
}

/* A client of which there may be many. */
struct light {
    struct link link;
    struct session *ss;
    bool is_barred;
};

static void light_barred(struct link *link)
{
    struct light *cl = CONTAINER_OF(link, struct light, link);

    cl->is_barred = true;
    session_detach(cl->ss, link, true);
    cl->ss = NULL;
}

static void enter_lightly(struct registry *registry, struct light *cl, unsigned number, bool is_device)
{
    static const struct link_ops ops = {.barred = light_barred};
    char name[16];
    struct registry_login login = {.tenant = STR("t"),
                                   .is_anonymous_allowed = true,
                                   .has_user_name = is_device,
                                   .has_password = is_device,
                                   .password = STR("pw")};
    struct session_request request = {.receive_maximum = 1};
    bool is_present;

    snprintf(name, sizeof name, "%c%u", is_device ? 'd' : 'o', number);
    login.user_name = request.client_id = str_from(name);
    assert_int_equal(registry_authenticate(registry, &login, &request.principal), REGISTRY_OK);
    *cl = (struct light){.link = {&ops}};
    cl->ss = session_attach(shard_at(0), &request, &cl->link, &is_present);
    assert_non_null(cl->ss);
}

static struct registry *registry_with(unsigned first, unsigned step, unsigned n)
{
    struct buf text = {0};
    struct registry *registry;

    assert_int_equal(buf_append(&text, MEM_TEST, STR("{t: {devices: {")), E_OK);
    for (unsigned i = first; i < n; i += step)
        assert_int_equal(buf_printf(&text, MEM_TEST, "d%u: {password: pw},", i), E_OK);
    assert_int_equal(buf_append(&text, MEM_TEST, (struct str){"}}}", 4}), E_OK); /* with its NUL */
    registry = registry_of(text.p + text.head);
    buf_free(&text, MEM_TEST);
    return registry;
}

/* Half of the devices are gone; others come, some leave, and the table of sessions grows between the turns of the pass. */
static void sessions_may_come_and_go_while_a_registry_is_exchanged(void **state)
{
    enum { DEVICES = 3000, PER_TURN = 500 };
    static struct light clients[DEVICES], others[DEVICES];
    struct registry *older = registry_with(0, 1, DEVICES), *newer = registry_with(1, 2, DEVICES);
    struct broker_limits limits = *broker_limits(shard_at(0));
    unsigned n_others = 0, n_left = DEVICES, turns = 0;

    (void)state;
    limits.sessions = 0;
    broker_set_limits(shard_at(0), &limits);
    for (unsigned i = 0; i < DEVICES; i++)
        enter_lightly(older, &clients[i], i, true);
    begin_refresh(newer);
    for (; !is_refreshed; turns++) {
        for (unsigned i = 0; i < PER_TURN && n_others < DEVICES; i++, n_others++)
            enter_lightly(newer, &others[n_others], n_others, false);
        for (unsigned i = 0; i < PER_TURN / 5; i++)
            if (clients[--n_left].ss) {
                session_detach(clients[n_left].ss, &clients[n_left].link, true);
                clients[n_left].ss = NULL;
            }
        loop_turn(&fx.workers.list[0].loop, 0);
    }
    assert_true(turns > 1);
    for (unsigned i = 0; i < n_left; i++) {
        assert_true(clients[i].is_barred == (i % 2 == 0));
        assert_true(clients[i].is_barred || clients[i].ss->principal.tenant->registry == newer);
    }
    for (unsigned i = 0; i < n_others; i++)
        assert_false(others[i].is_barred);
    while (n_left > 0) /* their links do not say much */
        if (clients[--n_left].ss)
            session_detach(clients[n_left].ss, &clients[n_left].link, true);
    for (unsigned i = 0; i < n_others; i++)
        session_detach(others[i].ss, &others[i].link, true);
    registry_unref(older);
    registry_unref(newer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(a_newer_registry_throws_out_whom_it_does_not_let_in),
        FIXTURE_TEST(sessions_may_come_and_go_while_a_registry_is_exchanged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
