#include "core/rule_filter.h"

#include "base/utf8.h"

enum { MAX_TEXT_BYTES = 65535 };

static bool has(struct str s, char c)
{
    return s.n > 0 && memchr(s.p, c, s.n) != NULL;
}

/* Letters, digits, `_` and `-`, not beginning with a digit or `-`: what cannot be taken for anything else in a template. */
static bool is_name(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

        if (!is_letter && (i == 0 || !((c >= '0' && c <= '9') || c == '-')))
            return false;
    }
    return s.n > 0;
}

static bool is_segment(struct str level)
{
    return level.n >= 2 && level.p[0] == '{' && level.p[level.n - 1] == '}';
}

static err add_segment(struct rule_filter *f, struct rule_level *level, struct str name, struct errinfo *ei)
{
    if (!is_name(name))
        return errinfo_set(ei, E_INVAL, "a segment is {name} or {name#}: letters, digits, _ and -, not {%.*s}", STR_ARG(name));
    for (size_t i = 0; i < f->n_segments; i++)
        if (str_equal(f->segments[i], name))
            return errinfo_set(ei, E_INVAL, "the segment {%.*s} is there twice", STR_ARG(name));
    if (f->n_segments == RULE_FILTER_MAX_SEGMENTS)
        return errinfo_set(ei, E_LIMIT, "more than %d segments", RULE_FILTER_MAX_SEGMENTS);
    level->segment = (uint8_t)f->n_segments;
    f->segments[f->n_segments++] = name;
    return E_OK;
}

static err parse_level(struct rule_filter *f, struct str text, bool is_last, struct rule_level *level, struct errinfo *ei)
{
    *level = (struct rule_level){.kind = RULE_LEVEL_TEXT, .text = text, .segment = RULE_FILTER_NO_SEGMENT};
    if (str_equal(text, STR("+"))) {
        level->kind = RULE_LEVEL_ONE;
    } else if (str_equal(text, STR("#"))) {
        level->kind = RULE_LEVEL_REST;
    } else if (is_segment(text)) {
        struct str name = {text.p + 1, text.n - 2};

        level->kind = RULE_LEVEL_ONE;
        if (name.n > 0 && name.p[name.n - 1] == '#') {
            level->kind = RULE_LEVEL_REST;
            name.n--;
        }
        if (add_segment(f, level, name, ei) != E_OK)
            return E_INVAL;
    } else if (has(text, '{') || has(text, '}')) {
        return errinfo_set(ei, E_INVAL, "a segment fills its level: %.*s", STR_ARG(text));
    } else if (has(text, '+') || has(text, '#')) {
        return errinfo_set(ei, E_INVAL, "a wildcard fills its level: %.*s", STR_ARG(text));
    }
    if (level->kind == RULE_LEVEL_REST && !is_last)
        return errinfo_set(ei, E_INVAL, "%.*s must be the last level", STR_ARG(text));
    return E_OK;
}

err rule_filter_parse(struct arena *a, enum mem_sub sub, struct str text, struct rule_filter *out_filter, struct errinfo *ei)
{
    struct rule_filter f = {0};
    size_t n_levels = 1;
    bool found = true;

    if (text.n == 0)
        return errinfo_set(ei, E_INVAL, "the filter is empty");
    if (text.n > MAX_TEXT_BYTES || !utf8_is_plain(text))
        return errinfo_set(ei, E_INVAL, "the filter is no MQTT topic filter");
    if (str_starts_with(text, STR("$share/")))
        return errinfo_set(ei, E_INVAL, "a rule takes what is published: it has no shared subscription");
    for (size_t i = 0; i < text.n; i++)
        n_levels += text.p[i] == '/';
    if (n_levels > RULE_FILTER_MAX_LEVELS)
        return errinfo_set(ei, E_LIMIT, "more than %d levels", RULE_FILTER_MAX_LEVELS);
    f.text = arena_copy(a, sub, text);
    f.levels = arena_alloc(a, sub, n_levels * sizeof *f.levels);
    for (struct str rest = f.text; found;) {
        struct str level = str_take(&rest, '/', &found);
        err e = parse_level(&f, level, !found, &f.levels[f.n_levels++], ei);

        if (e != E_OK)
            return e;
    }
    *out_filter = f;
    return E_OK;
}

bool rule_filter_matches(const struct rule_filter *filter, struct str name, struct str *out_segments)
{
    struct str rest = name;
    bool more = true;

    if (filter->n_levels == 0 || (name.n > 0 && name.p[0] == '$' && filter->levels[0].kind != RULE_LEVEL_TEXT))
        return false; /* [MQTT-4.7.2-1] */
    for (size_t i = 0; i < filter->n_levels; i++) {
        const struct rule_level *level = &filter->levels[i];

        if (level->kind == RULE_LEVEL_REST) { /* also when nothing is left, section 4.7.1.2 */
            if (level->segment != RULE_FILTER_NO_SEGMENT)
                out_segments[level->segment] = rest;
            return true;
        }
        if (!more)
            return false;
        struct str text = str_take(&rest, '/', &more);
        if (level->kind == RULE_LEVEL_TEXT && !str_equal(level->text, text))
            return false;
        if (level->segment != RULE_FILTER_NO_SEGMENT)
            out_segments[level->segment] = text;
    }
    return !more;
}

static bool level_covers(const struct rule_level *a, const struct rule_level *b)
{
    if (b->kind == RULE_LEVEL_REST)
        return false;
    return a->kind == RULE_LEVEL_ONE || (b->kind == RULE_LEVEL_TEXT && str_equal(a->text, b->text));
}

bool rule_filter_covers(const struct rule_filter *a, const struct rule_filter *b)
{
    bool is_wild = a->n_levels > 0 && a->levels[0].kind != RULE_LEVEL_TEXT;

    if (is_wild && b->n_levels > 0 && b->levels[0].kind == RULE_LEVEL_TEXT && str_starts_with(b->levels[0].text, STR("$")))
        return false;
    for (size_t i = 0; i < a->n_levels; i++) {
        if (a->levels[i].kind == RULE_LEVEL_REST)
            return true;
        if (i == b->n_levels || !level_covers(&a->levels[i], &b->levels[i]))
            return false;
    }
    return a->n_levels == b->n_levels;
}
