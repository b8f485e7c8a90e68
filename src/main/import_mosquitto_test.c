#include "main/import_mosquitto.h"

#include "main/import_fixture_test.h"

#define HASH "$7$101$nHVjZWwZFTVxC3oL$EKl5KNx5Ta+VpQL0oVdUinhwQJm62zwE9mXmc/h3mYY0mitE2xoKdiVMHc8FsC5co5bEcyvG8Q7xEJ6qTfod+g=="

static void on_told(void *context, enum import_kind kind, struct import_place place, const char *text)
{
    size_t n = strlen(import_fixture.told);

    (void)context;
    assert_int_equal(kind, IMPORT_LOST);
    snprintf(import_fixture.told + n, sizeof import_fixture.told - n, "%s:%u: %s\n", place.file, place.line, text);
}

static int set_up(void **state)
{
    (void)state;
    return import_fixture_begin(on_told);
}

static void passwords(const char *text)
{
    import_mosquitto_read_passwords(&import_fixture.list, STR("acme"), "pw", str_from(text));
}

static void users_become_devices_with_their_hashes(void **state)
{
    struct import_device *d;

    (void)state;
    passwords("# made by hand\n\nalice:" HASH "\r\n bob : $6$a$b \nnobody\nplain:secret\n:" HASH "\nnone:\n"
              "new:$argon2id$v=19$m=47104,t=1,p=1$a$b\nalice:$6$c$d\nbad\xff:" HASH "\nlast:$7$x");
    assert_int_equal(import_fixture.list.n_devices, 3);
    assert_int_equal(import_fixture.list.n_failed_devices, 7);
    assert_int_equal(import_fixture.list.n_lost, 7);
    assert_null(import_list_find(&import_fixture.list, STR("acme"), STR("plain")));
    d = import_list_find(&import_fixture.list, STR("acme"), STR("alice"));
    assert_int_equal(d->place.line, 3);
    assert_null(d->device);
    assert_string_equal(d->credentials, "{\"type\":\"hashed-password\",\"auth-id\":\"alice\",\"secrets\":[{\"hash-function\":"
                                        "\"mosquitto\",\"pwd-hash\":\"" HASH "\"}]}");
    d = import_list_find(&import_fixture.list, STR("acme"), STR("bob"));
    assert_non_null(strstr(d->credentials, "\"auth-id\":\"bob\"") && strstr(d->credentials, "\"$6$a$b\"") ? d : NULL);
    assert_string_equal(import_fixture.told,
                        "pw:5: nobody is not NAME:HASH\n"
                        "pw:6: plain has no hash that begins with $6$ or $7$: mosquitto_passwd -U makes hashes of plain "
                        "passwords\n"
                        "pw:7:  is not NAME:HASH\n"
                        "pw:8: none is not NAME:HASH\n"
                        "pw:9: new has an argon2id hash, which cannot be checked here: give the device a new password\n"
                        "pw:10: alice is there twice\n"
                        "pw:11: bad\xff is not UTF-8\n");
}

