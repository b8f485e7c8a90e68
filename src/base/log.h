/* log: what an operator reads. A line is a constant event name and typed fields:
 *
 *     LOG_WARN(LOG_BROKER, "session.takeover", F_STR("client", id), F_INT("inflight", n));
 *
 * error = somebody should act; warn = something was refused or lost; info = life cycle; debug = single messages. Never
 * payloads, passwords or tokens. Strings from peers are escaped by the sink. Any thread, never blocks: the sink (obs/obs_log.h)
 * puts lines into a bounded ring and counts what does not fit. Without a sink nothing is written. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Subsystems, each with a level of its own. Names are in log.c and in the configuration (log.levels). */
enum log_sub {
    LOG_MAIN,
    LOG_LOOP,
    LOG_CONFIG,
    LOG_HTTP,
    LOG_KAFKA,
    LOG_REGISTRY,
    LOG_BROKER,
    LOG_MQTT,
    LOG_ADMIN,
    LOG_TABLE,
    LOG_COMMAND,
    LOG_FANOUT,
    LOG_SUBS
};

enum log_kind { LOG_KIND_STR, LOG_KIND_INT };

struct log_field {
    const char *name;
    enum log_kind kind;
    int64_t number;
    struct str text;
};

/* One per call site: the rate limit's state (obs/obs_log.c). All-zero at first. */
struct log_site {
    atomic_uint_fast64_t window;
    atomic_uint count;
    atomic_uint suppressed;
};

#define F_STR(field_name, value)  ((struct log_field){.name = (field_name), .kind = LOG_KIND_STR, .text = (value)})
#define F_TEXT(field_name, value) F_STR(field_name, str_from(value))
#define F_INT(field_name, value)  ((struct log_field){.name = (field_name), .kind = LOG_KIND_INT, .number = (int64_t)(value)})

#define LOG_AT(level, sub, event, ...)                                                                                         \
    do {                                                                                                                       \
        if (log_is_on(level, sub)) {                                                                                           \
            static struct log_site log_site;                                                                                   \
            const struct log_field log_fields[] = {{0}, ##__VA_ARGS__};                                                        \
            log_emit(level, sub, &log_site, event, log_fields + 1, sizeof log_fields / sizeof *log_fields - 1);                \
        }                                                                                                                      \
    } while (0)
#define LOG_ERROR(sub, event, ...) LOG_AT(LOG_LEVEL_ERROR, sub, event, ##__VA_ARGS__)
#define LOG_WARN(sub, event, ...)  LOG_AT(LOG_LEVEL_WARN, sub, event, ##__VA_ARGS__)
#define LOG_INFO(sub, event, ...)  LOG_AT(LOG_LEVEL_INFO, sub, event, ##__VA_ARGS__)
#define LOG_DEBUG(sub, event, ...) LOG_AT(LOG_LEVEL_DEBUG, sub, event, ##__VA_ARGS__)

/* Where lines go. Set once before threads start, by obs/obs_log.c or a test; NULL is nowhere. */
typedef void (*log_sink)(enum log_level level, enum log_sub sub, struct log_site *site, const char *event,
                         const struct log_field *fields, size_t n_fields);
void log_set_sink(log_sink sink);

/* Levels can change at run time, from any thread. Default is info. */
void log_set_level(enum log_sub sub, enum log_level level);
const char *log_sub_name(enum log_sub sub);
const char *log_level_name(enum log_level level);

extern atomic_int log_levels[LOG_SUBS];

static inline bool log_is_on(enum log_level level, enum log_sub sub)
{
    return (int)level <= atomic_load_explicit(&log_levels[sub], memory_order_relaxed);
}

/* Only through the macros. */
void log_emit(enum log_level level, enum log_sub sub, struct log_site *site, const char *event, const struct log_field *fields,
              size_t n_fields);
