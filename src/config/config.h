/* config: the configuration of a process as an immutable, reference-counted snapshot.
 *
 * The YAML text is read into a tree with line numbers (tree.h); the option table (option.h) says which paths exist, of which
 * type, with which default and range; bind.h writes the values into the structures below; verify.h checks what concerns
 * several options. Whoever holds a reference may read a snapshot from any thread; nobody changes one. Every `struct str` in a
 * snapshot is followed by a NUL that is not counted and its `p` is never NULL, so that `.p` can be given to a C interface.
 *
 * Loading reads files that the text names (`file:` references) and may block: it belongs to the main thread. Never logs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "config/config_authentication.h"
#include "config/config_strings.h"

enum {
    CONFIG_MAX_TEXT_BYTES = 16 << 20, /* a registry of 100,000 devices with all their keys is about 10 MiB */
    CONFIG_MAX_ERRORS = 20,           /* what a person reads before correcting the file and trying again */
};

enum config_log_format { CONFIG_LOG_LOGFMT, CONFIG_LOG_JSON };

/* The protocol adapters a tenant can switch on, by their names in Hono (`hono-mqtt` ...). */
enum config_adapter_type {
    CONFIG_ADAPTER_MQTT,
    CONFIG_ADAPTER_HTTP,
    CONFIG_ADAPTER_COAP,
    CONFIG_ADAPTER_AMQP,
    CONFIG_ADAPTER_LORA,
    CONFIG_ADAPTER_SIGFOX,
    CONFIG_ADAPTER_TYPES,
};

/* One entry of a map with free names: a librdkafka property, a default of a device. */
struct config_property {
    struct str name;
    struct str value;
};

struct config_properties {
    struct config_property *items; /* in the order of the file */
    size_t count;
};

/* HOST:PORT. `host` comes without the brackets of an IPv6 address and may be a name; `text` is what was written. An address
 * that is switched off has an empty host. Port 0 lets the system choose. */
struct config_address {
    struct str host;
    struct str text;
    uint16_t port;
};

/* `auto`: optional with a CA of clients, else none. */
enum config_client_auth {
    CONFIG_CLIENT_AUTH_AUTO,
    CONFIG_CLIENT_AUTH_NONE,
    CONFIG_CLIENT_AUTH_OPTIONAL,
    CONFIG_CLIENT_AUTH_REQUIRED,
};

enum config_tls_version { CONFIG_TLS_1_2, CONFIG_TLS_1_3 };

/* TLS of an address. Paths as they were written; the files are not looked into here (main/tls_options.h). */
struct config_tls {
    struct config_strings cert, key, client_ca, crl;
    int client_auth;        /* enum config_client_auth */
    int min_version;        /* enum config_tls_version */
    bool has_psk;           /* pre-shared keys of the registry */
    struct str ticket_keys; /* empty: none */
};

struct config_listener {
    struct str id; /* its path, as in "listeners[0]", for messages */
    unsigned line;
    struct config_address mqtt; /* exactly one of the four has a host: the protocol it serves */
    struct config_address mqtts;
    struct config_address http;
    struct config_address https;
    struct config_tls tls;           /* of mqtts and https */
    struct str tenant;               /* of anonymous clients and of user names without `@`; empty: there is none */
    struct str response_information; /* told to MQTT 5 clients that ask for it; empty: nothing */
    bool is_hono;                    /* device endpoints follow Hono */
    bool is_anonymous;               /* clients without user name are let in */
    bool is_tenant_fixed;            /* names of other tenants are refused */
};

/* Where it serves MQTT, or HTTP, with TLS or without; NULL: it does not. */
static inline const struct config_address *config_listener_mqtt(const struct config_listener *listener)
{
    if (listener->mqtts.host.n)
        return &listener->mqtts;
    return listener->mqtt.host.n ? &listener->mqtt : NULL;
}

static inline const struct config_address *config_listener_http(const struct config_listener *listener)
{
    if (listener->https.host.n)
        return &listener->https;
    return listener->http.host.n ? &listener->http : NULL;
}

/* Where it listens, whatever it serves. */
static inline const struct config_address *config_listener_address(const struct config_listener *listener)
{
    const struct config_address *http = config_listener_http(listener), *mqtt = config_listener_mqtt(listener);

    return http ? http : mqtt ? mqtt : &listener->mqtt;
}

static inline bool config_listener_has_tls(const struct config_listener *listener)
{
    return listener->mqtts.host.n || listener->https.host.n;
}