/* Each line below `user g`, with what becomes of it. */
static void what_an_acl_says_is_carried_over_or_told(void **state)
{
    static const struct {
        const char *line;
        const char *told; /* NULL: every device may do that */
        const char *via;  /* the device that names g now */
    } rows[] = {
        {"topic write telemetry", NULL, NULL},
        {"topic write telemetry/acme/g", NULL, NULL},
        {"topic telemetry//g/#", NULL, NULL},
        {"topic write event//", NULL, NULL},
        {"topic read command///req/#", NULL, NULL},
        {"topic read command/acme/g/req/#", NULL, NULL},
        {"topic read c//+/q/#", NULL, NULL},
        {"topic write command///res/#", NULL, NULL},
        {"topic read error///#", NULL, NULL},
        {"topic readwrite #", NULL, NULL},
        {"topic #", NULL, NULL},
        {"pattern write telemetry/acme/%u", NULL, NULL},
        {"pattern read command//%u/req/#", NULL, NULL},
        {"topic write telemetry//d1", "", "d1"},
        {"topic write telemetry/acme/d1", "", "d1"},
        {"topic write event/+/d1/#", "", "d1"},
        {"topic readwrite t//new", "", "new"},
        {"topic read command//d1/req/#", "", "d1"},
        {"topic write telemetry/#", "names no single device", NULL},
        {"topic write telemetry/+/+", "names no single device", NULL},
        {"topic write telemetry/other/d1", "of another tenant", NULL},
        {"pattern write telemetry//%c", "names no single device", NULL},
        {"topic read telemetry/#", "nobody subscribes to", NULL},
        {"topic write error///#", "nobody publishes to", NULL},
        {"topic read #", "is no limit any more", NULL},
        {"topic read plant/a b/+", "plant/a b/+ is no limit any more", NULL},
        {"topic plant", "plant is no limit any more", NULL},
        {"pattern write sensor/%u/data", "sensor/%u/data is no limit", NULL},
        {"topic deny plant/#", "cannot be denied", NULL},
        {"pattern deny telemetry/#", "cannot be denied", NULL},
        {"topic read $SYS/#", "no $SYS", NULL},
        {"topic reed plant/#", "reed is no access", NULL},
        {"topic", "there is no topic", NULL},
        {"tpoic plant", "expected user, topic or pattern", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct import_acl_counts counts = {0};
        char text[128];

        assert_int_equal(set_up(NULL), 0);
        passwords("g:$6$a$b\nd1:$6$a$b\n");
        snprintf(text, sizeof text, "# x\nuser g\n%s\n", rows[i].line);
        import_mosquitto_read_acl(&import_fixture.list, STR("acme"), "acl", str_from(text), &counts);
        assert_int_equal(counts.n_lines, 1);
        if (counts.n_held != !rows[i].told || counts.n_gateway != !!rows[i].via)
            fail_msg("%s: %zu held, %zu via, %s", rows[i].line, counts.n_held, counts.n_gateway, import_fixture.told);
        if (rows[i].told && rows[i].told[0] &&
            (!strstr(import_fixture.told, "acl:3: ") || !strstr(import_fixture.told, rows[i].told)))
            fail_msg("%s: %s", rows[i].line, import_fixture.told);
        if (rows[i].via)
            assert_string_equal(import_list_find(&import_fixture.list, STR("acme"), str_from(rows[i].via))->device,
                                "{\"via\":[\"g\"]}");
        assert_int_equal(import_fixture_tear_down(NULL), 0);
    }
}

static void who_is_meant_changes_from_line_to_line(void **state)
{
    struct import_acl_counts counts = {0};
    struct import_device *d;

    (void)state;
    passwords("g1:$6$a$b\ng2:$6$a$b\n");
    import_mosquitto_read_acl(&import_fixture.list, STR("acme"), "acl",
                              STR("topic write telemetry\n"
                                  "topic read plant/#\n"
                                  "user g1\n"
                                  "topic write telemetry//d\n"
                                  "topic write event//d\n"
                                  "user g2\n"
                                  "topic write telemetry//d\n"
                                  "user who else\n"
                                  "topic write telemetry"),
                              &counts);
    assert_int_equal(counts.n_lines, 6);
    assert_int_equal(counts.n_gateway, 3);
    assert_int_equal(counts.n_held, 1);
    assert_string_equal(import_fixture.told,
                        "acl:1: anonymous clients cannot use telemetry: topics of devices are for those that log in\n"
                        "acl:2: plant/# is no limit any more: clients of a tenant may publish and subscribe to all of its "
                        "topics\n"
                        "acl:8: who else is not in the password file\n");
    d = import_list_find(&import_fixture.list, STR("acme"), STR("d"));
    assert_string_equal(d->device, "{\"via\":[\"g1\",\"g2\"]}");
    assert_null(d->credentials);
    assert_int_equal(import_fixture.list.n_devices, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(users_become_devices_with_their_hashes, set_up, import_fixture_tear_down),
        cmocka_unit_test(what_an_acl_says_is_carried_over_or_told),
        cmocka_unit_test_setup_teardown(who_is_meant_changes_from_line_to_line, set_up, import_fixture_tear_down),
    };

    return cmocka_run_group_tests_name("import_mosquitto", tests, NULL, NULL);
}
