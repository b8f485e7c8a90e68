#include "proto/mqtt/topic.h"

#include <assert.h>

#include "base/utf8.h"

static const struct str share_prefix = STR_INIT("$share/");

static bool is_wildcard(char c)
{
    return c == '+' || c == '#';
}

/* `+` and `#` differ in one bit. */
static uint64_t word_wildcards(uint64_t w)
{
    static_assert(('#' | 0x08) == '+', "the two wildcards are found by one comparison");
    return utf8_word_equal(w | 0x0808080808080808u, '+');
}

/* A wildcard fills its level, and `#` is the last one. [MQTT-4.7.1-1, 4.7.1-2] */
static bool is_wildcard_placed(struct str s, size_t at)
{
    bool begins_level = at == 0 || s.p[at - 1] == '/';
    bool ends_text = at + 1 == s.n;

    return begins_level && (ends_text || (s.p[at] == '+' && s.p[at + 1] == '/'));
}

/* The one pass over a name or filter. It counts the slashes. */
static inline bool scan(struct str s, bool allow_wildcards, uint32_t *out_slashes)
{
    uint32_t slashes = 0;
    size_t i = 0;

    while (i < s.n) {
        if (s.n - i >= sizeof(uint64_t)) {
            uint64_t w = utf8_word_load(s.p + i);

            if ((utf8_word_high(w) | utf8_word_control(w) | word_wildcards(w)) == 0) {
                slashes += utf8_word_count(utf8_word_equal(w, '/'));
                i += sizeof w;
                continue;
            }
        }
        char c = s.p[i];

        if (c >= 0x20 && c < 0x7f) {
            if (is_wildcard(c) && !(allow_wildcards && is_wildcard_placed(s, i)))
                return false;
            slashes += c == '/';
            i++;
        } else {
            uint32_t code_point;
            unsigned n = utf8_read((struct str){s.p + i, s.n - i}, &code_point);

            if (n == 0 || utf8_is_discouraged(code_point))
                return false;
            i += n;
        }
    }
    *out_slashes = slashes;
    return true;
}

err topic_check_name(struct str name, uint32_t *out_levels)
{
    uint32_t slashes;

    if (name.n == 0 || name.n > TOPIC_MAX_BYTES || !scan(name, false, &slashes)) /* [MQTT-4.7.3-1, 4.7.3-3, 4.7.1-1] */
        return E_INVAL;
    *out_levels = slashes + 1;
    return E_OK;
}

err topic_parse_filter(struct str text, struct topic_filter *out)
{
    struct topic_filter f = {.text = text, .filter = text};
    uint32_t slashes;

    if (text.n > TOPIC_MAX_BYTES)
        return E_INVAL;
    if (str_starts_with(text, share_prefix)) {
        bool has_filter;

        f.filter = str_from_offset(text, share_prefix.n);
        f.share_name = str_take(&f.filter, '/', &has_filter);
        /* Without a filter `f.filter` is empty, which is refused below. [MQTT-4.8.2-2] */
        if (f.share_name.n == 0 || !scan(f.share_name, false, &slashes)) /* [MQTT-4.8.2-1] */
            return E_INVAL;
    }
    if (f.filter.n == 0 || !scan(f.filter, true, &slashes)) /* [MQTT-4.7.3-1] */
        return E_INVAL;
    f.levels = slashes + 1;
    *out = f;
    return E_OK;
}

bool topic_matches(struct str filter, struct str name)
{
    bool more_filter = true, more_name = true;

    if (filter.n == 0 || name.n == 0 || (name.p[0] == '$' && is_wildcard(filter.p[0])))
        return false;
    while (more_filter && more_name) {
        struct str want = str_take(&filter, '/', &more_filter);

        if (str_equal(want, STR("#")))
            return true;
        struct str have = str_take(&name, '/', &more_name);
        if (!str_equal(want, STR("+")) && !str_equal(want, have))
            return false;
    }
    /* Both ended together, or the filter has only the `#` left that also stands for the parent level. */
    return more_filter == more_name || (more_filter && str_equal(filter, STR("#")));
}
