/* The rows of option.h's table, in the order in which the manual presents them: a section before what is in it. */
#include <assert.h>

#include "base/check.h"
#include "config/option.h"
#include "config/option_authentication.h"
#include "config/option_command.h"
#include "config/option_fanout.h"
#include "config/option_limits.h"
#include "config/option_rule.h"
#include "config/option_tenant.h"
#include "config/option_tls.h"

#define IN_CONFIG(member)   .offset = offsetof(struct config, member)
#define IN_LISTENER(member) .offset = offsetof(struct config_listener, member)
#define IN_TENANT(member)   .offset = offsetof(struct config_tenant, member)
#define IN_ADAPTER(member)  .offset = offsetof(struct config_adapter, member)
#define IN_DEVICE(member)   .offset = offsetof(struct config_device, member)
#define IN_RULE(member)     .offset = offsetof(struct config_to_kafka, member)
#define IN_ACTION(member)   .offset = offsetof(struct config_rule_action, member)
#define IN_TO_MQTT(member)  .offset = offsetof(struct config_to_mqtt, member)
#define IN_USER(member)     .offset = offsetof(struct config_admin_user, member)
#define IN_MAPPER(member)   .offset = offsetof(struct config_mapper, member)
#define RANGE(least, most)  .min = (least), .max = (most)

enum { KIB = 1 << 10, MIB = 1 << 20, MS_PER_S = 1000, MS_PER_H = 3600 * 1000 };
#define GIB         (INT64_C(1) << 30)
#define MAX_SECONDS (INT64_C(100) * 366 * 24 * 3600)