struct config_adapter {
    struct str id; /* its path */
    unsigned line;
    int type; /* enum config_adapter_type */
    bool is_enabled;
};

enum config_period { CONFIG_PERIOD_MONTHLY, CONFIG_PERIOD_DAYS };

/* What may be used in each period. */
struct config_allowance {
    struct str since; /* as it is written; */
    int64_t since_ms; /* and as a moment */
    int64_t max;      /* -1: no bound */
    int period;       /* enum config_period */
    int64_t days;     /* of a period in days */
};

/* Bounds of a tenant, -1 without (spec: Hono tenant `resource-limits`): times to live in seconds, and what registry/usage.h counts. */
struct config_tenant_limits {
    int64_t max_ttl_s;
    int64_t max_ttl_telemetry_qos0_s;
    int64_t max_ttl_telemetry_qos1_s;
    int64_t max_ttl_command_response_s;
    int64_t max_connections;
    int64_t minimum_message_size;                /* a payload counts as a multiple of that */
    struct config_allowance data_volume;         /* bytes */
    struct config_allowance connection_duration; /* minutes */
};

struct config_device {
    struct str id;
    unsigned line;
    struct str mapper;         /* of what it sends, by name; empty: the tenant's */
    struct str command_mapper; /* of the commands that it gets, likewise */
    bool is_enabled;
    struct str auth_id;        /* the id of the device if it has a password and the file gives no other */
    struct str password;       /* a secret; empty: the device cannot log in, only gateways speak for it */
    struct config_strings via; /* gateways that may act for it */
    struct config_properties defaults;
};

struct config_tenant {
    struct str id;
    unsigned line;
    struct str mapper;         /* of its devices, by name; empty: none */
    struct str command_mapper; /* of the commands that they get, likewise */
    bool is_enabled;
    struct config_adapter *adapters; /* none: every adapter is on */
    size_t adapter_count;
    struct config_properties defaults;
    struct config_tenant_limits limits;
    struct config_device *devices;
    size_t device_count;
};

enum config_role { CONFIG_ROLE_READ, CONFIG_ROLE_WRITE };

/* Who may use the management interface. */
struct config_admin_user {
    struct str id; /* the name */
    unsigned line;
    struct str password, token;    /* secrets; at least one is given */
    int role;                      /* enum config_role */
    struct config_strings tenants; /* none: all */
};

/* A server that rewrites messages before they go to Kafka or, as commands, to devices (adapter/mqtt/mqtt_mapper.h). */
struct config_mapper {
    struct str id; /* its name */
    unsigned line;
    struct str url;
    uint64_t timeout_ms;         /* for one message */
    uint64_t max_response_bytes; /* of the new payload */
};

/* What a rule of `to_kafka` takes, if not publishes. */
enum config_event {
    CONFIG_EVENT_NONE,
    CONFIG_EVENT_CONNECT,
    CONFIG_EVENT_DISCONNECT,
    CONFIG_EVENT_SUBSCRIBE,
    CONFIG_EVENT_SESSION_END,
    CONFIG_EVENTS,
};

enum config_ack { CONFIG_ACK_QUORUM, CONFIG_ACK_RECEIVED, CONFIG_ACK_SPOOLED };

/* One record of a rule. Texts are templates, which are not looked into here (core/rule_template.h). */
struct config_rule_action {
    struct str id;
    unsigned line;
    struct str topic, key, partition;
    struct config_properties headers;
    int ack; /* enum config_ack */
    bool is_creating;
    uint64_t timeout_ms; /* 0: wait for Kafka */
};

/* A rule from MQTT to Kafka. `single` is the record of a rule without a list of actions; its id and line are not set. */
struct config_to_kafka {
    struct str id;
    unsigned line;
    struct str name;   /* empty: its id stands for it */
    struct str mqtt;   /* a filter with named segments; empty: it takes an event */
    int event;         /* enum config_event */
    struct str tenant; /* empty: any */
    struct str mapper; /* by name; empty: none */
    bool is_local;
    struct config_rule_action single;
    struct config_rule_action *actions;
    size_t action_count;
};

enum config_begin { CONFIG_BEGIN_LATEST, CONFIG_BEGIN_EARLIEST };

/* A rule from Kafka to MQTT. Patterns and templates are not looked into here (core/to_mqtt_rule.h). */
struct config_to_mqtt {
    struct str id;
    unsigned line;
    struct str topic, key, mqtt, tenant;
    int64_t qos;
    bool is_retained;
    int begin; /* enum config_begin */
    uint64_t hold_ms, start_hold_ms, ack_timeout_ms;
};

