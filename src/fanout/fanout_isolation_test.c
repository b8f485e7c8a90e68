#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"
#include "fanout/fanout_config.h"

enum { GENERATION_BEFORE = 7, GENERATION = 8, SHOWN_BYTES = 256, TEXT_BYTES = 4096, MANY = 60 };

static const struct fanout_abilities nothing = {0};
static struct config_errors errors;

static struct fanout_snapshot *build(const char *text, uint64_t generation, struct fanout_snapshot *before)
{
    struct fanout_snapshot *snapshot = NULL;

    if (fanout_config_build_isolated(str_from(text), "test", generation, &nothing, before, &snapshot, &errors) != E_OK)
        fail_msg("line %u: %s", errors.items[0].line, errors.items[0].text);
    assert_non_null(snapshot);
    return snapshot;
}

static struct fanout_snapshot *build_before(const char *text)
{
    struct fanout_snapshot *snapshot = build(text, GENERATION_BEFORE, NULL);

    assert_int_equal(errors.count, 0);
    assert_int_equal(snapshot->n_isolated, 0);
    return snapshot;
}

/* Who is there, `-` for kept from before, and who is isolated, as "a/x -a/y | 3 a/y kept, 4 ? out". */
static const char *show(const struct fanout_snapshot *s)
{
    static char text[SHOWN_BYTES];
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < s->n_channels; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s%s", i ? " " : "", s->channels[i].donor ? "-" : "",
                              s->channels[i].key.p);
    n += (size_t)snprintf(text + n, sizeof text - n, " |");
    for (size_t i = 0; i < s->n_isolated; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s %u %s %s", i ? "," : "", s->isolated[i].line,
                              s->isolated[i].key.n ? s->isolated[i].key.p : "?", s->isolated[i].kept ? "kept" : "out");
    return text;
}

static const char before_text[] =
    "channels:\n"
    "- {namespace: a, name: x, timeout: 1s}\n"
    "- {namespace: a, name: y, timeout: 2s, hosts: [y.example], subscriptions: [{subscriber: y}]}\n"
    "- {namespace: a, name: z, timeout: 3s}\n";

/* Each text comes after `before_text`. */
static const struct {
    const char *text, *want;
    size_t n_errors;
} rows[] = {
    {before_text, "a/x a/y a/z |", 0},
    /* wrong: as it was before */
    {"channels:\n- {namespace: a, name: x}\n- {namespace: a, name: y, timeout: 0s}\n", "a/x -a/y | 3 a/y kept", 1},
    {"channels:\n- {namespace: a, name: y, subscriptions: [{subscriber: 'ftp://h/'}, {retry: 1}]}\n- {namespace: a, name: x}\n",
     "-a/y a/x | 2 a/y kept", 2},
    {"channels:\n- namespace: a\n  name: y\n  subscriptions:\n  - subscriber: h\n    filters: [{exact: {}}]\n",
     "-a/y | 6 a/y kept", 1},
    /* wrong and new: left out */
    {"channels:\n- {namespace: a, name: new, nack: never}\n- {namespace: a, name: x}\n", "a/x | 2 a/new out", 1},
    {"channels:\n- {namespace: a, nme: x}\n- 7\n- {namespace: a, name: x}\n", "a/x | 2 ? out, 3 ? out", 3},
    /* the same name twice: the first counts, and what it was before is no third one */
    {"channels:\n- {namespace: a, name: x}\n- {namespace: a, name: x}\n", "a/x | 3 a/x out", 2},
    {"channels:\n- {namespace: a, name: new}\n- {namespace: a, name: new}\n", "a/new | 3 a/new out", 1},
    /* hosts at odds: the one that comes second goes back to what it was */
    {"channels:\n- {namespace: a, name: x, hosts: [h.example]}\n- {namespace: a, name: z, hosts: [h.example]}\n",
     "a/x -a/z | 3 a/z kept", 1},
    {"channels:\n- {namespace: a, name: x}\n- {namespace: a, name: new, hosts: [x.a]}\n", "a/x | 3 a/new out", 1},
    /* and is left out if that clashes as well */
    {"channels:\n- {namespace: a, name: x, hosts: [y.example]}\n- {namespace: a, name: y, nack: never}\n", "a/x | 3 a/y out",
     2},
    {"channels: []\n", " |", 0},
};

