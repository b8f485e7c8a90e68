#include "fanout/fanout_describe.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/jsonw.h"

enum { TIME_BYTES = 32, VALUE_BYTES = 64 };

/* The first failure is kept, so that a text is written without looking after each piece. */
struct writer {
    struct buf *out;
    err e;
};

static void put(struct writer *w, struct str text)
{
    if (w->e == E_OK)
        w->e = buf_append(w->out, MEM_HTTP, text);
}

/* Puts a comma unless this is the first of something. */
static void put_separator(struct writer *w)
{
    struct str written = buf_str(w->out);

    if (written.n && !strchr("{[", written.p[written.n - 1]))
        put(w, STR(","));
}

static void put_name(struct writer *w, const char *name)
{
    put_separator(w);
    put(w, STR("\""));
    put(w, str_from(name));
    put(w, STR("\":"));
}

static void put_value(struct writer *w, struct str text)
{
    if (w->e == E_OK)
        w->e = jsonw_string(w->out, MEM_HTTP, text);
}

static void put_text(struct writer *w, const char *name, struct str text)
{
    put_name(w, name);
    put_value(w, text);
}

static void put_number(struct writer *w, const char *name, uint64_t value)
{
    char text[VALUE_BYTES];
    int n = snprintf(text, sizeof text, "%" PRIu64, value);

    put_name(w, name);
    put(w, (struct str){text, (size_t)n});
}

static void put_bool(struct writer *w, const char *name, bool value)
{
    put_name(w, name);
    put(w, value ? STR("true") : STR("false"));
}

/* RFC 3339 */
static void put_time(struct writer *w, const char *name, uint64_t at_ms)
{
    time_t at = (time_t)(at_ms / 1000);
    char text[TIME_BYTES];
    struct tm tm;

    text[strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &tm))] = '\0';
    put_text(w, name, str_from(text));
}

static void put_errors(struct writer *w, const struct config_errors *errors)
{
    put_name(w, "errors");
    put(w, STR("["));
    for (size_t i = 0; i < errors->count; i++) {
        put_separator(w);
        put(w, STR("{"));
        put_text(w, "file", str_from(errors->items[i].file));
        if (errors->items[i].line)
            put_number(w, "line", errors->items[i].line);
        put_text(w, "text", str_from(errors->items[i].text));
        put(w, STR("}"));
    }
    put(w, STR("]"));
    if (errors->omitted)
        put_number(w, "errors_omitted", errors->omitted);
}

/* What is not as the text has it. */
static void put_isolated(struct writer *w, const struct fanout_snapshot *snapshot)
{
    put_name(w, "isolated");
    put(w, STR("["));
    for (size_t i = 0; i < snapshot->n_isolated; i++) {
        const struct fanout_isolated *one = &snapshot->isolated[i];

        put_separator(w);
        put(w, STR("{"));
        if (one->key.n)
            put_text(w, "channel", one->key);
        put_number(w, "line", one->line);
        put_text(w, "error", one->why);
        put_text(w, "fate", one->kept ? STR("kept") : STR("left_out"));
        if (one->kept)
            put_number(w, "generation", one->kept->donor->generation);
        put(w, STR("}"));
    }
    put(w, STR("]"));
}

static void put_snapshot(struct writer *w, const struct fanout_snapshot *snapshot)
{
    put_number(w, "generation", snapshot->generation);
    put_text(w, "source", snapshot->source);
    put_number(w, "channels", snapshot->n_channels);
    put_number(w, "subscriptions", snapshot->n_subscriptions);
}

err fanout_describe_snapshot(struct buf *out, const struct fanout_snapshot *snapshot)
{
    struct writer w = {.out = out};

    put(&w, STR("{"));
    put_snapshot(&w, snapshot);
    put(&w, STR("}\n"));
    return w.e;
}