struct config_kafka {
    struct str bootstrap; /* empty exactly when is_embedded */
    bool is_embedded;     /* Kafka's wire protocol inside the process, in memory */
    struct str topic_prefix;
    uint64_t max_inflight_bytes;
    struct str group;                    /* of consumers; the instance's name is put behind it */
    uint64_t max_uncommitted;            /* records of a partition that are read and not settled */
    uint64_t max_uncommitted_bytes;      /* of all partitions */
    struct config_properties properties; /* for librdkafka, some of them secrets */
};

/* The HTTP adapter. */
struct config_http {
    uint64_t request_timeout_ms; /* how long a request with QoS 1 waits for Kafka */
    uint64_t max_body_bytes;
    struct str cors_allowed_origin; /* `*`: any; empty: none */
};

/* Which commands an application is told of when they are not delivered. */
enum config_notices { CONFIG_NOTICES_HONO, CONFIG_NOTICES_ALL };

enum config_routing { CONFIG_ROUTING_DIRECT, CONFIG_ROUTING_ROUTER, CONFIG_ROUTING_SHARED, CONFIG_ROUTING_LINK };

enum config_command_policy { CONFIG_COMMAND_REFUSE, CONFIG_COMMAND_QUEUE };

enum config_command_role { CONFIG_COMMAND_ROLE_ALL, CONFIG_COMMAND_ROLE_ADAPTER, CONFIG_COMMAND_ROLE_ROUTER };

/* Commands from applications to devices. */
struct config_command {
    int routing;    /* enum config_routing */
    int role;       /* enum config_command_role */
    bool is_shared; /* routes are kept in Kafka */
    uint64_t lease_ms;
    int notices;                 /* enum config_notices */
    struct str ack_topic;        /* `response`, or the beginning of another topic's name */
    uint64_t ack_timeout_ms;     /* how long a device has for its PUBACK */
    uint64_t resend_interval_ms; /* until a client before MQTT 5 is sent a command again; 0: never */
    int policy;                  /* enum config_command_policy */
    uint64_t queue_per_device, queue_per_tenant;
    bool has_message_id_in_topic;
    struct config_address link_listen;
    struct str link_advertise;
    struct config_tls link_tls; /* mutual: cert, key, client_ca */
};

/* The fan-out of CloudEvents over HTTP. */
struct config_fanout {
    bool is_enabled; /* the section is there */
    struct config_address listen;
    struct str config_dir;
    struct config_strings sources; /* `file`, `put` in their order; never empty */
    struct str put_token;          /* a secret; empty: none is asked for */
    bool isolates_channels;        /* one that is wrong does not keep the others from going live */
    uint64_t grace_ms;
    uint64_t park_max_bytes;
    uint64_t park_delay_ms, park_delay_max_ms;
    struct str stateless_token; /* a secret; empty: there is no stateless mode */
    struct config_strings stateless_allow;
};

/* Bounds on what a peer can make us hold. A count or time of 0 where "none" is said means there is no bound. */
struct config_limits {
    uint64_t max_packet_bytes; /* the whole packet with its fixed header; announced to MQTT 5 clients */
    uint64_t topic_levels;
    uint64_t subscriptions_per_session;
    uint64_t receive_maximum; /* QoS 1 and 2 publishes a client may have unacknowledged */
    uint64_t topic_alias_maximum;
    uint64_t outgoing_topic_aliases; /* set for the messages a client gets, if it allows it */
    uint64_t output_bytes;           /* waiting to be sent, per connection */
    uint64_t session_queued_messages;
    uint64_t session_queued_bytes;
    uint64_t sessions; /* of the process, connected or not */
    uint64_t retained_messages;
    uint64_t retained_bytes;
    uint64_t connect_timeout_ms; /* from accept to a complete CONNECT */
    uint64_t tls_handshakes;     /* under way at a time, of the process */
    uint64_t tls_handshake_timeout_ms;
    uint64_t keep_alive_maximum_ms; /* 0: none; whole seconds */
    uint64_t max_connections;       /* of the process; 0: none */
};

