#include "main/cli_flag.h"

#include "base/check.h"

enum {
    SERVE = 1u << CLI_SERVE,
    CHECK = 1u << CLI_CHECK,
    EXPLAIN = 1u << CLI_EXPLAIN,
    FANOUT = 1u << CLI_FANOUT,
    WRITE = 1u << CLI_FANOUT_WRITE,
    PARKED = 1u << CLI_FANOUT_PARKED,
    SEND = 1u << CLI_COMMAND_SEND,
    EVENTS = 1u << CLI_EVENTS,
    TALK = SEND | EVENTS,
    TENANT = 1u << CLI_TENANT,
    DEVICE = 1u << CLI_DEVICE,
    CREDENTIALS = 1u << CLI_CREDENTIALS,
    MANAGE = TENANT | DEVICE | CREDENTIALS,
    IMPORT = 1u << CLI_IMPORT,
    ASK = MANAGE | IMPORT | PARKED,
    BOTH = SERVE | CHECK | EXPLAIN,
};

/* What matters to whoever only talks to Kafka. */
#define TALK_OPTIONS "data_dir kafka.bootstrap kafka.embedded kafka.properties kafka.topic_prefix"

#define KEPT_IN(member)           .kind = CLI_FLAG_TEXT, .commands = EXPLAIN, .offset = offsetof(struct cli, explain.member)
#define SAID_IN(which, member)    .kind = CLI_FLAG_TEXT, .commands = (which), .offset = offsetof(struct cli, talk.member)
#define MANAGED_IN(which, member) .kind = CLI_FLAG_TEXT, .commands = (which), .offset = offsetof(struct cli, manage.member)
#define SWITCH(which, member)     .kind = CLI_FLAG_SWITCH, .commands = (which), .offset = offsetof(struct cli, member)

static const char *const tenant_verbs[] = {"create", "get", "update", "delete", "list", NULL};
static const char *const device_verbs[] = {"create", "get", "update", "delete", "list", "import", "export", NULL};
static const char *const credentials_verbs[] = {"get", "update", "delete", NULL};
static const char *const import_verbs[] = {"mosquitto", "hono", NULL};
static const char *const completion_verbs[] = {"bash", "zsh", "fish", NULL};