#define ASSERT_LIST(type, items, count) static_assert(offsetof(type, count) == offsetof(type, items) + sizeof(void *), #items)
#define ASSERT_ELEMENT(type)                                                                                                   \
    static_assert(offsetof(type, id) == offsetof(struct option_element, id) &&                                                 \
                      offsetof(type, line) == offsetof(struct option_element, line),                                           \
                  #type)

ASSERT_LIST(struct config, listeners, listener_count);
ASSERT_LIST(struct config, tenants, tenant_count);
ASSERT_LIST(struct config_tenant, adapters, adapter_count);
ASSERT_LIST(struct config_tenant, devices, device_count);
ASSERT_LIST(struct config, mappers, mapper_count);
ASSERT_LIST(struct config, admin_users, admin_user_count);
ASSERT_LIST(struct config, to_kafka, to_kafka_count);
ASSERT_LIST(struct config_to_kafka, actions, action_count);
ASSERT_LIST(struct config, to_mqtt, to_mqtt_count);
ASSERT_LIST(struct config_properties, items, count);
ASSERT_LIST(struct config_strings, items, count);
ASSERT_ELEMENT(struct config_listener);
ASSERT_ELEMENT(struct config_adapter);
ASSERT_ELEMENT(struct config_tenant);
ASSERT_ELEMENT(struct config_device);
ASSERT_ELEMENT(struct config_mapper);
ASSERT_ELEMENT(struct config_admin_user);
ASSERT_ELEMENT(struct config_to_kafka);
ASSERT_ELEMENT(struct config_rule_action);
ASSERT_ELEMENT(struct config_to_mqtt);

static const char *const log_level_choices[] = {
    [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_WARN] = "warn", [LOG_LEVEL_INFO] = "info", [LOG_LEVEL_DEBUG] = "debug", NULL,
};

static const char *const role_choices[] = {[CONFIG_ROLE_READ] = "read", [CONFIG_ROLE_WRITE] = "write", NULL};

static const char *const begin_choices[] = {[CONFIG_BEGIN_LATEST] = "latest", [CONFIG_BEGIN_EARLIEST] = "earliest", NULL};

static const char *const log_format_choices[] = {[CONFIG_LOG_LOGFMT] = "logfmt", [CONFIG_LOG_JSON] = "json", NULL};

static const char *const period_choices[] = {
    [CONFIG_PERIOD_MONTHLY] = "monthly",
    [CONFIG_PERIOD_DAYS] = "days",
    NULL,
};

static const char *const adapter_choices[] = {
    [CONFIG_ADAPTER_MQTT] = "hono-mqtt", [CONFIG_ADAPTER_HTTP] = "hono-http", [CONFIG_ADAPTER_COAP] = "hono-coap",
    [CONFIG_ADAPTER_AMQP] = "hono-amqp", [CONFIG_ADAPTER_LORA] = "hono-lora", [CONFIG_ADAPTER_SIGFOX] = "hono-sigfox",
    [CONFIG_ADAPTER_TYPES] = NULL,
};

static const char *const event_choices[] = {
    [CONFIG_EVENT_NONE] = "none",
    [CONFIG_EVENT_CONNECT] = "connect",
    [CONFIG_EVENT_DISCONNECT] = "disconnect",
    [CONFIG_EVENT_SUBSCRIBE] = "subscribe",
    [CONFIG_EVENT_SESSION_END] = "session_end",
    [CONFIG_EVENTS] = NULL,
};

const struct option option_table[] = {
    {.path = "kafka", .type = OPTION_SECTION, .help = "The Kafka cluster, and how records are written to it."},
    {.path = "kafka.bootstrap",
     .type = OPTION_TEXT,
     IN_CONFIG(kafka.bootstrap),
     RANGE(0, 4096),
     .help = "The first brokers to ask, as HOST:PORT with commas between. Needed unless kafka.embedded is true."},
    {.path = "kafka.embedded",
     .type = OPTION_BOOL,
     .initial = "false",
     IN_CONFIG(kafka.is_embedded),
     .help = "Runs Kafka's wire protocol inside the process, in memory, for trying things out: nothing survives a restart and "
             "little is kept. Its address is written to <data_dir>/kafka.bootstrap."},
    {.path = "kafka.topic_prefix",
     .type = OPTION_TEXT,
     RANGE(0, 64),
     .characters = OPTION_TOPIC,
     IN_CONFIG(kafka.topic_prefix),
     .help = "Put before the name of every topic. Hono's clients expect none."},
    {.path = "kafka.max_inflight_bytes",
     .type = OPTION_SIZE,
     .initial = "32MiB",
     RANGE(1 * MIB, 64 * GIB),
     IN_CONFIG(kafka.max_inflight_bytes),
     .help =
         "How much may wait for Kafka's acknowledgement in the whole process. When it is reached, connections that publish are "
         "not read until there is room; QoS 0 is dropped and counted."},
    {.path = "kafka.group",
     .type = OPTION_TEXT,
     .initial = "millrace",
     RANGE(1, 100),
     .characters = OPTION_TOPIC,
     IN_CONFIG(kafka.group),
     .help = "The beginning of the names of consumer groups. An instance keeps its positions in the group GROUP.INSTANCE; the "
             "number of groups does not grow with the number of clients."},
    {.path = "kafka.max_uncommitted",
     .type = OPTION_NUMBER,
     .initial = "10000",
     RANGE(1, 1000000),
     IN_CONFIG(kafka.max_uncommitted),
     .help = "How many records of a partition may be on their way to MQTT. One with as many pauses; when that lasts half a "
             "second, the oldest that wait in clients' queues are left to those."},
    {.path = "kafka.max_uncommitted_bytes",
     .type = OPTION_SIZE,
     .initial = "128MiB",
     RANGE(1 * MIB, 64 * GIB),
     IN_CONFIG(kafka.max_uncommitted_bytes),
     .help = "The same in bytes, of all partitions together; a single one may have an eighth of it."},
    {.path = "kafka.properties.*",
     .type = OPTION_PROPERTIES,
     .flags = OPTION_SECRET,
     RANGE(0, 64 * KIB),
     IN_CONFIG(kafka.properties),
     .help = "Properties of librdkafka (security.protocol, sasl.username, compression.type ...), passed through as they are. A "
             "value "
             "that begins with file: or env: is a reference, as for any secret."},

    {.path = "listeners[]",
     .type = OPTION_LIST,
     .element_bytes = sizeof(struct config_listener),
     IN_CONFIG(listeners),
     RANGE(0, 256),
     .help = "The addresses that devices connect to."},
    {.path = "listeners[].mqtt",
     .type = OPTION_ADDRESS,
     IN_LISTENER(mqtt),
     .help =
         "Serves MQTT 3.1.1 and 5.0 over TCP at this address. Port 0 lets the system choose one. A listener has one of mqtt, "
         "mqtts, http and https."},
    {.path = "listeners[].mqtts", .type = OPTION_ADDRESS, IN_LISTENER(mqtts), .help = "The same over TLS."},
    {.path = "listeners[].http",
     .type = OPTION_ADDRESS,
     IN_LISTENER(http),
     .help = "Serves Hono's HTTP endpoints for devices at this address."},
    {.path = "listeners[].https", .type = OPTION_ADDRESS, IN_LISTENER(https), .help = "The same over TLS."},
    TLS_OPTIONS("listeners[].tls", offsetof(struct config_listener, tls)),
    {.path = "listeners[].tenant",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE,
     RANGE(0, 128),
     .characters = OPTION_TOPIC,
     IN_LISTENER(tenant),
     .help = "The tenant of anonymous clients and of user names without @TENANT."},
    {.path = "listeners[].tenant_fixed",
     .type = OPTION_BOOL,
     .flags = OPTION_RELOADABLE,
     .initial = "false",
     IN_LISTENER(is_tenant_fixed),
     .help = "Refuses clients of any other tenant than the listener's."},
    {.path = "listeners[].hono",
     .type = OPTION_BOOL,
     .flags = OPTION_RELOADABLE,
     .initial = "true",
     IN_LISTENER(is_hono),
     .help = "The topics telemetry, event, command and error, and their short forms t, e and c, are Eclipse Hono's device "
             "endpoints. "
             "If false they are ordinary topics."},
    {.path = "listeners[].response_information",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE,
     RANGE(0, 1024),
     IN_LISTENER(response_information),
     .help = "What an MQTT 5 client is told that asks for Response Information: a topic under which clients agree to ask for "
             "responses. An empty text tells nothing."},
    {.path = "listeners[].anonymous",
     .type = OPTION_BOOL,
     .flags = OPTION_RELOADABLE,
     .initial = "false",
     IN_LISTENER(is_anonymous),
     .help =
         "Lets clients in that give no user name. By MQTT they publish and subscribe to plain topics of the listener's tenant; "
         "device endpoints are refused to them. By HTTP they speak for any device of that tenant (PUT), so that a network of "
         "its "
         "own should be all that reaches such a listener."},

    {.path = "admin",
     .type = OPTION_SECTION,
     .help = "The port for operators: /metrics, /livez, /readyz and the management interface."},
    {.path = "admin.listen",
     .type = OPTION_ADDRESS,
     .initial = "127.0.0.1:8081",
     IN_CONFIG(admin_listen),
     .help = "Where it listens. Only the management interface asks for a password: keep it off public networks. An empty text "
             "(\"\") switches it off."},
    TLS_OPTIONS("admin.tls", offsetof(struct config, admin_tls)),
    {.path = "admin.management",
     .type = OPTION_BOOL,
     .initial = "true",
     IN_CONFIG(is_managed),
     .help = "Whether tenants, devices and credentials can be managed there, below /v1; see REGISTRY.md."},
    {.path = "admin.users.*",
     .type = OPTION_MAP,
     .flags = OPTION_RELOADABLE,
     .element_bytes = sizeof(struct config_admin_user),
     RANGE(0, 1000),
     .characters = OPTION_DEVICE,
     IN_CONFIG(admin_users),
     .help = "Who may use the management interface, by name. Without any, everybody may who reaches it, which is allowed on "
             "loopback only."},
    {.path = "admin.users.*.password",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE | OPTION_SECRET,
     RANGE(8, 1024),
     IN_USER(password),
     .help = "With the name, for Basic authentication."},
    {.path = "admin.users.*.token",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE | OPTION_SECRET,
     RANGE(16, 1024),
     IN_USER(token),
     .help = "For Bearer authentication: Authorization: Bearer TOKEN."},
    {.path = "admin.users.*.role",
     .type = OPTION_CHOICE,
     .flags = OPTION_RELOADABLE,
     .initial = "read",
     .choices = role_choices,
     IN_USER(role),
     .help = "Whether the user may change things, or only read."},
    {.path = "admin.users.*.tenants",
     .type = OPTION_STRINGS,
     .flags = OPTION_RELOADABLE,
     RANGE(1, 200),
     .characters = OPTION_TOPIC,
     IN_USER(tenants),
     .help = "The tenants that concern the user; the default is all. Whoever has some can neither search among all nor make "
             "new ones "
             "of another name."},
    {.path = "admin.audit_topic",
     .type = OPTION_TEXT,
     RANGE(0, 249),
     .characters = OPTION_TOPIC,
     IN_CONFIG(audit_topic),
     .help =
         "The Kafka topic that gets a record of every change made by the management interface: who, what, when. The default is "
         "none."},
    {.path = "registry", .type = OPTION_SECTION, .help = "Tenants, devices and credentials that are managed; see REGISTRY.md."},
    {.path = "registry.shared",
     .type = OPTION_BOOL,
     .initial = "false",
     IN_CONFIG(is_registry_shared),
     .help = "Whether what is managed is kept in Kafka, and so shared by all instances there that have this set; else it is "
             "this instance's own, in data_dir."},
    {.path = "registry.bcrypt_cost",
     .type = OPTION_NUMBER,
     .initial = "10",
     RANGE(4, 16),
     IN_CONFIG(bcrypt_cost),
     .help = "Passwords are hashed with 2 to the power of that many rounds."},
    {.path = "registry.bcrypt_max_cost",
     .type = OPTION_NUMBER,
     .initial = "10",
     RANGE(4, 16),
     IN_CONFIG(bcrypt_max_cost),
     .help = "The highest cost of bcrypt hashes that are taken from clients of the management interface."},
    {.path = "https_client",
     .type = OPTION_SECTION,
     .flags = OPTION_RELOADABLE,
     .help = "Where this process is the client of an https URL: mappers and targets of the fan-out. The server's certificate "
             "must be "
             "for its host and from a CA that is trusted."},
    TLS_FILES("https_client.ca", offsetof(struct config, https_ca), "Whom it trusts; the default is whom the system trusts."),
    TLS_FILES("https_client.cert", offsetof(struct config, https_cert),
              "A certificate of its own, for servers that ask for one."),
    TLS_FILES("https_client.key", offsetof(struct config, https_key), "Its key, if it is not in the same file."),
    AUTHENTICATION_OPTIONS(IN_CONFIG, RANGE),
    {.path = "data_dir",
     .type = OPTION_TEXT,
     .initial = "/var/lib/millrace",
     RANGE(1, 4000),
     IN_CONFIG(data_dir),
     .help = "The folder for what the process keeps on disk. It is made if it is missing."},

    {.path = "tenants.*",
     .type = OPTION_MAP,
     .flags = OPTION_RELOADABLE,
     .element_bytes = sizeof(struct config_tenant),
     RANGE(0, 100000),
     .characters = OPTION_TOPIC,
     IN_CONFIG(tenants),
     .help = "The tenants by name. Their Kafka topics are created before they are served if they are missing."},
    {.path = "tenants.*.enabled",
     .type = OPTION_BOOL,
     .flags = OPTION_RELOADABLE,
     .initial = "true",
     IN_TENANT(is_enabled),
     .help = "If false, nobody of this tenant can connect or publish; who is connected is disconnected."},
    {.path = "tenants.*.adapters[]",
     .type = OPTION_LIST,
     .flags = OPTION_RELOADABLE,
     .element_bytes = sizeof(struct config_adapter),
     RANGE(0, CONFIG_ADAPTER_TYPES),
     IN_TENANT(adapters),
     .help = "The protocol adapters this tenant uses, as in Hono's registry. Without any, all are on; else only those that are "
             "listed "
             "and enabled."},
    {.path = "tenants.*.adapters[].type",
     .type = OPTION_CHOICE,
     .flags = OPTION_RELOADABLE | OPTION_REQUIRED,
     .choices = adapter_choices,
     IN_ADAPTER(type),
     .help = "Which adapter."},
    {.path = "tenants.*.adapters[].enabled",
     .type = OPTION_BOOL,
     .flags = OPTION_RELOADABLE,
     .initial = "false",
     IN_ADAPTER(is_enabled),
     .help = "Whether the tenant's devices may use it. Hono's default is false."},
    {.path = "tenants.*.defaults.*",
     .type = OPTION_PROPERTIES,
     .flags = OPTION_RELOADABLE,
     RANGE(0, 4 * KIB),
     IN_TENANT(defaults),
     .help = "Headers of every record of the tenant's devices that neither the device's defaults nor the message set "
             "(content-type, ttl, or any name)."},
    {.path = "tenants.*.downstream-message-mapper",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE,
     RANGE(1, 249),
     IN_TENANT(mapper),
     .help = "The mapper, by its name in `mappers`, that rewrites what the tenant's devices send, as in Hono's registry."},
    {.path = "tenants.*.upstream-message-mapper",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE,
     RANGE(1, 249),
     IN_TENANT(command_mapper),
     .help =
         "The mapper, by its name in `mappers`, that rewrites the commands that the tenant's devices get by MQTT, as in Hono's "
         "registry."},
    {.path = "tenants.*.resource-limits",
     .type = OPTION_SECTION,
     .flags = OPTION_RELOADABLE,
     .help = "Bounds of the tenant, as in Hono's registry."},
    {.path = "tenants.*.resource-limits.max-ttl",
     .type = OPTION_NUMBER,
     .flags = OPTION_RELOADABLE,
     .initial = "-1",
     RANGE(-1, MAX_SECONDS),
     IN_TENANT(limits.max_ttl_s),
     .help = "The longest time to live of an event, in seconds; -1 is no bound."},
    {.path = "tenants.*.resource-limits.max-ttl-telemetry-qos0",
     .type = OPTION_NUMBER,
     .flags = OPTION_RELOADABLE,
     .initial = "-1",
     RANGE(-1, MAX_SECONDS),
     IN_TENANT(limits.max_ttl_telemetry_qos0_s),
     .help = "The same for telemetry with QoS 0."},
    {.path = "tenants.*.resource-limits.max-ttl-telemetry-qos1",
     .type = OPTION_NUMBER,
     .flags = OPTION_RELOADABLE,
     .initial = "-1",
     RANGE(-1, MAX_SECONDS),
     IN_TENANT(limits.max_ttl_telemetry_qos1_s),
     .help = "The same for telemetry with QoS 1."},
    {.path = "tenants.*.resource-limits.max-ttl-command-response",
     .type = OPTION_NUMBER,
     .flags = OPTION_RELOADABLE,
     .initial = "-1",
     RANGE(-1, MAX_SECONDS),
     IN_TENANT(limits.max_ttl_command_response_s),
     .help = "The same for the responses to commands."},
    TENANT_LIMIT_OPTIONS(IN_TENANT, RANGE),
    {.path = "tenants.*.devices.*",
     .type = OPTION_MAP,
     .flags = OPTION_RELOADABLE,
     .element_bytes = sizeof(struct config_device),
     RANGE(0, 1000000),
     .characters = OPTION_DEVICE,
     IN_TENANT(devices),
     .help = "The tenant's devices by id."},
    {.path = "tenants.*.devices.*.enabled",
     .type = OPTION_BOOL,
     .flags = OPTION_RELOADABLE,
     .initial = "true",
     IN_DEVICE(is_enabled),
     .help = "If false, the device cannot connect and nothing is accepted for it; if it is connected it is disconnected."},
    {.path = "tenants.*.devices.*.auth_id",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE,
     RANGE(1, 256),
     .characters = OPTION_DEVICE,
     IN_DEVICE(auth_id),
     .help = "The name the device logs in with: its user name is AUTH_ID@TENANT. The default is the device's id."},
    {.path = "tenants.*.devices.*.password",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE | OPTION_SECRET,
     RANGE(1, 4 * KIB),
     IN_DEVICE(password),
     .help = "The password the device logs in with. Without one it cannot log in; only its gateways speak for it."},
    {.path = "tenants.*.devices.*.via",
     .type = OPTION_STRINGS,
     .flags = OPTION_RELOADABLE,
     RANGE(1, 256),
     .characters = OPTION_DEVICE,
     IN_DEVICE(via),
     .help = "The id of the gateway that may act for the device, or a list of them."},
    {.path = "tenants.*.devices.*.defaults.*",
     .type = OPTION_PROPERTIES,
     .flags = OPTION_RELOADABLE,
     RANGE(0, 4 * KIB),
     IN_DEVICE(defaults),
     .help = "Headers of every record of the device that the message does not set. They outrank the tenant's defaults."},

    {.path = "tenants.*.devices.*.downstream-message-mapper",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE,
     RANGE(1, 249),
     IN_DEVICE(mapper),
     .help = "The mapper of what this device sends, instead of the tenant's."},
    {.path = "tenants.*.devices.*.upstream-message-mapper",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE,
     RANGE(1, 249),
     IN_DEVICE(command_mapper),
     .help = "The mapper of the commands that this device or gateway gets, instead of the tenant's."},
    {.path = "mappers.*",
     .type = OPTION_MAP,
     .flags = OPTION_RELOADABLE,
     .element_bytes = sizeof(struct config_mapper),
     RANGE(0, 1000),
     .characters = OPTION_TOPIC,
     IN_CONFIG(mappers),
     .help = "Servers that rewrite messages on their way to Kafka, by name. See docs/MAPPER.md."},
    {.path = "mappers.*.url",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE | OPTION_REQUIRED,
     RANGE(1, 2000),
     IN_MAPPER(url),
     .help = "Where messages are sent by POST, as in http://mapper:8080/map; https:// is TLS (https_client)."},
    {.path = "mappers.*.timeout",
     .type = OPTION_DURATION,
     .flags = OPTION_RELOADABLE,
     .initial = "2s",
     RANGE(1, 60 * MS_PER_S),
     IN_MAPPER(timeout_ms),
     .help = "How long one message may take, connecting included. Later messages of the same client wait meanwhile."},
    {.path = "mappers.*.max_response_bytes",
     .type = OPTION_SIZE,
     .flags = OPTION_RELOADABLE,
     .initial = "1MiB",
     RANGE(1, 256 * MIB),
     IN_MAPPER(max_response_bytes),
     .help = "The largest payload that a mapper may answer with."},

    {.path = "to_kafka[]",
     .type = OPTION_LIST,
     .flags = OPTION_RELOADABLE,
     .element_bytes = sizeof(struct config_to_kafka),
     RANGE(0, 4096),
     IN_CONFIG(to_kafka),
     .help = "Rules by which what clients publish, and what happens to them, is written to Kafka; see RULES.md. They are tried "
             "in their order and the first that matches counts. Hono's device endpoints do not come here."},
    {.path = "to_kafka[].mqtt",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE,
     RANGE(0, 65535),
     IN_RULE(mqtt),
     .help = "Takes publishes to the topics that this MQTT filter matches. {name} stands for one level, {name#} for the rest, "
             "and both are variables of the rule's templates."},
    {.path = "to_kafka[].event",
     .type = OPTION_CHOICE,
     .flags = OPTION_RELOADABLE,
     .initial = "none",
     .choices = event_choices,
     IN_RULE(event),
     .help = "Takes events instead of publishes."},
    {.path = "to_kafka[].name",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE,
     RANGE(0, 40),
     .characters = OPTION_TOPIC,
     IN_RULE(name),
     .help = "What metrics and messages call the rule. The default is its place, as in to_kafka[0]."},
    {.path = "to_kafka[].tenant",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE,
     RANGE(0, 128),
     .characters = OPTION_TOPIC,
     IN_RULE(tenant),
     .help = "Takes only what clients of this tenant do. The default is all tenants."},
    {.path = "to_kafka[].mapper",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE,
     RANGE(1, 249),
     IN_RULE(mapper),
     .help = "The mapper, by its name in `mappers`, that rewrites each message before its records are made. Not with `event`."},
    {.path = "to_kafka[].local",
     .type = OPTION_BOOL,
     .flags = OPTION_RELOADABLE,
     .initial = "true",
     IN_RULE(is_local),
     .help = "Whether MQTT subscribers get the message too. They get it at once, whatever Kafka says."},
    ACTION_OPTIONS("to_kafka[].", IN_SINGLE),
    {.path = "to_kafka[].actions[]",
     .type = OPTION_LIST,
     .flags = OPTION_RELOADABLE,
     .element_bytes = sizeof(struct config_rule_action),
     RANGE(0, 16),
     IN_RULE(actions),
     .help = "Several records of one message, each with the options above, instead of those of the rule itself."},
    ACTION_OPTIONS("to_kafka[].actions[].", IN_ACTION),

    {.path = "to_mqtt[]",
     .type = OPTION_LIST,
     .flags = OPTION_RELOADABLE,
     .element_bytes = sizeof(struct config_to_mqtt),
     RANGE(0, 256),
     IN_CONFIG(to_mqtt),
     .help =
         "Rules by which records of Kafka are published to MQTT subscribers; see RULES.md. They are tried in their order and "
         "the first whose topic and key match takes the record."},
    {.path = "to_mqtt[].topic",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE | OPTION_REQUIRED,
     RANGE(1, 1024),
     IN_TO_MQTT(topic),
     .help = "The Kafka topic: a name, a name with variables (orders.{tenant}), or a regular expression that begins with ^. "
             "Topics that appear later are read too."},
    {.path = "to_mqtt[].key",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE,
     RANGE(0, 1024),
     IN_TO_MQTT(key),
     .help =
         "Takes only records whose key this regular expression matches (PCRE2, on bytes). Its named groups, (?<name>...), are "
         "variables of the templates."},
    {.path = "to_mqtt[].mqtt",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE | OPTION_REQUIRED,
     RANGE(1, 4096),
     IN_TO_MQTT(mqtt),
     .help =
         "The MQTT topic, a template: {name} of a named group, {topic}, {key}, {partition}, {header.NAME}. A value fills one "
         "level, with {name#} several. A record whose value cannot stand there is dropped and counted."},
    {.path = "to_mqtt[].tenant",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE,
     RANGE(0, 1024),
     IN_TO_MQTT(tenant),
     .help =
         "Whose subscribers get the message, a template as well. The default is the group called tenant, else the only tenant "
         "there is."},
    {.path = "to_mqtt[].qos",
     .type = OPTION_NUMBER,
     .flags = OPTION_RELOADABLE,
     .initial = "1",
     RANGE(0, 2),
     IN_TO_MQTT(qos),
     .help = "The QoS it is published with. A subscriber gets at most the QoS it has asked for."},
    {.path = "to_mqtt[].retain",
     .type = OPTION_BOOL,
     .flags = OPTION_RELOADABLE,
     .initial = "false",
     IN_TO_MQTT(is_retained),
     .help =
         "Whether the message is retained; a record without a value then deletes the retained message. Such a record needs no "
         "subscriber and is not held."},
    {.path = "to_mqtt[].hold",
     .type = OPTION_DURATION,
     .flags = OPTION_RELOADABLE,
     .initial = "0",
     RANGE(0, 7 * 24 * INT64_C(3600000)),
     IN_TO_MQTT(hold_ms),
     .help =
         "How long a record waits when nobody is subscribed, and for another subscriber when the sessions that got it ended "
         "without acknowledging it. Then it is dropped and counted."},
    {.path = "to_mqtt[].start_hold",
     .type = OPTION_DURATION,
     .flags = OPTION_RELOADABLE,
     .initial = "60s",
     RANGE(0, 24 * MS_PER_H),
     IN_TO_MQTT(start_hold_ms),
     .help = "For so long after the start it waits in any case, so that clients have time to come back."},
    {.path = "to_mqtt[].ack_timeout",
     .type = OPTION_DURATION,
     .flags = OPTION_RELOADABLE,
     .initial = "30s",
     RANGE(1000, 24 * MS_PER_H),
     IN_TO_MQTT(ack_timeout_ms),
     .help = "How long a connected client may acknowledge nothing while a record waits for it. Then its connection is closed."},
    {.path = "to_mqtt[].from",
     .type = OPTION_CHOICE,
     .flags = OPTION_RELOADABLE,
     .initial = "latest",
     .choices = begin_choices,
     IN_TO_MQTT(begin),
     .help = "Where a new rule begins: with what comes from now on, or with everything that is there. Only if none of its "
             "partitions has a position yet; topics and partitions that appear later are always read from their beginning."},

    {.path = "rules", .type = OPTION_SECTION, .help = "What the rules may do together."},
    {.path = "rules.max_topics",
     .type = OPTION_NUMBER,
     .flags = OPTION_RELOADABLE,
     .initial = "1000",
     RANGE(1, 100000),
     IN_CONFIG(rules_max_topics),
     .help =
         "How many different Kafka topics the values in messages may name in the whole process. What would need one more is "
         "refused (0x97) and counted. Topics without variables do not count."},

    COMMAND_OPTIONS(IN_CONFIG, RANGE),
    {.path = "http", .type = OPTION_SECTION, .help = "The listeners for HTTP, all of them."},
    {.path = "http.request_timeout",
     .type = OPTION_DURATION,
     .flags = OPTION_RELOADABLE,
     .initial = "10s",
     RANGE(10, MS_PER_H),
     IN_CONFIG(http.request_timeout_ms),
     .help =
         "How long a request with QoS 1 waits for Kafka, and for room to be given to it, before it is answered with 503; what "
         "Kafka has been given may arrive all the same. If hono.delivery_timeout is shorter, that counts."},
    {.path = "http.max_body_bytes",
     .type = OPTION_SIZE,
     .initial = "1MiB",
     RANGE(1 * KIB, 256 * MIB),
     IN_CONFIG(http.max_body_bytes),
     .help = "The largest body accepted; a larger one is answered with 413. Hono's default is 2048 bytes. Kafka's own limit "
             "(message.max.bytes) may be lower."},
    {.path = "http.cors_allowed_origin",
     .type = OPTION_TEXT,
     .flags = OPTION_RELOADABLE,
     .initial = "*",
     RANGE(0, 1024),
     IN_CONFIG(http.cors_allowed_origin),
     .help = "The origin whose scripts may send requests from a browser, as in https://example.org; * is any of them, an empty "
             "text "
             "none."},

    FANOUT_OPTIONS(IN_CONFIG, RANGE),

    {.path = "hono", .type = OPTION_SECTION, .help = "Where Hono leaves a choice."},
    {.path = "hono.delivery_timeout",
     .type = OPTION_DURATION,
     .initial = "0",
     RANGE(0, 24 * MS_PER_H),
     IN_CONFIG(hono_delivery_timeout_ms),
     .help =
         "How long a record may wait for Kafka before its device is told that it failed. 0 waits as long as it takes, which "
         "loses and doubles nothing; Hono itself gives up after about 3s."},
    {.path = "hono.gateway_id",
     .type = OPTION_BOOL,
     .flags = OPTION_RELOADABLE,
     .initial = "false",
     IN_CONFIG(hono_gateway_id),
     .help = "Whether a record of a device for which a gateway has spoken has the gateway's id as its header gateway_id. Hono "
             "has no such header."},
    {.path = "hono.tenant_id",
     .type = OPTION_BOOL,
     .flags = OPTION_RELOADABLE,
     .initial = "false",
     IN_CONFIG(hono_tenant_id),
     .help = "Whether every record of a device has its tenant's id as its header tenant_id. In Hono only the topic tells it."},
    {.path = "hono.connection_events",
     .type = OPTION_BOOL,
     .flags = OPTION_RELOADABLE,
     .initial = "false",
     IN_CONFIG(hono_connection_events),
     .help = "Whether applications are told by an event when a device connects by MQTT and when its connection ends "
             "(docs/wire/device-data.md), as with Hono's connection event producer `events`."},
    {.path = "instance",
     .type = OPTION_TEXT,
     RANGE(0, 100),
     .characters = OPTION_TOPIC,
     IN_CONFIG(instance),
     .help =
         "What this process is called among those that share a Kafka. It must differ from the others and stay the same over "
         "restarts, because positions are kept under it. The default is the host's name."},
    {.path = "workers",
     .type = OPTION_NUMBER,
     .initial = "0",
     RANGE(0, 256),
     IN_CONFIG(workers),
     .help = "How many threads serve connections. 0 is one for each CPU the process may use."},
    {.path = "drain_timeout",
     .type = OPTION_DURATION,
     .flags = OPTION_RELOADABLE,
     .initial = "10s",
     RANGE(0, MS_PER_H),
     IN_CONFIG(drain_timeout_ms),
     .help = "How long an orderly stop (SIGTERM) waits for Kafka to acknowledge what devices have sent."},

    {.path = "log", .type = OPTION_SECTION, .help = "What is written to stderr, one line for each event."},
    {.path = "log.level",
     .type = OPTION_CHOICE,
     .flags = OPTION_RELOADABLE,
     .initial = "info",
     .choices = log_level_choices,
     IN_CONFIG(log_level),
     .help = "The least important events that are written. debug also writes one line for each message."},
    {.path = "log.format",
     .type = OPTION_CHOICE,
     .initial = "logfmt",
     .choices = log_format_choices,
     IN_CONFIG(log_format),
     .help = "logfmt is for people, json for log collectors."},
    {.path = "log.levels.*",
     .type = OPTION_PROPERTIES,
     .flags = OPTION_RELOADABLE,
     .choices = log_level_choices,
     IN_CONFIG(log_level_names),
     .help =
         "The level of single parts of the program, where it differs from log.level, by their names: main, loop, config, http, "
         "kafka, registry, broker, mqtt, admin, table, command, fanout."},

    LIMIT_OPTIONS(IN_CONFIG, RANGE),
};

const size_t option_count = ARRAY_LEN(option_table);