static void one_channel_that_is_wrong_does_not_stop_the_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fanout_snapshot *before = build_before(before_text), *s = build(rows[i].text, GENERATION, before);

        fanout_snapshot_unref(before);
        if (strcmp(show(s), rows[i].want) != 0 || errors.count != rows[i].n_errors)
            fail_msg("%s\n%s, %zu errors, first: %s", rows[i].text, show(s), errors.count, errors.items[0].text);
        assert_int_equal(s->generation, GENERATION);
        fanout_snapshot_unref(s);
        assert_int_equal(mem_used(MEM_CONFIG), 0);
    }
}

static void a_kept_channel_is_found_and_lives_as_long_as_it_is_kept(void **state)
{
    struct fanout_snapshot *before = build_before(before_text), *s;
    const struct fanout_channel *channel;
    struct fanout_snapshot *next;

    (void)state;
    s = build("channels:\n- {namespace: a, name: y, nack: never}\n", GENERATION, before);
    fanout_snapshot_unref(before);
    next = build("channels:\n- {namespace: a, name: x}\n- {namespace: a, name: y, nack: never}\n", GENERATION + 1, s);
    fanout_snapshot_unref(s);
    channel = fanout_snapshot_find_key(next, STR("a/y"));
    assert_non_null(channel);
    assert_int_equal(channel->timeout_ms, 2000);
    assert_int_equal(channel->donor->generation, GENERATION_BEFORE);
    assert_string_equal(channel->subscriptions[0].subscriber.text.p, "http://y");
    assert_true(fanout_snapshot_find_host(next, STR("Y.example:80"), &channel) && channel);
    assert_string_equal(channel->key.p, "a/y");
    assert_string_equal(next->isolated[0].why.p, errors.items[0].text);
    assert_false(fanout_snapshot_lacks_key(next, STR("a/y")));
    fanout_snapshot_unref(next);
    assert_int_equal(mem_used(MEM_CONFIG), 0);
}

static void a_channel_that_is_left_out_is_known_to_be(void **state)
{
    struct fanout_snapshot *s = build("channels:\n- {namespace: a, name: x, nack: never}\n- 7\n", GENERATION, NULL);

    (void)state;
    assert_int_equal(s->n_channels, 0);
    assert_true(fanout_snapshot_lacks_key(s, STR("a/x")));
    assert_true(fanout_snapshot_lacks_host(s, STR("X.a.svc.cluster.local:80")));
    assert_false(fanout_snapshot_lacks_key(s, STR("a/y")));
    assert_false(fanout_snapshot_lacks_key(s, STR("")));
    assert_false(fanout_snapshot_lacks_host(s, STR("y.a")));
    assert_false(fanout_snapshot_lacks_host(s, STR("nodot")));
    fanout_snapshot_unref(s);
}

static void what_is_wrong_with_the_whole_is_refused(void **state)
{
    static const char *const texts[] = {
        "channels: 7\n",
        "channels: []\nname: x\n",
        "generation: -1\nchannels:\n- {namespace: a, name: x, nack: never}\n",
        "channels:\n- {namespace: a, name: x, name: y}\n",
        "channels:\n- {namespace: a",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct fanout_snapshot *s = NULL;

        if (fanout_config_build_isolated(str_from(texts[i]), "test", 1, &nothing, NULL, &s, &errors) != E_INVAL)
            fail_msg("accepted: %s", texts[i]);
        assert_null(s);
        assert_true(errors.count > 0);
        assert_int_equal(mem_used(MEM_CONFIG), 0);
    }
}

static void more_wrong_channels_than_errors_are_told_are_all_isolated(void **state)
{
    char text[TEXT_BYTES];
    size_t n = (size_t)snprintf(text, sizeof text, "channels:\n- {namespace: a, name: good}\n");
    struct fanout_snapshot *s;

    (void)state;
    for (int i = 0; i < MANY; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "- {namespace: a, name: c%d, nack: never}\n", i);
    s = build(text, GENERATION, NULL);
    assert_int_equal(s->n_channels, 1);
    assert_int_equal(s->n_isolated, MANY);
    assert_int_equal(errors.count, CONFIG_MAX_ERRORS);
    assert_int_equal(errors.count + errors.omitted, MANY);
    assert_true(s->isolated[MANY - 1].why.n > 0);
    fanout_snapshot_unref(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_channel_that_is_wrong_does_not_stop_the_others),
        cmocka_unit_test(a_kept_channel_is_found_and_lives_as_long_as_it_is_kept),
        cmocka_unit_test(a_channel_that_is_left_out_is_known_to_be),
        cmocka_unit_test(what_is_wrong_with_the_whole_is_refused),
        cmocka_unit_test(more_wrong_channels_than_errors_are_told_are_all_isolated),
    };

    return cmocka_run_group_tests_name("fanout_isolation", tests, NULL, NULL);
}
