#include "obs/log_line.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/utf8.h"

/* Kept free for what ends every line: truncated, suppressed and the end itself. */
enum { TAIL_BYTES = 96 };

struct writer {
    char *p;
    size_t n, size;
    bool is_full;
};

static void put(struct writer *w, const char *p, size_t n)
{
    if (w->is_full || n > w->size - w->n) {
        w->is_full = true;
        return;
    }
    memcpy(w->p + w->n, p, n);
    w->n += n;
}

static void put_text(struct writer *w, const char *text)
{
    put(w, text, strlen(text));
}

/* Code points that move a terminal's cursor, end a line or reorder the text around them. */
static bool is_hidden(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

static void put_escaped(struct writer *w, struct str s, enum obs_log_format format)
{
    static const char shorts[] = "\b\t\n\f\r\"\\", letters[] = "btnfr\"\\";

    while (s.n > 0) {
        uint32_t c = 0;
        unsigned n = utf8_read(s, &c);
        const char *at = n == 1 && c ? strchr(shorts, (int)c) : NULL;
        char text[16];

        if (at)
            put(w, (char[]){'\\', letters[at - shorts]}, 2);
        else if (n == 0 && format == OBS_LOG_JSON)
            put_text(w, "\\ufffd");
        else if (n == 0)
            put(w, text, (size_t)snprintf(text, sizeof text, "\\x%02x", (unsigned char)s.p[0]));
        else if (is_hidden(c))
            put(w, text, (size_t)snprintf(text, sizeof text, "\\u%04x", (unsigned)c));
        else
            put(w, s.p, n);
        s = str_from_offset(s, n ? n : 1);
    }
}

/* At most OBS_LOG_FIELD_BYTES, without cutting a character in two. */
static struct str cut(struct str s)
{
    if (s.n <= OBS_LOG_FIELD_BYTES)
        return s;
    s.n = OBS_LOG_FIELD_BYTES;
    while (s.n > OBS_LOG_FIELD_BYTES - 3 && ((unsigned char)s.p[s.n] & 0xc0) == 0x80)
        s.n--;
    return s;
}

/* Whether logfmt can take the text without quotes. */
static bool is_plain(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c <= ' ' || c >= 0x7f || c == '"' || c == '=' || c == '\\')
            return false;
    }
    return s.n > 0;
}

static void put_name(struct writer *w, const char *name, enum obs_log_format format)
{
    if (format == OBS_LOG_JSON) {
        put_text(w, w->n > 1 ? ",\"" : "\"");
        put_text(w, name);
        put_text(w, "\":");
    } else {
        put_text(w, w->n > 0 ? " " : "");
        put_text(w, name);
        put_text(w, "=");
    }
}

static void put_str(struct writer *w, const char *name, struct str value, enum obs_log_format format)
{
    struct str text = cut(value);
    bool is_quoted = format == OBS_LOG_JSON || text.n < value.n || !is_plain(text);

    put_name(w, name, format);
    put_text(w, is_quoted ? "\"" : "");
    put_escaped(w, text, format);
    put_text(w, text.n < value.n ? "..." : "");
    put_text(w, is_quoted ? "\"" : "");
}

static void put_int(struct writer *w, const char *name, int64_t value, enum obs_log_format format)
{
    char text[24];

    put_name(w, name, format);
    put(w, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)value));
}

static void put_time(struct writer *w, uint64_t wall_ms, enum obs_log_format format)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm = {0};
    char text[48], date[32];

    gmtime_r(&seconds, &tm);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text, sizeof text, "%s.%03uZ", date, (unsigned)(wall_ms % 1000));
    put_str(w, "ts", str_from(text), format);
}

size_t log_line_format(char to[OBS_LOG_LINE_BYTES], enum obs_log_format format, const struct log_event *event)
{
    struct writer w = {.p = to, .size = OBS_LOG_LINE_BYTES - TAIL_BYTES};

    put_text(&w, format == OBS_LOG_JSON ? "{" : "");
    put_time(&w, event->wall_ms, format);
    put_str(&w, "level", str_from(log_level_name(event->level)), format);
    put_str(&w, "sub", str_from(log_sub_name(event->sub)), format);
    put_str(&w, "event", str_from(event->event), format);
    for (size_t i = 0; i < event->n_fields && !w.is_full; i++) {
        const struct log_field *f = &event->fields[i];
        size_t before = w.n;

        if (f->kind == LOG_KIND_INT)
            put_int(&w, f->name, f->number, format);
        else
            put_str(&w, f->name, f->text, format);
        if (w.is_full)
            w.n = before;
    }
    w.size = OBS_LOG_LINE_BYTES;
    if (w.is_full) {
        w.is_full = false;
        put_name(&w, "truncated", format);
        put_text(&w, "true");
    }
    if (event->suppressed)
        put_int(&w, "suppressed", (int64_t)event->suppressed, format);
    put_text(&w, format == OBS_LOG_JSON ? "}\n" : "\n");
    return w.n;
}
