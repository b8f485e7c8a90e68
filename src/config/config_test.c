#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"

enum { MAX_SETTINGS = 8 };

/* What every complete configuration has. */
#define BASE "kafka: {bootstrap: k1:9092}\nlisteners: [{mqtt: 127.0.0.1:1883}]\n"

static struct config_errors errors;

static err load(const char *text, const char *const *settings, struct config **out_config)
{
    struct config_setting list[MAX_SETTINGS];
    struct config_source source = {.text = str_from(text), .name = "test.yaml", .settings = list};

    while (settings && settings[source.setting_count]) {
        list[source.setting_count].text = settings[source.setting_count];
        source.setting_count++;
    }
    return config_load(&source, out_config, &errors);
}

static struct config *must_load(const char *text, const char *const *settings)
{
    struct config *config = NULL;

    if (load(text, settings, &config) != E_OK)
        fail_msg("line %u: %s", errors.items[0].line, errors.items[0].text);
    return config;
}

static int nothing_is_left(void **state)
{
    (void)state;
    return mem_used(MEM_CONFIG) != 0;
}

static void what_is_not_given_has_its_default(void **state)
{
    struct config *config = must_load(BASE, NULL);

    (void)state;
    assert_false(config->kafka.is_embedded);
    assert_string_equal(config->kafka.topic_prefix.p, "");
    assert_int_equal(config->kafka.max_inflight_bytes, 32 << 20);
    assert_int_equal(config->kafka.properties.count, 0);
    assert_string_equal(config->listeners[0].tenant.p, "");
    assert_true(config->listeners[0].is_hono);
    assert_false(config->listeners[0].is_anonymous);
    assert_string_equal(config->admin_listen.host.p, "127.0.0.1");
    assert_int_equal(config->admin_listen.port, 8081);
    assert_string_equal(config->data_dir.p, "/var/lib/millrace");
    assert_int_equal(config->tenant_count, 0);
    assert_int_equal(config->hono_delivery_timeout_ms, 0);
    assert_int_equal(config->workers, 0);
    assert_int_equal(config->log_level, LOG_LEVEL_INFO);
    assert_int_equal(config->log_levels[LOG_MQTT], LOG_LEVEL_INFO);
    assert_int_equal(config->limits.receive_maximum, 1000);
    assert_true(config->limits.max_packet_bytes >= 256 << 10);
    assert_true(config->limits.output_bytes >= 1 << 20);
    assert_int_equal(config->limits.connect_timeout_ms, 10000);
    assert_int_equal(config->limits.max_connections, 0);
    config_unref(config);
}

static const char everything[] =
    "kafka:\n"
    "  bootstrap: \"k1:9092,k2:9092\"\n"
    "  properties: {security.protocol: SASL_SSL, linger.ms: 5}\n"
    "  topic_prefix: dev.\n"
    "listeners:\n"
    "  - {mqtt: \"0.0.0.0:1883\", tenant: demo, hono: false, anonymous: true, tenant_fixed: true}\n"
    "  - mqtt: \"[::1]:0\"\n"
    "admin: {listen: \"\"}\n"
    "data_dir: /tmp/x\n"
    "tenants:\n"
    "  demo:\n"
    "    adapters: [{type: hono-mqtt, enabled: true}, {type: hono-http}]\n"
    "    defaults: {ttl: 60, content-type: text/plain}\n"
    "    minimum-message-size: 4096\n"
    "    resource-limits:\n"
    "      max-ttl: 3600\n"
    "      max-connections: 5\n"
    "      data-volume: {effective-since: \"1970-01-02T00:00:00Z\", max-bytes: 1000, period: {mode: days, no-of-days: 7}}\n"
    "    devices:\n"
    "      sensor-1: {auth_id: s1, password: secret, via: [gw, gw2], defaults: {a: b}}\n"
    "      gw: {password: x}\n"
    "      gw2:\n"
    "      sensor-2: {via: gw, enabled: false}\n"
    "  empty:\n"
    "hono: {delivery_timeout: 3s}\n"
    "log: {level: warn, format: json, levels: {mqtt: debug}}\n"
    "limits: {max_packet_bytes: 64KiB, keep_alive_maximum: 1m}\n"
    "workers: 3\n";