struct config {
    struct config_kafka kafka;
    struct config_listener *listeners;
    size_t listener_count;
    struct config_address admin_listen; /* empty host: no administration port */
    struct config_tls admin_tls;        /* without a certificate: it has none */
    bool is_managed;                    /* the administration port has the management interface */
    struct config_admin_user *admin_users;
    size_t admin_user_count;
    struct str audit_topic;                      /* of changes to the registry; empty: none */
    bool is_registry_shared;                     /* its table is in Kafka, else in data_dir */
    uint64_t bcrypt_cost;                        /* of passwords that are hashed here */
    uint64_t bcrypt_max_cost;                    /* of hashes that clients bring */
    struct config_strings https_ca;              /* whom we trust where we are the client; none: whom the system does */
    struct config_strings https_cert, https_key; /* of ours, for servers that ask for one */
    struct config_authentication authentication;
    struct str data_dir;
    struct config_tenant *tenants;
    size_t tenant_count;
    struct config_mapper *mappers;
    size_t mapper_count;
    struct config_to_kafka *to_kafka; /* in their order */
    size_t to_kafka_count;
    struct config_to_mqtt *to_mqtt; /* in their order */
    size_t to_mqtt_count;
    struct str instance;                      /* empty: the host's name */
    uint64_t rules_max_topics;                /* different topics that the values of messages may name */
    uint64_t hono_delivery_timeout_ms;        /* 0: wait for Kafka */
    bool hono_gateway_id, hono_tenant_id;     /* records of devices have these headers, too */
    bool hono_connection_events;              /* applications are told when a device connects and disconnects */
    uint64_t drain_timeout_ms;                /* how long an orderly stop waits for Kafka's acknowledgements */
    uint64_t workers;                         /* 0: one for each CPU the process may use */
    int log_level;                            /* enum log_level */
    int log_format;                           /* enum config_log_format */
    struct config_properties log_level_names; /* as the file gives them: subsystem -> level */
    enum log_level log_levels[LOG_SUBS];      /* of each subsystem: its own, else log_level */
    struct config_limits limits;
    struct config_http http;
    struct config_command command;
    struct config_fanout fanout;
};

/* A setting from the command line: `path=value`, applied after the file, later ones win. `text` is borrowed for the call. */
struct config_setting {
    const char *text;
};

struct config_source {
    struct str text;  /* YAML, at most CONFIG_MAX_TEXT_BYTES; may be empty */
    const char *name; /* for messages, borrowed as long as they are read; also the folder of relative `file:` references */
    const struct config_setting *settings;
    size_t setting_count;
    bool skips_secrets; /* leaves `file:` and `env:` references as they are: for checks on another machine and for fuzzing */
};

/* Every error of a configuration, up to the bound, in the order of the file. All-zero is valid and empty. */
struct config_errors {
    struct errinfo items[CONFIG_MAX_ERRORS];
    size_t count;
    size_t omitted; /* found, but past the bound */
};

/* Reads, binds and checks. The caller owns one reference to `*out_config`, written only on success. `errors` must not be
 * NULL and is emptied first. E_INVAL: there is at least one in it. E_LIMIT: the text is too long, too deep or has too many
 * parts to be read at all; told in `errors` as well. */
MUST_USE err config_load(const struct config_source *source, struct config **out_config, struct config_errors *errors);

/* config_load() of a file. E_IO and an entry in `errors` when it cannot be read. `source->text` is ignored, `source->name` is
 * the path. May block on the disk. */
MUST_USE err config_load_file(const struct config_source *source, struct config **out_config, struct config_errors *errors);

/* Whether the process is a fan-out and nothing else: it has no devices and no registry. */
static inline bool config_is_fanout_alone(const struct config *config)
{
    return config->fanout.is_enabled && config->listener_count == 0 && config->kafka.bootstrap.n == 0 &&
           !config->kafka.is_embedded;
}

/* Whether there are connections with other instances, for commands. */
static inline bool config_has_link(const struct config *config)
{
    return config->command.routing == CONFIG_ROUTING_LINK && config->command.is_shared && !config->kafka.is_embedded;
}

/* Whether instances have topics of their own, for commands. */
static inline bool config_has_command_topics(const struct config *config)
{
    return (config->command.routing == CONFIG_ROUTING_ROUTER || config->command.routing == CONFIG_ROUTING_SHARED) &&
           config->command.is_shared && !config->kafka.is_embedded;
}

/* Whether notices of delivery go where the failures go, to hono.command_response.TENANT. */
static inline bool config_acks_in_responses(const struct config *config)
{
    return str_equal(config->command.ack_topic, STR("response"));
}

/* Takes and gives back a reference. Any thread. The last config_unref() wipes the secrets and frees; NULL is a no-op. */
struct config *config_ref(struct config *config);
void config_unref(struct config *config);

/* The line of the file at which an option outside lists and maps was given, by its row in the option table; 0: the file does not
 * have it. Of a configuration that came from config_load() or config_load_file(). */
unsigned config_line(const struct config *config, size_t row);