const struct cli_command_row cli_command_table[CLI_COMMANDS] = {
    [CLI_SERVE] = {.name = "serve",
                   .summary = "serve devices until SIGTERM or SIGINT",
                   .usage = "millrace serve (-c FILE | --dev) [FLAGS]",
                   .description =
                       "Runs what the configuration says: devices connect, their messages are written to Kafka, and each is\n"
                       "acknowledged when Kafka has it. SIGTERM stops in order: nothing that was acknowledged is lost.\n"},
    [CLI_CHECK] =
        {.name = "check",
         .summary = "say whether a configuration is good",
         .usage = "millrace check (-c FILE | --dev) [FLAGS]",
         .description =
             "Prints OK and exits 0, or prints every error as FILE:LINE: MESSAGE to stderr and exits 1. Opens no port and\n"
             "asks no server.\n"},
    [CLI_EXPLAIN] =
        {.name = "explain",
         .summary = "say where a publish would go",
         .usage = "millrace explain publish (-c FILE | --dev) --client ID --topic TOPIC [FLAGS]",
         .object = "publish",
         .description =
             "Says which Kafka topics, keys, partitions and headers a publish would get and when it would be\n"
             "acknowledged, or why it would be refused. Exits 0 when it would be taken, 1 when not. Sends nothing.\n"},
    [CLI_FANOUT] =
        {.name = "fanout",
         .summary = "be the fan-out sidecar: one CloudEvent in, every subscriber out",
         .usage = "millrace fanout [FLAGS]",
         .description =
             "Takes CloudEvents over HTTP and answers each when every subscriber of its channel has it. The channels are\n"
             "in a folder, which is watched, in Knative's form or in ours (FANOUT.md). Needs no Kafka. SIGTERM stops in\n"
             "order: what was answered with 202 has reached every subscriber.\n",
         .options = "admin.listen admin.tls data_dir drain_timeout fanout https_client limits.tls_handshakes "
                    "limits.tls_handshake_timeout log workers"},
    [CLI_FANOUT_WRITE] =
        {.name = "fanout",
         .summary = "replace the channels of a fan-out, if they are good",
         .usage = "millrace fanout write-config [--config-dir DIR] [--from FILE]",
         .object = "write-config",
         .description =
             "Reads channels from a file or stdin. When they are good, they take the place of those in the folder at\n"
             "once: as multiChannelFanoutConfig when they are in Knative's form, else as channels.yaml. When not, prints\n"
             "every error as FILE:LINE: MESSAGE to stderr, changes nothing and exits 1.\n"},
    [CLI_FANOUT_PARKED] =
        {.name = "fanout",
         .summary = "list, discard or hasten events that are parked",
         .usage = "millrace fanout parked [list] [FLAGS]\n"
                  "       millrace fanout parked discard|retry NUMBER [FLAGS]\n"
                  "       millrace fanout parked discard|retry NAMESPACE/NAME UID [FLAGS]",
         .object = "parked",
         .description =
             "Asks a running fan-out: for the oldest events that are parked; to throw one away, or all of a subscription; or "
             "to\n"
             "try them again now. What is on its way to its subscriber is left alone. Exits 0 when it is done, 1 when the\n"
             "fan-out says no, 2 when it could not be asked.\n",
         .max_words = 3},
    [CLI_COMMAND_SEND] =
        {.name = "command",
         .summary = "send a command to a device",
         .usage = "millrace command send (-c FILE | --dev | --kafka BOOTSTRAP) [FLAGS]",
         .object = "send",
         .description =
             "Writes a command to hono.command.TENANT as an application does. With --response or --ack waits for what comes "
             "of\n"
             "it and prints that. Exits 0 when all is well, 1 when the device said otherwise or was not reached, 2 when Kafka\n"
             "could not be used.\n",
         .options = TALK_OPTIONS},
    [CLI_EVENTS] =
        {.name = "events",
         .summary = "follow what the devices of a tenant send",
         .usage = "millrace events (-c FILE | --dev | --kafka BOOTSTRAP) --tenant ID [FLAGS]",
         .description =
             "Prints the records of hono.telemetry.TENANT, hono.event.TENANT and hono.command_response.TENANT as they come,\n"
             "until it is interrupted.\n",
         .options = TALK_OPTIONS},
    [CLI_TENANT] =
        {.name = "tenant",
         .summary = "manage tenants",
         .usage = "millrace tenant create|get|update|delete|list [TENANT] [FLAGS]",
         .description =
             "Asks the management interface of a running process (REGISTRY.md). create and update take the tenant's\n"
             "members as JSON. Exits 0 when it is done, 1 when the registry says no, 2 when it could not be asked.\n",
         .max_words = 2,
         .verbs = tenant_verbs},
    [CLI_DEVICE] = {.name = "device",
                    .summary = "manage devices",
                    .usage = "millrace device create|get|update|delete|list|import|export TENANT [DEVICE] [FLAGS]",
                    .description =
                        "Asks as millrace tenant does. import takes lines of JSON as export prints them, {\"id\", \"device\",\n"
                        "\"credentials\"} each, and leaves alone what is there: an import that was interrupted is simply "
                        "begun again.\n",
                    .max_words = 3,
                    .verbs = device_verbs},
    [CLI_CREDENTIALS] =
        {.name = "credentials",
         .summary = "manage what devices log in with",
         .usage = "millrace credentials get|update|delete TENANT DEVICE [FLAGS]",
         .description = "Asks as millrace tenant does. update puts a list in the place of all credentials of the device.\n",
         .max_words = 3,
         .verbs = credentials_verbs},
    [CLI_IMPORT] =
        {.name = "import",
         .summary = "bring devices in from Mosquitto or Eclipse Hono",
         .usage = "millrace import mosquitto --tenant TENANT [PASSWORD-FILE] [--acl FILE] [FLAGS]\n"
                  "       millrace import hono FILE... [--tenant TENANT] [FLAGS]",
         .description =
             "Reads files of Mosquitto, or exports of Hono's device registry, and asks as millrace tenant does. Given again "
             "it\n"
             "goes on where it ended. What cannot be carried over is printed with file and line (REGISTRY.md). Exits 0 when\n"
             "everything is there, 1 when something is not, 2 when the files could not be read or nobody be asked.\n",
         .max_words = CLI_MAX_WORDS,
         .verbs = import_verbs,
         .takes_files = true},
    [CLI_COMPLETION] =
        {.name = "completion",
         .summary = "print a script that completes millrace in a shell",
         .usage = "millrace completion bash|zsh|fish",
         .description =
             "make install puts the scripts where the shells look for them. By hand: source <(millrace completion bash),\n"
             "source <(millrace completion zsh), or millrace completion fish | source.\n",
         .max_words = 1,
         .verbs = completion_verbs},
};