static void every_kind_of_value_arrives(void **state)
{
    struct config *config = must_load(everything, NULL);
    const struct config_tenant *ten = &config->tenants[0];

    (void)state;
    assert_string_equal(config->kafka.bootstrap.p, "k1:9092,k2:9092");
    assert_string_equal(config->kafka.properties.items[1].name.p, "linger.ms");
    assert_string_equal(config->kafka.properties.items[1].value.p, "5");
    assert_int_equal(config->listener_count, 2);
    assert_string_equal(config->listeners[0].id.p, "listeners[0]");
    assert_int_equal(config->listeners[0].line, 6);
    assert_false(config->listeners[0].is_hono);
    assert_true(config->listeners[0].is_anonymous && config->listeners[0].is_tenant_fixed);
    assert_string_equal(config->listeners[1].mqtt.host.p, "::1");
    assert_string_equal(config->listeners[1].mqtt.text.p, "[::1]:0");
    assert_int_equal(config->admin_listen.host.n, 0);
    assert_int_equal(config->tenant_count, 2);
    assert_string_equal(ten->id.p, "demo");
    assert_int_equal(ten->adapters[0].type, CONFIG_ADAPTER_MQTT);
    assert_true(ten->adapters[0].is_enabled);
    assert_false(ten->adapters[1].is_enabled);
    assert_string_equal(ten->defaults.items[0].value.p, "60");
    assert_int_equal(ten->limits.max_ttl_s, 3600);
    assert_int_equal(ten->limits.max_ttl_telemetry_qos0_s, -1);
    assert_int_equal(ten->limits.minimum_message_size, 4096);
    assert_int_equal(ten->limits.max_connections, 5);
    assert_int_equal(ten->limits.data_volume.since_ms, 24 * 3600 * 1000);
    assert_int_equal(ten->limits.data_volume.max, 1000);
    assert_int_equal(ten->limits.data_volume.period, CONFIG_PERIOD_DAYS);
    assert_int_equal(ten->limits.data_volume.days, 7);
    assert_int_equal(ten->limits.connection_duration.max, -1);
    assert_int_equal(ten->limits.connection_duration.since_ms, 0);
    assert_int_equal(ten->limits.connection_duration.period, CONFIG_PERIOD_MONTHLY);
    assert_int_equal(ten->device_count, 4);
    assert_string_equal(ten->devices[0].auth_id.p, "s1");
    assert_string_equal(ten->devices[0].password.p, "secret");
    assert_int_equal(ten->devices[0].via.count, 2);
    assert_string_equal(ten->devices[0].defaults.items[0].name.p, "a");
    assert_string_equal(ten->devices[1].auth_id.p, "gw");
    assert_int_equal(ten->devices[2].auth_id.n, 0);
    assert_int_equal(ten->devices[3].via.count, 1);
    assert_string_equal(ten->devices[3].via.items[0].p, "gw");
    assert_false(ten->devices[3].is_enabled);
    assert_int_equal(config->hono_delivery_timeout_ms, 3000);
    assert_int_equal(config->log_format, CONFIG_LOG_JSON);
    assert_int_equal(config->log_levels[LOG_MQTT], LOG_LEVEL_DEBUG);
    assert_int_equal(config->log_levels[LOG_KAFKA], LOG_LEVEL_WARN);
    assert_int_equal(config->limits.max_packet_bytes, 64 << 10);
    assert_int_equal(config->limits.keep_alive_maximum_ms, 60000);
    assert_int_equal(config->workers, 3);
    config_unref(config);
}