err fanout_describe_config(struct buf *out, const struct fanout_control *control)
{
    static const char *const statuses[FANOUT_CONTROL_STATUSES] = {"applied", "partial", "unchanged", "failed"};
    const struct fanout_control_report *report = fanout_control_report(control);
    struct writer w = {.out = out};

    put(&w, STR("{"));
    put_snapshot(&w, fanout_control_now(control));
    if (fanout_control_takes_puts(control))
        put_number(&w, "put_generation", fanout_control_put_generation(control));
    put_isolated(&w, fanout_control_now(control));
    put_name(&w, "last_reload");
    put(&w, STR("{"));
    put_text(&w, "status", str_from(statuses[report->status]));
    put_time(&w, "at", report->at_ms);
    put_text(&w, "source", report->source);
    put_errors(&w, &report->errors);
    put(&w, STR("}}\n"));
    return w.e;
}

err fanout_describe_refusal(struct buf *out, const struct config_errors *errors, uint64_t generation)
{
    struct writer w = {.out = out};

    put(&w, STR("{"));
    put_text(&w, "error", errors->count ? str_from(errors->items[0].text) : STR("refused"));
    put_errors(&w, errors);
    put_number(&w, "put_generation", generation);
    put(&w, STR("}\n"));
    return w.e;
}

static void put_target(struct writer *w, const char *name, const struct fanout_target *target)
{
    if (target->kind != FANOUT_TARGET_NONE)
        put_text(w, name, target->text);
}

static void put_subscription(struct writer *w, const struct fanout_subscription *s)
{
    static const char *const exhausted[] = {"nack", "dead-letter", "park", "drop"};

    put_separator(w);
    put(w, STR("{"));
    put_text(w, "uid", s->uid);
    put_target(w, "subscriber", &s->subscriber);
    put_target(w, "reply", &s->reply);
    put_target(w, "dead_letter", &s->dead_letter);
    put_number(w, "retry", s->retry.retries);
    put_text(w, "on_exhausted", str_from(exhausted[s->on_exhausted]));
    if (s->on_exhausted == FANOUT_EXHAUSTED_DEAD_LETTER)
        put_text(w, "on_dead_letter_failed", str_from(exhausted[s->on_dead_letter_failed]));
    put_bool(w, "is_filtered", s->filter != NULL);
    put(w, STR("}"));
}

static void put_channel(struct writer *w, const struct fanout_channel *c)
{
    static const char *const acks[] = {"all", "quorum", "first", "async-memory"};
    static const char *const orders[] = {"none", "key", "strict"};

    put_separator(w);
    put(w, STR("{"));
    put_text(w, "namespace", c->ns);
    put_text(w, "name", c->name);
    put_name(w, "hosts");
    put(w, STR("["));
    for (size_t i = 0; i < c->n_hosts; i++) {
        put_separator(w);
        put_value(w, c->hosts[i]);
    }
    put(w, STR("]"));
    put_text(w, "ack", str_from(acks[c->ack]));
    if (c->ack == FANOUT_ACK_QUORUM)
        put_number(w, "quorum", c->quorum);
    put_bool(w, "is_lossy", c->ack == FANOUT_ACK_ASYNC_MEMORY);
    if (c->donor)
        put_number(w, "kept_from_generation", c->donor->generation);
    put_text(w, "order", str_from(orders[c->order]));
    put_name(w, "subscriptions");
    put(w, STR("["));
    for (size_t i = 0; i < c->n_subscriptions; i++)
        put_subscription(w, &c->subscriptions[i]);
    put(w, STR("]}"));
}

err fanout_describe_channels(struct buf *out, const struct fanout_snapshot *snapshot)
{
    struct writer w = {.out = out};

    put(&w, STR("{"));
    put_number(&w, "generation", snapshot->generation);
    put_name(&w, "channels");
    put(&w, STR("["));
    for (size_t i = 0; i < snapshot->n_channels; i++)
        put_channel(&w, &snapshot->channels[i]);
    put(&w, STR("]}\n"));
    return w.e;
}