const struct cli_flag_row cli_flag_table[] = {
    {.name = "--config",
     .letter = 'c',
     .kind = CLI_FLAG_CONFIG,
     .commands = BOTH | FANOUT | TALK,
     .value = "FILE",
     .help = "the configuration, see CONFIGURATION.md"},
    {.name = "--dev",
     SWITCH(BOTH | TALK, is_dev),
     .help = "no file and no Kafka needed: an embedded one in memory, tenant demo, devices sensor-1 and gateway-1 (password "
             "demo-secret), sensor-2 behind the gateway, anonymous clients allowed"},
    {.name = "--mqtt",
     .kind = CLI_FLAG_SETTING,
     .commands = BOTH,
     .value = "HOST:PORT",
     .path = "listeners[0].mqtt",
     .help = "where the first listener serves MQTT (--dev: 127.0.0.1:1883)"},
    {.name = "--http",
     .kind = CLI_FLAG_SETTING,
     .commands = BOTH,
     .value = "HOST:PORT",
     .path = "listeners[http].http",
     .help = "where the first HTTP listener serves devices; without one in the file there is one more (--dev: 127.0.0.1:8080)"},
    {.name = "--config-dir",
     .kind = CLI_FLAG_SETTING,
     .commands = FANOUT | WRITE,
     .value = "DIR",
     .path = "fanout.config_dir",
     .help = "the folder with the channels (/etc/config/fanout_sidecar)"},
    {.name = "--from",
     .kind = CLI_FLAG_TEXT,
     .commands = WRITE,
     .offset = offsetof(struct cli, from),
     .value = "FILE",
     .help = "the channels to write; - or nothing: stdin"},
    {.name = "--listen",
     .kind = CLI_FLAG_SETTING,
     .commands = FANOUT,
     .value = "HOST:PORT",
     .path = "fanout.listen",
     .help = "where events come in (0.0.0.0:11235)"},
    {.name = "--admin",
     .kind = CLI_FLAG_SETTING,
     .commands = BOTH | FANOUT,
     .value = "HOST:PORT",
     .path = "admin.listen",
     .help = "the administration port: metrics, health, management (127.0.0.1:8081)"},
    {.name = "--kafka",
     .kind = CLI_FLAG_SETTING,
     .commands = BOTH | TALK,
     .value = "BOOTSTRAP",
     .path = "kafka.bootstrap",
     .with = "kafka.embedded=false",
     .help = "the Kafka cluster, as HOST:PORT[,HOST:PORT...]"},
    {.name = "--data",
     .kind = CLI_FLAG_SETTING,
     .commands = BOTH | FANOUT | TALK,
     .value = "DIR",
     .path = "data_dir",
     .help = "the folder for what is kept on disk"},
    {.name = "--workers",
     .kind = CLI_FLAG_SETTING,
     .commands = BOTH | FANOUT,
     .value = "N",
     .path = "workers",
     .help = "how many threads serve connections; 0: one for each CPU"},
    {.name = "--log-level",
     .kind = CLI_FLAG_SETTING,
     .commands = BOTH | FANOUT,
     .value = "LEVEL",
     .path = "log.level",
     .help = "error, warn, info or debug"},
    {.name = "--set",
     .kind = CLI_FLAG_SET,
     .commands = BOTH | FANOUT | TALK,
     .value = "PATH=VALUE",
     .help = "set any option of the configuration; can be given again and outranks the file"},
    {.name = "--tenant", SAID_IN(TALK, tenant), .value = "ID", .help = "the tenant"},
    {.name = "--device", SAID_IN(TALK, device), .value = "ID", .help = "the device"},
    {.name = "--name", SAID_IN(SEND, name), .value = "NAME", .help = "the command's name, its subject"},
    {.name = "--payload", SAID_IN(SEND, payload), .value = "TEXT", .help = "what goes with it; nothing without it"},
    {.name = "--content-type", SAID_IN(SEND, content_type), .value = "TYPE", .help = "of the payload"},
    {.name = "--ttl", SAID_IN(SEND, ttl), .value = "TIME", .help = "how long it may take to get there, as in 30s"},
    {.name = "--response", SWITCH(SEND, talk.wants_response), .help = "ask the device for an answer, and wait for it"},
    {.name = "--ack", SWITCH(SEND, talk.wants_ack), .help = "ask for a notice of the delivery, and wait for it"},
    {.name = "--count", SAID_IN(EVENTS, count), .value = "N", .help = "end after so many records"},
    {.name = "--timeout", SAID_IN(TALK, timeout), .value = "TIME", .help = "how long to wait (command send: 10s)"},
    {.name = "--output", .letter = 'o', SAID_IN(TALK, output), .value = "FORMAT", .help = "text or json (text)"},
    {.name = "--client", KEPT_IN(client), .value = "ID", .help = "the client id of the sender"},
    {.name = "--user",
     KEPT_IN(user),
     .value = "NAME",
     .help = "the user name it logs in with, as in sensor-1@demo; without one it is anonymous"},
    {.name = "--topic", KEPT_IN(topic), .value = "TOPIC", .help = "the topic it publishes to"},
    {.name = "--qos", KEPT_IN(qos), .value = "QOS", .help = "0, 1 or 2 (1)"},
    {.name = "--payload", KEPT_IN(payload), .value = "TEXT", .help = "the payload; empty without it"},
    {.name = "--content-type", KEPT_IN(content_type), .value = "TYPE", .help = "MQTT 5's Content Type"},
    {.name = "--property",
     .kind = CLI_FLAG_PROPERTY,
     .commands = EXPLAIN,
     .value = "NAME=VALUE",
     .help = "a user property of MQTT 5; can be given again"},
    {.name = "--retain", SWITCH(EXPLAIN, explain.retain), .help = "with the retain flag"},
    {.name = "--listener", KEPT_IN(listener), .value = "N", .help = "the listener it connects to, counted from 0 (0)"},
    {.name = "--output", .letter = 'o', KEPT_IN(output), .value = "FORMAT", .help = "text or json (text)"},
    {.name = "--api",
     MANAGED_IN(ASK, api),
     .value = "URL",
     .help = "the administration port (MILLRACE_API, else http://127.0.0.1:8081)"},
    {.name = "--ca",
     MANAGED_IN(ASK, ca),
     .value = "FILE",
     .help = "https: whose certificates are good (MILLRACE_CA, else as the system says)"},
    {.name = "--user", MANAGED_IN(MANAGE | IMPORT, user), .value = "NAME:PASSWORD", .help = "who asks (MILLRACE_USER)"},
    {.name = "--token", MANAGED_IN(ASK, token), .value = "TOKEN", .help = "who asks, by a token (MILLRACE_TOKEN)"},
    {.name = "--body", MANAGED_IN(MANAGE, body), .value = "JSON", .help = "create, update: what it is to be"},
    {.name = "--from",
     .kind = CLI_FLAG_TEXT,
     .commands = MANAGE,
     .offset = offsetof(struct cli, from),
     .value = "FILE",
     .help = "the same, or the lines to import; - is stdin"},
    {.name = "--if-match", MANAGED_IN(MANAGE, if_match), .value = "VERSION", .help = "update, delete: only this version"},
    {.name = "--filter", MANAGED_IN(TENANT | DEVICE, filter), .value = "JSON", .help = "list: as filterJson in REGISTRY.md"},
    {.name = "--sort", MANAGED_IN(TENANT | DEVICE, sort), .value = "JSON", .help = "list: as sortJson"},
    {.name = "--page", MANAGED_IN(TENANT | DEVICE, page), .value = "N", .help = "list: which page, from 0"},
    {.name = "--page-size", MANAGED_IN(TENANT | DEVICE, page_size), .value = "N", .help = "list: how many on a page (30)"},
    {.name = "--secrets", SWITCH(DEVICE, manage.has_secrets), .help = "export: with hashes and keys, to import them elsewhere"},
    {.name = "--tenant",
     MANAGED_IN(IMPORT, tenant),
     .value = "ID",
     .help = "the tenant of the devices; of an export that has several: this one only"},
    {.name = "--acl", MANAGED_IN(IMPORT, acl), .value = "FILE", .help = "mosquitto: the file with who may do what"},
    {.name = "--dry-run", SWITCH(IMPORT, manage.is_dry), .help = "change nothing and say what would be"},
    {.name = "--update",
     SWITCH(IMPORT, manage.is_update),
     .help = "replace what is there and not the same; without it that is left alone"},
    {.name = "--output", .letter = 'o', MANAGED_IN(ASK, output), .value = "FORMAT", .help = "text or json (text)"},
    {.name = "--no-secrets",
     SWITCH(CHECK | EXPLAIN, skips_secrets),
     .help = "do not look up file: and env: references and the files of TLS, which may not exist on this machine"},
    {.name = "--kafka-acls",
     SWITCH(CHECK, prints_acls),
     .help = "print the least permissions in Kafka that the configuration needs, and those of each tenant's applications, as "
             "arguments of kafka-acls.sh"},
    {.name = "--print-schema",
     SWITCH(CHECK, prints_schema),
     .help = "print the JSON Schema of the fan-out's channels (fanout-channels.schema.json), for editors and pipelines"},
    {.name = "--print-docs", .is_hidden = true, SWITCH(CHECK, prints_docs), .help = "print CONFIGURATION.md"},
    {.name = "--help",
     .letter = 'h',
     .kind = CLI_FLAG_HELP,
     .commands = BOTH | FANOUT | WRITE | TALK | ASK | 1u << CLI_COMPLETION,
     .help = "this text"},
};

const size_t cli_flag_count = ARRAY_LEN(cli_flag_table);

const char cli_dev_text[] = "kafka: {embedded: true}\n"
                            "listeners:\n"
                            "  - {mqtt: \"127.0.0.1:1883\", tenant: demo, anonymous: true}\n"
                            "  - {http: \"127.0.0.1:8080\", tenant: demo, anonymous: true}\n"
                            "admin: {listen: \"127.0.0.1:8081\"}\n"
                            "data_dir: millrace-data\n"
                            "tenants:\n"
                            "  demo:\n"
                            "    devices:\n"
                            "      sensor-1: {password: demo-secret}\n"
                            "      gateway-1: {password: demo-secret}\n"
                            "      sensor-2: {via: gateway-1}\n";