static void a_snapshot_lives_until_its_last_holder_lets_go(void **state)
{
    struct config *config = must_load(BASE, NULL);

    (void)state;
    assert_ptr_equal(config_ref(config), config);
    config_unref(config);
    assert_string_equal(config->kafka.bootstrap.p, "k1:9092");
    config_unref(config);
    config_unref(NULL);
}

/* The error that is expected first, by its line and a part of its text. */
struct refusal {
    const char *text;
    unsigned line;
    const char *says;
};

static void must_refuse(const struct refusal *row, const char *const *settings)
{
    struct config *config = NULL;

    if (load(row->text, settings, &config) == E_OK)
        fail_msg("accepted: %s", row->text);
    if (errors.items[0].line != row->line || !strstr(errors.items[0].text, row->says))
        fail_msg("%s\n  wanted %u: %s\n  got %u: %s", row->text, row->line, row->says, errors.items[0].line,
                 errors.items[0].text);
    assert_null(config);
}

static void what_is_wrong_is_told_with_its_line(void **state)
{
    static const struct refusal rows[] = {
        /* names */
        {BASE "limit: {}\n", 3, "limit: unknown option (did you mean limits?)"},
        {BASE "limits:\n  recieve_maximum: 3\n", 4, "limits.recieve_maximum: unknown option (did you mean receive_maximum?)"},
        {BASE "limits:\n  zzz: 3\n", 4, "limits.zzz: unknown option"},
        {BASE "tenants:\n  t: {devices: {d: {pasword: x}}}\n", 4,
         "tenants.t.devices.d.pasword: unknown option (did you mean password?)"},
        {BASE "tenants:\n  \"a b\": {}\n", 4, "a name may only have"},
        {BASE "tenants:\n  t: {devices: {\"d@t\": {}}}\n", 4, "a name may only have"},
        {"kafka: {bootstrap: a}\nlisteners: [{mqtt: \"a:1\", mqtt2: \"a:2\"}]\n", 2,
         "listeners[0].mqtt2: unknown option (did you mean mqtt?)"},
        /* given twice */
        {BASE "workers: 1\nworkers: 2\n", 4, "workers: given twice, first in line 3"},
        {BASE "tenants: {t: {}, u: {},\n  t: {}}\n", 4, "t: given twice, first in line 3"},
        /* types */
        {BASE "workers: [1]\n", 3, "workers: expected a single value, found a list"},
        {BASE "limits: 3\n", 3, "limits: expected a map, found a single value"},
        {BASE "tenants: [a]\n", 3, "tenants: expected a map, found a list"},
        {BASE "workers: many\n", 3, "workers: \"many\": expected a whole number"},
        {BASE "kafka2: \"\\e[31m\"\n", 3, "kafka2: unknown option (did you mean kafka?)"},
        {BASE "data_dir: \"\\0\"\n", 3, "NUL"},
        {BASE "drain_timeout: 3 seconds\n", 3, "expected a duration such as"},
        {BASE "limits: {output_bytes: 1MB}\n", 3, "expected a size such as"},
        {BASE "admin: {listen: localhost}\n", 3, "expected HOST:PORT"},
        {BASE "kafka: {embedded: yes}\n", 3, "given twice"},
        {BASE "tenants: {t: {enabled: yes}}\n", 3, "tenants.t.enabled: \"yes\": expected true or false"},
        {BASE "log: {level: warning}\n", 3, "log.level: \"warning\": unknown value (did you mean warn?)"},
        {BASE "log: {level: loud}\n", 3, "unknown value; one of error, warn, info, debug"},
        {BASE "log: {levels: {mqtt: loud}}\n", 3, "log.levels.mqtt: \"loud\": unknown value"},
        {BASE "log: {levels: {mqqt: debug}}\n", 3, "log.levels.mqqt: unknown part of the program (did you mean mqtt?)"},
        {BASE "tenants: {t: {defaults: {a: [1]}}}\n", 3, "tenants.t.defaults.a: expected a single value, found a list"},
        {BASE "tenants: {t: {defaults: {a: }}}\n", 3, "tenants.t.defaults.a: a value is missing"},
        /* ranges */
        {BASE "limits: {receive_maximum: 0}\n", 3, "must be from 1 to 65535"},
        {BASE "limits: {receive_maximum: 65536}\n", 3, "must be from 1 to 65535"},
        {BASE "limits: {connect_timeout: 1ms}\n", 3, "must be from 100ms to 1h"},
        {BASE "limits: {max_packet_bytes: 1GiB}\n", 3, "must be from 1KiB to 256MiB"},
        {BASE "limits: {keep_alive_maximum: 1500ms}\n", 3, "must be whole seconds"},
        {BASE "limits: {max_packet_bytes: 64MiB}\n", 3, "must be at least limits.max_packet_bytes"},
        {BASE "tenants: {t: {devices: {d: {password: \"\"}}}}\n", 3, "tenants.t.devices.d.password: must not be empty"},
        /* references */
        {"kafka: {bootstrap: a}\nlisteners:\n  - {mqtt: a:1, tenant: dmeo}\ntenants: {demo: {}}\n", 3,
         "listeners[0]: tenant dmeo is not configured (did you mean demo?)"},
        {"kafka: {bootstrap: a}\nlisteners:\n  - {mqtt: a:1, anonymous: true}\n", 3, "anonymous clients need a tenant"},
        {"kafka: {bootstrap: a}\nlisteners:\n  - {mqtt: a:1, tenant_fixed: true}\n", 3, "tenant_fixed needs a tenant"},
        {"kafka: {bootstrap: a}\nlisteners:\n  - {mqtt: a:1}\n  - {mqtt: A:1}\n", 4,
         "listeners[1]: A:1 is the address of listeners[0]"},
        {"kafka: {bootstrap: a}\nlisteners:\n  - {mqtt: 127.0.0.1:8081}\n", 3, "is the address of admin.listen"},
        {"kafka: {bootstrap: a}\nlisteners:\n  - {tenant: demo}\ntenants: {demo: }\n", 3,
         "listeners[0]: mqtt, mqtts, http or https is missing"},
        {"kafka: {bootstrap: a}\nlisteners:\n  - {mqtt: a:1, http: a:2}\n", 3, "listeners[0]: has several of mqtt, mqtts"},
        {"kafka: {bootstrap: a}\nlisteners:\n  - {mqtts: a:1}\n", 3, "listeners[0].tls.cert is missing"},
        {"kafka: {bootstrap: a}\nlisteners:\n  - {mqtt: a:1, tls: {cert: a.pem}}\n", 3, "has no use without mqtts or https"},
        {"kafka: {bootstrap: a}\nlisteners:\n  - {https: a:1, tls: {cert: [a, b], key: a}}\n", 3,
         "as many files as cert (2), has 1"},
        {"kafka: {bootstrap: a}\nlisteners:\n  - {mqtts: a:1, tls: {cert: a, crl: b}}\n", 3,
         "crl: has no use without client_ca"},
        {"kafka: {bootstrap: a}\nlisteners:\n  - {mqtts: a:1, tls: {cert: a, client_ca: b, client_auth: none}}\n", 3,
         "client_ca: has no use with client_auth: none"},
        {"kafka: {bootstrap: a}\nlisteners:\n  - {mqtts: a:1, tls: {cert: a, min_version: 1.1}}\n", 3, "min_version"},
        {BASE "admin:\n  listen: 127.0.0.1:1\n  tls: {key: a}\n", 5, "admin.tls.cert is missing"},
        {BASE "admin: {listen: 0.0.0.0:8081}\n", 3, "admin.users is missing"},
        {BASE "admin:\n  users:\n    ops: {role: write}\n", 5, "admin.users.ops: password or token is missing"},
        {BASE "admin:\n  users:\n    a: {token: 0123456789abcdef}\n    b: {token: 0123456789abcdef}\n", 6, "is that of a"},
        {BASE "admin: {users: {ops: {password: short}}}\n", 3, "admin.users.ops.password: is too short (at least 8 bytes)"},
        {BASE "admin: {users: {ops: {password: \"\"}}}\n", 3, "admin.users.ops.password: must not be empty"},
        {BASE "https_client: {cert: a, key: [a, b]}\n", 3, "https_client.key: must have as many files"},
        {BASE "admin: {tls: {cert: a, psk: true}}\n", 3, "nobody logs in there by a key"},
        {BASE "command: {role: adapter}\n", 3, "command.role: only with command.routing: router or link"},
        {BASE "command: {role: router, routing: router, shared: false}\n", 3, "an instance that is alone has all roles"},
        {BASE "command: {routing: link}\n", 3, "command.link.listen is missing"},
        {BASE "command: {routing: link, link: {listen: a:1, tls: {client_ca: b}}}\n", 3, "command.link.tls.cert is missing"},
        {BASE "command: {routing: link, link: {listen: a:1, tls: {cert: b}}}\n", 3, "command.link.tls.client_ca is missing"},
        {BASE "command: {routing: link, link: {listen: a:1, tls: {cert: b, client_ca: b, psk: true}}}\n", 3,
         "instances have certificates"},
        {BASE "command: {routing: link, link: {listen: a:1, tls: {cert: b, client_ca: b, ticket_keys: k}}}\n", 3,
         "instances resume no sessions"},
        {BASE "command: {routing: link, link: {listen: 127.0.0.1:8081, tls: {cert: b, client_ca: b}}}\n", 3,
         "is the address of admin.listen"},
        {"kafka: {bootstrap: a}\nlisteners:\n  - {http: a:1, hono: false}\n", 3, "leaves an http listener nothing to serve"},
        {"kafka: {bootstrap: a}\nlisteners:\n  - {mqtt: a:1}\n  - {http: A:1}\n", 4,
         "listeners[1]: A:1 is the address of listeners[0]"},
        {BASE "http: {max_body_bytes: 33MiB}\n", 3, "must be at most kafka.max_inflight_bytes"},
        {"kafka: {bootstrap: a}\n", 0, "listeners is missing"},
        {"listeners: [{mqtt: a:1}]\n", 0, "kafka.bootstrap is missing"},
        {"kafka: {bootstrap: a, embedded: true}\nlisteners: [{mqtt: a:1}]\n", 1, "has no use with kafka.embedded"},
        {"kafka: {embedded: true}\nlisteners: [{mqtt: a:1}]\nregistry: {shared: true}\n", 3, "needs a real Kafka"},
        {BASE "command: {ack_topic: hono.command}\n", 3, "command.ack_topic: the topics hono.command. are for something else"},
        {BASE "command: {ack_topic: \"a b\"}\n", 3, "command.ack_topic"},
        {"kafka:\n  bootstrap: a\n  properties: {bootstrap.servers: b}\nlisteners: [{mqtt: a:1}]\n", 3, "use kafka.bootstrap"},
        {BASE "tenants: {t: {resource-limits: {data-volume: {effective-since: 2026-02-30T00:00:00Z}}}}\n", 3,
         "resource-limits.data-volume.effective-since: is no date and time"},
        {BASE "tenants: {t: {devices: {\n  s: {via: gtw},\n  gw: {}}}}\n", 4,
         "via names gtw, which is no device of the tenant (did you mean gw?)"},
        {BASE "tenants: {t: {devices: {\n  s: {via: [s]}}}}\n", 4, "via names the device itself"},
        {BASE "tenants: {t: {devices: {\n  a: {password: x},\n  b: {auth_id: a, password: y}}}}\n", 5,
         "device b: its auth_id a is that of device a too"},
        {BASE "tenants: {t: {adapters: [{type: hono-mqtt},\n  {type: hono-mqtt}]}}\n", 4, "the same adapter as in line 3"},
        {BASE "tenants: {t: {adapters: [{type: mqtt}]}}\n", 3, "unknown value"},
        {BASE "tenants: {t: {adapters: [{enabled: true}]}}\n", 3, "tenants.t.adapters[0]: type is missing"},
        {"fanout: {lisen: a:1}\n", 1, "did you mean listen?"},
        {"fanout: {listen: 127.0.0.1:8081}\n", 1, "is the address of admin.listen"},
        {"fanout: {listen: \"\"}\n", 1, "fanout.listen is missing"},
        {"fanout: {sources: [file, api]}\n", 1, "none of file, put"},
        {"fanout: {sources: [put, put]}\n", 1, "put is there twice"},
        {"fanout: {sources: put}\nadmin: {listen: 0.0.0.0:8081}\n", 1, "fanout.put_token is missing"},
        {"fanout:\n  stateless: {allow: [a]}\n", 2, "token is missing"},
        {"fanout:\n  park_delay: 20m\n", 2, "longer than fanout.park_delay_max"},
        {"fanout: {}\nto_mqtt: [{topic: t, mqtt: m}]\n", 0, "kafka.bootstrap is missing"},
        /* YAML */
        {"- a\n", 1, "expected a map of options"},
        {"a: b: c\n", 1, "not YAML"},
        {"kafka: {bootstrap: a\n", 2, "not YAML"},
        {"kafka: &a {bootstrap: a}\n", 1, "anchors, aliases and tags are not supported"},
        {"kafka: *a\n", 1, "anchors, aliases and tags are not supported"},
        {"workers: !!int 3\n", 1, "anchors, aliases and tags are not supported"},
        {"workers: 1\n---\nworkers: 2\n", 2, "a second document"},
        {"[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]\n", 1, "nested too deeply"},
        {"{a: b}: c\n", 1, "a key must be a single word"},
        {"workers: \xff\n", 1, "not YAML"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        must_refuse(&rows[i], NULL);
}

static void all_errors_are_told_in_order_up_to_a_bound(void **state)
{
    static const unsigned lines[] = {1, 2, 5, 6};
    struct buf text = {0};
    struct config *config;

    (void)state;
    assert_int_equal(
        load("workers: x\nlistener: []\nkafka: {bootstrap: a}\nlisteners:\n  - {mqtt: a:1, tenant: b}\nlimits: 1\n", NULL,
             &config),
        E_INVAL);
    assert_int_equal(errors.count, 4);
    for (size_t i = 0; i < errors.count; i++)
        assert_int_equal(errors.items[i].line, lines[i]);
    for (int i = 0; i < 50; i++)
        assert_int_equal(buf_printf(&text, MEM_TEST, "k%d: 1\n", i), E_OK);
    assert_int_equal(buf_append(&text, MEM_TEST, (struct str){"", 1}), E_OK);
    assert_int_equal(load(text.p, NULL, &config), E_INVAL);
    assert_int_equal(errors.count, CONFIG_MAX_ERRORS);
    assert_int_equal(errors.omitted, 50 - CONFIG_MAX_ERRORS + 2); /* and no kafka, and no listeners */
    buf_free(&text, MEM_TEST);
}

static void an_address_that_cannot_be_read_is_not_missing_as_well(void **state)
{
    static const char *const listeners[] = {"{mqtt: nowhere}", "{http: 7}", "{tenant: t, mqtts: 'a:x'}", "{https: [a]}"};
    char text[256];
    struct config *config;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(listeners); i++) {
        snprintf(text, sizeof text, "kafka: {bootstrap: a}\nlisteners:\n  - {mqtt: a:1}\n  - %s\ntenants: {t: {}}\n",
                 listeners[i]);
        assert_int_equal(load(text, NULL, &config), E_INVAL);
        if (errors.count != 1 || errors.items[0].line != 4)
            fail_msg("%s: %zu errors, the last: %s", listeners[i], errors.count, errors.items[errors.count - 1].text);
    }
}

static void settings_outrank_the_file_and_later_ones_win(void **state)
{
    static const char *const settings[] = {
        "workers=5",
        "workers=6",
        "listeners[0].mqtt=[::1]:1884",
        "listeners[1].mqtt=127.0.0.1:1885",
        "tenants.\"a.b\".devices.d.password=p=q",
        "kafka.properties.security.protocol=SSL",
        "listeners[1].tenant=a.b",
        NULL,
    };
    struct config *config = must_load(BASE, settings);

    (void)state;
    assert_int_equal(config->workers, 6);
    assert_int_equal(config->listener_count, 2);
    assert_string_equal(config->listeners[0].mqtt.text.p, "[::1]:1884");
    assert_string_equal(config->tenants[0].id.p, "a.b");
    assert_string_equal(config->tenants[0].devices[0].password.p, "p=q");
    assert_string_equal(config->kafka.properties.items[0].name.p, "security.protocol");
    config_unref(config);
}

static void a_wrong_value_of_a_setting_is_told_as_one_of_the_command_line(void **state)
{
    static const char *const settings[] = {"workers=x", NULL};
    struct config *config;

    (void)state;
    assert_int_equal(load(BASE, settings, &config), E_INVAL);
    assert_int_equal(errors.items[0].line, 0);
    assert_string_equal(errors.items[0].file, "command line");
    assert_string_equal(errors.items[0].text, "workers: \"x\": expected a whole number");
}

static void a_secret_is_never_told(void **state)
{
    static const char *const texts[] = {
        BASE "tenants: {t: {devices: {d: {password: [hunter2]}}}}\n",
        BASE "tenants: {t: {devices: {d: {password: {hunter2: x}}}}}\n",
        BASE "kafka2: {}\ntenants: {t: {devices: {d: {password: hunter2}}}}\n",
    };
    struct config *config;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_int_equal(load(texts[i], NULL, &config), E_INVAL);
        for (size_t k = 0; k < errors.count; k++)
            assert_null(strstr(errors.items[k].text, "hunter2"));
    }
}

