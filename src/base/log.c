#include "base/log.h"

atomic_int log_levels[LOG_SUBS] = {
    [LOG_MAIN] = LOG_LEVEL_INFO,   [LOG_LOOP] = LOG_LEVEL_INFO,    [LOG_CONFIG] = LOG_LEVEL_INFO,
    [LOG_HTTP] = LOG_LEVEL_INFO,   [LOG_KAFKA] = LOG_LEVEL_INFO,   [LOG_REGISTRY] = LOG_LEVEL_INFO,
    [LOG_BROKER] = LOG_LEVEL_INFO, [LOG_MQTT] = LOG_LEVEL_INFO,    [LOG_ADMIN] = LOG_LEVEL_INFO,
    [LOG_TABLE] = LOG_LEVEL_INFO,  [LOG_COMMAND] = LOG_LEVEL_INFO, [LOG_FANOUT] = LOG_LEVEL_INFO,
};

static log_sink sink;

static const char *const sub_names[LOG_SUBS] = {
    [LOG_MAIN] = "main",   [LOG_LOOP] = "loop",         [LOG_CONFIG] = "config",   [LOG_HTTP] = "http",
    [LOG_KAFKA] = "kafka", [LOG_REGISTRY] = "registry", [LOG_BROKER] = "broker",   [LOG_MQTT] = "mqtt",
    [LOG_ADMIN] = "admin", [LOG_TABLE] = "table",       [LOG_COMMAND] = "command", [LOG_FANOUT] = "fanout",
};

static const char *const level_names[] = {
    [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_WARN] = "warn", [LOG_LEVEL_INFO] = "info", [LOG_LEVEL_DEBUG] = "debug"};

void log_set_sink(log_sink new_sink)
{
    sink = new_sink;
}

void log_set_level(enum log_sub sub, enum log_level level)
{
    atomic_store_explicit(&log_levels[sub], (int)level, memory_order_relaxed);
}

const char *log_sub_name(enum log_sub sub)
{
    return (size_t)sub < LOG_SUBS ? sub_names[sub] : "?";
}

const char *log_level_name(enum log_level level)
{
    return (size_t)level < sizeof level_names / sizeof *level_names ? level_names[level] : "?";
}

void log_emit(enum log_level level, enum log_sub sub, struct log_site *site, const char *event, const struct log_field *fields,
              size_t n_fields)
{
    if (sink)
        sink(level, sub, site, event, fields, n_fields);
}
