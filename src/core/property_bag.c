#include "core/property_bag.h"

#include <string.h>

#include "base/check.h"
#include "base/utf8.h"

/* No encoded form of a known name is longer than three times the longest, `correlation-id`. */
enum { MAX_NAME_BYTES = 3 * 14 };

/* A record carries milliseconds as a signed number of 64 bits. */
static const uint64_t max_ttl_s = INT64_MAX / 1000;

/* Where decoded values go. */
struct scratch {
    char *p;
    size_t left;
};

static void set_content_type(struct property_bag *bag, struct str value)
{
    bag->content_type = value;
}

static void set_correlation_id(struct property_bag *bag, struct str value)
{
    bag->correlation_id = value;
}

static void set_traceparent(struct property_bag *bag, struct str value)
{
    bag->traceparent = value;
}

static void set_tracestate(struct property_bag *bag, struct str value)
{
    bag->tracestate = value;
}

static void set_ttl(struct property_bag *bag, struct str value)
{
    bag->has_ttl = str_to_u64(value, max_ttl_s, &bag->ttl_s);
}

static void set_on_error(struct property_bag *bag, struct str value)
{
    static const struct {
        struct str name;
        enum property_bag_on_error mode;
    } modes[] = {
        {STR_INIT("ignore"), PROPERTY_BAG_ON_ERROR_IGNORE},
        {STR_INIT("disconnect"), PROPERTY_BAG_ON_ERROR_DISCONNECT},
        {STR_INIT("skip-ack"), PROPERTY_BAG_ON_ERROR_SKIP_ACK},
    };

    for (size_t i = 0; i < ARRAY_LEN(modes); i++)
        if (str_equal(value, modes[i].name))
            bag->on_error = modes[i].mode;
}

static const struct {
    struct str name;
    void (*set)(struct property_bag *bag, struct str value);
} known[] = {
    {STR_INIT("content-type"), set_content_type},
    {STR_INIT("correlation-id"), set_correlation_id},
    {STR_INIT("hono-ttl"), set_ttl},
    {STR_INIT("on-error"), set_on_error},
    {STR_INIT("traceparent"), set_traceparent},
    {STR_INIT("tracestate"), set_tracestate},
};

/* Checking the whole bag at once is enough, since neither `&` nor `=` is a digit. */
static bool is_encoding_valid(struct str raw)
{
    const char *mark;

    while (raw.n > 0 && (mark = memchr(raw.p, '%', raw.n)) != NULL) {
        raw = str_from_offset(raw, (size_t)(mark - raw.p));
        if (raw.n < 3 || str_hex_digit(raw.p[1]) < 0 || str_hex_digit(raw.p[2]) < 0)
            return false;
        raw = str_from_offset(raw, 3);
    }
    return true;
}

/* Decodes text whose encoding is valid; false when it does not fit. Text in which nothing is encoded is not copied. */
static bool decode(struct str text, struct scratch *s, struct str *out_text)
{
    size_t n = 0;

    if (text.n == 0 || (!memchr(text.p, '%', text.n) && !memchr(text.p, '+', text.n))) {
        *out_text = text;
        return true;
    }
    for (size_t i = 0; i < text.n; i++, n++) {
        char c = text.p[i];

        if (n == s->left)
            return false;
        if (c == '%') {
            c = (char)(str_hex_digit(text.p[i + 1]) << 4 | str_hex_digit(text.p[i + 2]));
            i += 2;
        } else if (c == '+') {
            c = ' ';
        }
        s->p[n] = c;
    }
    *out_text = (struct str){s->p, n};
    s->p += n;
    s->left -= n;
    return true;
}

/* The index in known[], or ARRAY_LEN(known). */
static size_t find_known(struct str name)
{
    char text[MAX_NAME_BYTES];
    struct scratch s = {text, sizeof(text)};
    size_t i = ARRAY_LEN(known);

    if (name.n <= MAX_NAME_BYTES && decode(name, &s, &name))
        for (i = 0; i < ARRAY_LEN(known) && !str_equal_nocase(name, known[i].name); i++)
            ;
    return i;
}

enum device_fault property_bag_parse(struct str raw, char *scratch, size_t scratch_bytes, struct property_bag *out_bag)
{
    struct property_bag bag = {0};
    struct scratch s = {scratch, scratch_bytes};
    unsigned seen = 0;

    if (!is_encoding_valid(raw))
        return DEVICE_FAULT_BAG;
    while (raw.n > 0) {
        bool found;
        struct str value = str_take(&raw, '&', &found);
        size_t i = find_known(str_take(&value, '=', &found));

        if (i == ARRAY_LEN(known) || (seen & 1u << i))
            continue;
        seen |= 1u << i;
        if (!decode(value, &s, &value))
            return DEVICE_FAULT_BAG_SIZE;
        if (!utf8_is_plain(value))
            return DEVICE_FAULT_BAG;
        known[i].set(&bag, value);
    }
    *out_bag = bag;
    return DEVICE_FAULT_NONE;
}