static void references_to_secrets_are_resolved_unless_that_is_declined(void **state)
{
    static const char text[] = BASE "tenants: {t: {devices: {d: {password: \"env:MILLRACE_TEST_SECRET\"}}}}\n";
    struct config_source source = {.text = STR_INIT(text), .name = "test.yaml", .skips_secrets = true};
    struct config *config;

    (void)state;
    assert_int_equal(unsetenv("MILLRACE_TEST_SECRET"), 0);
    must_refuse(&(struct refusal){text, 3, "env:MILLRACE_TEST_SECRET: there is no such environment variable"}, NULL);
    assert_int_equal(config_load(&source, &config, &errors), E_OK);
    assert_string_equal(config->tenants[0].devices[0].password.p, "env:MILLRACE_TEST_SECRET");
    config_unref(config);
    source.text = STR(BASE "admin: {users: {ops: {token: \"env:SHORT\"}}}\n"); /* shorter than a token, which says nothing */
    assert_int_equal(config_load(&source, &config, &errors), E_OK);
    assert_string_equal(config->admin_users[0].token.p, "env:SHORT");
    config_unref(config);
    assert_int_equal(setenv("MILLRACE_TEST_SECRET", "s3cret", 1), 0);
    config = must_load(text, NULL);
    assert_string_equal(config->tenants[0].devices[0].password.p, "s3cret");
    config_unref(config);
}

