/* Topic names and filters: a line with a filter, the rest a name. Validity and matching are compared with slow references that
 * work level by level. */
#include <stdint.h>

#include "base/check.h"
#include "base/utf8.h"
#include "proto/mqtt/topic.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool has(struct str s, char c)
{
    return s.n && memchr(s.p, c, s.n);
}

static uint32_t count_levels(struct str s)
{
    uint32_t levels = 1;

    for (size_t i = 0; i < s.n; i++)
        levels += s.p[i] == '/';
    return levels;
}

static bool is_name(struct str s)
{
    return s.n > 0 && s.n <= TOPIC_MAX_BYTES && utf8_is_plain(s) && !has(s, '+') && !has(s, '#');
}

static bool is_filter(struct str s)
{
    bool more = true;

    if (s.n == 0 || s.n > TOPIC_MAX_BYTES || !utf8_is_plain(s))
        return false;
    while (more) {
        struct str level = str_take(&s, '/', &more);

        if (level.n != 1 && (has(level, '+') || has(level, '#')))
            return false;
        if (has(level, '#') && more)
            return false;
    }
    return true;
}

static bool is_shareable(struct str s)
{
    struct str prefix = STR("$share/");
    bool has_filter;

    if (!str_starts_with(s, prefix))
        return is_filter(s);
    s = str_from_offset(s, prefix.n);
    struct str name = str_take(&s, '/', &has_filter);
    return has_filter && is_name(name) && is_filter(s);
}

/* The n-th level; false past the last one. */
static bool get_level(struct str s, uint32_t n, struct str *out)
{
    bool more = true;

    for (; more; n--) {
        *out = str_take(&s, '/', &more);
        if (n == 0)
            return true;
    }
    return false;
}

static bool reference_matches(struct str filter, struct str name)
{
    struct str want, have;

    if (name.p[0] == '$' && (filter.p[0] == '+' || filter.p[0] == '#'))
        return false;
    for (uint32_t i = 0;; i++) {
        bool has_want = get_level(filter, i, &want), has_have = get_level(name, i, &have);

        if (has_want && str_equal(want, STR("#")))
            return true;
        if (!has_want || !has_have)
            return has_want == has_have;
        if (!str_equal(want, STR("+")) && !str_equal(want, have))
            return false;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str name = {(const char *)data, size};
    struct topic_filter filter;
    uint32_t levels;
    bool found;

    struct str text = str_take(&name, '\n', &found);
    bool is_valid_name = topic_check_name(name, &levels) == E_OK;
    bool is_valid_filter = topic_parse_filter(text, &filter) == E_OK;

    ASSERT(is_valid_name == is_name(name));
    ASSERT(!is_valid_name || levels == count_levels(name));
    ASSERT(text.n > TOPIC_MAX_BYTES || is_valid_filter == is_shareable(text));
    ASSERT(!is_valid_filter || filter.levels == count_levels(filter.filter));
    if (is_valid_filter && is_valid_name && size < 1000) /* the reference is quadratic */
        ASSERT(topic_matches(filter.filter, name) == reference_matches(filter.filter, name));
    return 0;
}
