#include "fanout/fanout_control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"

enum { PATH_BYTES = 512, TEXT_BYTES = 256 };

static struct {
    struct loop loop;
    struct fanout_control *control;
    struct config config;
    struct str sources[2];
    char folder[PATH_BYTES / 4], data[PATH_BYTES / 2];
    unsigned n_applied, n_done;
    struct mail *held; /* an apply that is not answered yet */
    bool holds;
    struct fanout_control_put put;
} fx;

static struct config_errors errors;

static const char *in_folder(const char *name)
{
    static char path[2][PATH_BYTES];
    static unsigned which;

    which = !which;
    snprintf(path[which], sizeof path[which], "%s/%s", fx.folder, name);
    return path[which];
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(in_folder("new"), "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rename(in_folder("new"), in_folder(name)), 0);
}

/* A configuration with `n` channels. */
static const char *channels(unsigned n)
{
    static char text[TEXT_BYTES];
    size_t used = (size_t)snprintf(text, sizeof text, "channels:\n");

    for (unsigned i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "- {namespace: a, name: c%u}\n", i);
    return text;
}

static void apply(void *context, struct fanout_snapshot *next, struct mail *done, struct mailbox *home)
{
    assert_ptr_equal(context, &fx);
    assert_non_null(next);
    fx.n_applied++;
    if (fx.holds)
        fx.held = done;
    else
        mailbox_post(home, done);
}

static void release(void)
{
    fx.holds = false;
    mailbox_post(&fx.loop.mailbox, fx.held);
    fx.held = NULL;
}

static void on_done(struct fanout_control_put *put, const struct fanout_snapshot *now)
{
    assert_ptr_equal(put, &fx.put);
    assert_non_null(now);
    fx.n_done++;
}

static err open_control(const char *first, const char *second)
{
    struct fanout_control_settings settings = {.loop = &fx.loop, .config = &fx.config};
    err e;

    fx.sources[0] = str_from(first);
    fx.sources[1] = str_from(second);
    fx.config.fanout.sources = (struct config_strings){fx.sources, second ? 2 : 1};
    e = fanout_control_open(&settings, &fx.control, &errors);
    if (e == E_OK)
        fanout_control_begin(fx.control, apply, &fx);
    return e;
}

static void close_control(void)
{
    if (fx.control)
        fanout_control_end(fx.control);
    fanout_control_free(fx.control);
    fx.control = NULL;
}

static int set_up(void **state)
{
    (void)state;
    memset(&fx, 0, sizeof fx);
    snprintf(fx.folder, sizeof fx.folder, "/tmp/fanout-control-XXXXXX");
    assert_non_null(mkdtemp(fx.folder));
    snprintf(fx.data, sizeof fx.data, "%s/deep/data", fx.folder);
    fx.config.fanout.config_dir = str_from(fx.folder);
    fx.config.data_dir = str_from(fx.data);
    fx.put.on_done = on_done;
    return loop_init(&fx.loop, 0, NULL);
}

static int tear_down(void **state)
{
    static const char *const made[] = {
        "channels.yaml", "multiChannelFanoutConfig", "deep/data/fanout-config", "deep/data", "deep", ""};

    (void)state;
    close_control();
    for (size_t i = 0; i < ARRAY_LEN(made); i++)
        (void)remove(in_folder(made[i])); /* most tests make only some of them */
    loop_fini(&fx.loop);
    return 0;
}

static size_t n_channels(void)
{
    return fanout_control_now(fx.control)->n_channels;
}

static void wait_for_channels(size_t n)
{
    while (n_channels() != n)
        loop_turn(&fx.loop, -1);
}

static void wait_for_status(enum fanout_control_status status)
{
    while (fanout_control_report(fx.control)->status != status)
        loop_turn(&fx.loop, -1);
}

static void turn_until_applied(unsigned n)
{
    while (fx.n_applied < n)
        loop_turn(&fx.loop, -1);
    loop_turn(&fx.loop, 0);
}

static err put(const char *text, uint64_t generation)
{
    fx.put.text = str_from(text);
    fx.put.generation = generation;
    return fanout_control_put(fx.control, &fx.put, &errors);
}

static void a_missing_file_ends_the_start(void **state)
{
    (void)state;
    assert_int_equal(open_control("file", NULL), E_NOTFOUND);
    assert_int_equal(errors.count, 1);
    assert_string_equal(errors.items[0].file, fx.folder);
}

static void a_broken_file_ends_the_start(void **state)
{
    (void)state;
    write_file("channels.yaml", "channels:\n- {n: x}\n");
    assert_int_equal(open_control("file", NULL), E_INVAL);
    assert_int_equal(errors.items[0].line, 2);
    assert_string_equal(errors.items[0].file, in_folder("channels.yaml"));
}

static void our_file_comes_before_the_other(void **state)
{
    (void)state;
    write_file("multiChannelFanoutConfig", "channelConfigs: [{namespace: a, name: b}]");
    assert_int_equal(open_control("file", NULL), E_OK);
    assert_int_equal(n_channels(), 1);
    assert_int_equal(fanout_control_now(fx.control)->generation, 1);
    write_file("channels.yaml", channels(3));
    wait_for_channels(3);
    assert_int_equal(fanout_control_now(fx.control)->generation, 2);
    assert_int_equal(remove(in_folder("channels.yaml")), 0);
    wait_for_channels(1);
}

static void a_broken_change_leaves_what_holds(void **state)
{
    (void)state;
    write_file("channels.yaml", channels(2));
    assert_int_equal(open_control("file", NULL), E_OK);
    write_file("channels.yaml", "channels:\n- {namespace: a, name: b}\n- {namespce: a}\n");
    wait_for_status(FANOUT_CONTROL_FAILED);
    assert_int_equal(n_channels(), 2);
    assert_int_equal(fx.n_applied, 0);
    assert_int_equal(fanout_control_report(fx.control)->errors.items[0].line, 3);
    assert_int_equal(remove(in_folder("channels.yaml")), 0);
    fanout_control_reload(fx.control);
    assert_int_equal(fanout_control_report(fx.control)->status, FANOUT_CONTROL_FAILED);
    assert_int_equal(n_channels(), 2);
    write_file("channels.yaml", channels(2));
    wait_for_status(FANOUT_CONTROL_UNCHANGED);
    assert_int_equal(fx.n_applied, 0);
    write_file("channels.yaml", channels(1));
    wait_for_channels(1);
    assert_int_equal(fanout_control_report(fx.control)->status, FANOUT_CONTROL_APPLIED);
    assert_int_equal(fx.n_applied, 1);
}

static void one_broken_channel_may_be_isolated(void **state)
{
    const struct fanout_snapshot *now;

    (void)state;
    fx.config.fanout.isolates_channels = true;
    write_file("channels.yaml",
               "channels:\n- {namespace: a, name: c0, max_hops: 5}\n- {namespace: a, name: c1, max_hops: 0}\n");
    assert_int_equal(open_control("file", NULL), E_OK);
    assert_int_equal(fanout_control_report(fx.control)->status, FANOUT_CONTROL_PARTIAL);
    assert_int_equal(fanout_control_report(fx.control)->errors.items[0].line, 3);
    assert_int_equal(n_channels(), 1);
    write_file("channels.yaml", "channels:\n- {namespace: a, name: c0, max_hops: 0}\n- {namespace: a, name: c1}\n");
    wait_for_channels(2);
    now = fanout_control_now(fx.control);
    assert_int_equal(fanout_control_report(fx.control)->status, FANOUT_CONTROL_PARTIAL);
    assert_int_equal(fanout_control_report(fx.control)->errors.items[0].line, 2);
    assert_int_equal(now->generation, 2);
    assert_int_equal(now->n_isolated, 1);
    assert_int_equal(now->isolated[0].kept->max_hops, 5);
    fanout_control_reload(fx.control);
    assert_int_equal(fanout_control_report(fx.control)->status, FANOUT_CONTROL_UNCHANGED);
    write_file("channels.yaml", "channels: 7\n");
    wait_for_status(FANOUT_CONTROL_FAILED);
    assert_int_equal(n_channels(), 2);
    write_file("channels.yaml", channels(1));
    wait_for_status(FANOUT_CONTROL_APPLIED);
    assert_int_equal(fanout_control_now(fx.control)->n_isolated, 0);
}

static void a_put_isolates_nobody(void **state)
{
    (void)state;
    fx.config.fanout.isolates_channels = true;
    assert_int_equal(open_control("put", NULL), E_OK);
    assert_int_equal(put("channels:\n- {namespace: a, name: c0}\n- {namespace: a, name: c1, max_hops: 0}\n", 1), E_INVAL);
    assert_int_equal(n_channels(), 0);
}

static void the_same_text_is_not_applied_again(void **state)
{
    (void)state;
    write_file("channels.yaml", channels(2));
    assert_int_equal(open_control("file", NULL), E_OK);
    fanout_control_reload(fx.control);
    assert_int_equal(fanout_control_report(fx.control)->status, FANOUT_CONTROL_UNCHANGED);
    assert_int_equal(fx.n_applied, 0);
}

static void what_changes_during_a_change_follows_it(void **state)
{
    (void)state;
    write_file("channels.yaml", channels(1));
    assert_int_equal(open_control("file", NULL), E_OK);
    fx.holds = true;
    write_file("channels.yaml", channels(2));
    turn_until_applied(1);
    write_file("channels.yaml", channels(3));
    fanout_control_reload(fx.control);
    assert_int_equal(fx.n_applied, 1);
    release();
    wait_for_channels(3);
    assert_int_equal(fx.n_applied, 2);
}

static void the_generation_of_a_text_counts(void **state)
{
    (void)state;
    write_file("channels.yaml", "generation: 70\n");
    assert_int_equal(open_control("file", NULL), E_OK);
    assert_int_equal(fanout_control_now(fx.control)->generation, 70);
    write_file("channels.yaml", channels(1));
    wait_for_channels(1);
    assert_int_equal(fanout_control_now(fx.control)->generation, 71);
}

static void a_put_is_refused_where_the_file_decides(void **state)
{
    (void)state;
    write_file("channels.yaml", channels(1));
    assert_int_equal(open_control("file", NULL), E_OK);
    assert_false(fanout_control_takes_puts(fx.control));
    assert_int_equal(put(channels(2), 1), E_DENIED);
    assert_int_equal(errors.count, 1);
    close_control();
    assert_int_equal(open_control("file", "put"), E_OK);
    assert_int_equal(put(channels(2), 1), E_DENIED);
    assert_int_equal(remove(in_folder("channels.yaml")), 0);
    fanout_control_reload(fx.control);
    wait_for_channels(0);
    assert_int_equal(put(channels(2), 1), E_OK);
    wait_for_channels(2);
}

static void a_put_must_rise(void **state)
{
    (void)state;
    assert_int_equal(open_control("put", NULL), E_OK);
    assert_int_equal(n_channels(), 0);
    assert_int_equal(put(channels(1), 0), E_NOTFOUND);
    assert_int_equal(put(channels(1), 5), E_OK);
    assert_int_equal(put(channels(2), 6), E_AGAIN);
    wait_for_channels(1);
    assert_int_equal(fx.n_done, 1);
    assert_int_equal(put(channels(2), 5), E_LIMIT);
    assert_int_equal(put(channels(2), 4), E_LIMIT);
    assert_int_equal(put("generation: 7\nchannels: []\n", 8), E_INVAL);
    assert_int_equal(put("channels: x\n", 6), E_INVAL);
    assert_int_equal(fanout_control_report(fx.control)->status, FANOUT_CONTROL_FAILED);
    assert_int_equal(n_channels(), 1);
    assert_int_equal(put("generation: 7\nchannels: []\n", 0), E_OK);
    wait_for_channels(0);
    assert_int_equal(fx.n_done, 2);
    assert_int_equal(fanout_control_put_generation(fx.control), 7);
}

static void what_was_put_is_there_after_a_restart(void **state)
{
    (void)state;
    write_file("channels.yaml", channels(1));
    assert_int_equal(open_control("put", "file"), E_OK);
    assert_int_equal(n_channels(), 1);
    assert_int_equal(put(channels(3), 9), E_OK);
    wait_for_channels(3);
    close_control();
    assert_int_equal(open_control("put", "file"), E_OK);
    assert_int_equal(n_channels(), 3);
    assert_int_equal(fanout_control_now(fx.control)->generation, 9);
    assert_true(str_equal(fanout_control_now(fx.control)->source, STR("put")));
    assert_int_equal(put(channels(2), 9), E_LIMIT);
    fanout_control_reload(fx.control);
    assert_int_equal(fanout_control_report(fx.control)->status, FANOUT_CONTROL_UNCHANGED);
}

static void what_was_put_can_be_taken_away(void **state)
{
    (void)state;
    write_file("channels.yaml", channels(1));
    assert_int_equal(open_control("put", "file"), E_OK);
    assert_int_equal(put(channels(3), 9), E_OK);
    wait_for_channels(3);
    assert_int_equal(fanout_control_forget(fx.control, &fx.put, &errors), E_OK);
    wait_for_channels(1);
    assert_int_equal(fx.n_done, 2);
    close_control();
    assert_int_equal(open_control("put", "file"), E_OK);
    assert_int_equal(n_channels(), 1);
    assert_int_equal(put(channels(3), 9), E_LIMIT); /* it still rises */
    assert_int_equal(fanout_control_forget(fx.control, &fx.put, &errors), E_OK);
    assert_int_equal(fx.n_done, 3);
}

static void what_was_put_stays_if_what_comes_next_is_broken(void **state)
{
    (void)state;
    write_file("channels.yaml", channels(1));
    assert_int_equal(open_control("put", "file"), E_OK);
    assert_int_equal(put(channels(3), 9), E_OK);
    wait_for_channels(3);
    write_file("channels.yaml", "channels:\n- x\n");
    assert_int_equal(fanout_control_forget(fx.control, &fx.put, &errors), E_INVAL);
    assert_int_equal(errors.items[0].line, 2);
    assert_int_equal(fx.n_done, 1);
    assert_int_equal(n_channels(), 3);
    close_control();
    assert_int_equal(open_control("put", "file"), E_OK);
    assert_int_equal(n_channels(), 3);
}

static void what_cannot_be_kept_is_not_applied(void **state)
{
    (void)state;
    fx.config.data_dir = STR("/proc/nowhere");
    assert_int_equal(open_control("put", NULL), E_OK);
    assert_int_equal(put(channels(1), 1), E_IO);
    assert_int_equal(fx.n_applied, 0);
    assert_int_equal(n_channels(), 0);
}

static void the_end_answers_a_put_under_way(void **state)
{
    (void)state;
    assert_int_equal(open_control("put", NULL), E_OK);
    fx.holds = true;
    assert_int_equal(put(channels(1), 1), E_OK);
    fanout_control_end(fx.control);
    assert_int_equal(fx.n_done, 1);
    release();
    loop_turn(&fx.loop, 0);
    assert_int_equal(fx.n_done, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_missing_file_ends_the_start),
        TEST(a_broken_file_ends_the_start),
        TEST(our_file_comes_before_the_other),
        TEST(a_broken_change_leaves_what_holds),
        TEST(one_broken_channel_may_be_isolated),
        TEST(a_put_isolates_nobody),
        TEST(the_same_text_is_not_applied_again),
        TEST(what_changes_during_a_change_follows_it),
        TEST(the_generation_of_a_text_counts),
        TEST(a_put_is_refused_where_the_file_decides),
        TEST(a_put_must_rise),
        TEST(what_was_put_is_there_after_a_restart),
        TEST(what_was_put_can_be_taken_away),
        TEST(what_was_put_stays_if_what_comes_next_is_broken),
        TEST(what_cannot_be_kept_is_not_applied),
        TEST(the_end_answers_a_put_under_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