static void a_file_that_is_not_there_is_an_error_with_its_name(void **state)
{
    struct config_source source = {.name = "/nonexistent/millrace.yaml"};
    struct config *config;

    (void)state;
    assert_int_equal(config_load_file(&source, &config, &errors), E_IO);
    assert_int_equal(errors.count, 1);
    assert_string_equal(errors.items[0].file, source.name);
    assert_string_equal(errors.items[0].text, "No such file or directory");
}

static void a_text_over_the_bound_is_refused(void **state)
{
    char *text = malloc(CONFIG_MAX_TEXT_BYTES + 2);
    struct config *config;

    (void)state;
    memset(text, '\n', CONFIG_MAX_TEXT_BYTES + 1);
    text[CONFIG_MAX_TEXT_BYTES + 1] = '\0';
    assert_int_equal(load(text, NULL, &config), E_LIMIT);
    assert_non_null(strstr(errors.items[0].text, "too large"));
    free(text);
}

/* Linear and n log n only: a square would be 10^10 steps and run into the time limit of the test. */
static void a_hundred_thousand_devices_load(void **state)
{
    enum { DEVICES = 100000 };
    struct buf text = {0};
    struct config *config;

    (void)state;
    assert_int_equal(buf_printf(&text, MEM_TEST, BASE "tenants:\n  t:\n    devices:\n      gateway: {}\n"), E_OK);
    for (int i = 0; i < DEVICES; i++)
        assert_int_equal(buf_printf(&text, MEM_TEST, "      device-%d: {password: p%d, via: gateway}\n", i, i), E_OK);
    assert_int_equal(buf_append(&text, MEM_TEST, (struct str){"", 1}), E_OK);
    config = must_load(text.p, NULL);
    assert_int_equal(config->tenants[0].device_count, DEVICES + 1);
    assert_string_equal(config->tenants[0].devices[DEVICES].auth_id.p, "device-99999");
    config_unref(config);
    buf_free(&text, MEM_TEST);
}

static void a_fan_out_alone_needs_nothing_else(void **state)
{
    struct config *config = NULL;
    struct config_source source = {.text = STR("fanout: {}\nadmin: {listen: 0.0.0.0:8081}\n"), .name = "test"};

    (void)state;
    assert_int_equal(config_load(&source, &config, &errors), E_OK);
    assert_true(config->fanout.is_enabled);
    assert_string_equal(config->fanout.listen.text.p, "0.0.0.0:11235");
    assert_int_equal(config->fanout.sources.count, 1);
    assert_true(str_equal(config->fanout.sources.items[0], STR("file")));
    assert_int_equal(config->fanout.grace_ms, 5000);
    config_unref(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_not_given_has_its_default, nothing_is_left),
        cmocka_unit_test_teardown(every_kind_of_value_arrives, nothing_is_left),
        cmocka_unit_test_teardown(a_snapshot_lives_until_its_last_holder_lets_go, nothing_is_left),
        cmocka_unit_test_teardown(what_is_wrong_is_told_with_its_line, nothing_is_left),
        cmocka_unit_test_teardown(all_errors_are_told_in_order_up_to_a_bound, nothing_is_left),
        cmocka_unit_test_teardown(an_address_that_cannot_be_read_is_not_missing_as_well, nothing_is_left),
        cmocka_unit_test_teardown(settings_outrank_the_file_and_later_ones_win, nothing_is_left),
        cmocka_unit_test_teardown(a_wrong_value_of_a_setting_is_told_as_one_of_the_command_line, nothing_is_left),
        cmocka_unit_test_teardown(a_secret_is_never_told, nothing_is_left),
        cmocka_unit_test_teardown(references_to_secrets_are_resolved_unless_that_is_declined, nothing_is_left),
        cmocka_unit_test_teardown(a_file_that_is_not_there_is_an_error_with_its_name, nothing_is_left),
        cmocka_unit_test_teardown(a_text_over_the_bound_is_refused, nothing_is_left),
        cmocka_unit_test_teardown(a_hundred_thousand_devices_load, nothing_is_left),
        cmocka_unit_test(a_fan_out_alone_needs_nothing_else),
    };

    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
