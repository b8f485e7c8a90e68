#include "core/to_mqtt_template.h"

#include "base/check.h"
#include "base/utf8.h"

static const struct {
    struct str name;
    enum to_mqtt_variable variable;
} known[] = {
    {STR_INIT("topic"), TO_MQTT_VARIABLE_TOPIC},
    {STR_INIT("key"), TO_MQTT_VARIABLE_KEY},
    {STR_INIT("partition"), TO_MQTT_VARIABLE_PARTITION},
};

static const struct str header_prefix = STR_INIT("header.");

struct parser {
    struct arena *arena;
    const struct str *groups;
    size_t n_groups;
    struct to_mqtt_piece pieces[TO_MQTT_TEMPLATE_MAX_PIECES];
    size_t n_pieces;
    struct errinfo *ei;
};

static bool has_char(struct str s, char c)
{
    return s.n > 0 && memchr(s.p, c, s.n) != NULL;
}

static err find_variable(struct parser *p, struct str written, struct to_mqtt_piece *piece)
{
    struct str name = written;

    if (name.n > 0 && name.p[name.n - 1] == '#') {
        piece->takes_levels = true;
        name.n--;
    }
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (str_equal(name, known[i].name))
            piece->variable = (uint8_t)known[i].variable;
    if (str_starts_with(name, header_prefix) && name.n > header_prefix.n) {
        piece->variable = TO_MQTT_VARIABLE_HEADER;
        piece->name = arena_copy(p->arena, MEM_MESSAGE, str_from_offset(name, header_prefix.n));
    }
    for (size_t i = 0; i < p->n_groups; i++)
        if (str_equal(name, p->groups[i])) {
            piece->variable = TO_MQTT_VARIABLE_GROUP;
            piece->index = (uint8_t)i;
        }
    if (piece->variable == TO_MQTT_VARIABLE_NONE)
        return errinfo_set(p->ei, E_INVAL,
                           "{%.*s} is neither a named group of topic or key nor topic, key, partition or header.NAME",
                           STR_ARG(written));
    return E_OK;
}

/* Fixed text must be fit for a topic by itself. */
static err check_text(struct parser *p, struct str text)
{
    if (!utf8_is_plain(text))
        return errinfo_set(p->ei, E_INVAL, "must be UTF-8 without control characters");
    if (has_char(text, '+') || has_char(text, '#'))
        return errinfo_set(p->ei, E_INVAL, "is the name of a topic, where + and # cannot stand");
    return E_OK;
}

static err add_piece(struct parser *p, struct buf *literal, const struct to_mqtt_piece *variable)
{
    err e = check_text(p, buf_str(literal));

    if (e != E_OK)
        return e;
    if (p->n_pieces == TO_MQTT_TEMPLATE_MAX_PIECES)
        return errinfo_set(p->ei, E_LIMIT, "has more than %d parts", TO_MQTT_TEMPLATE_MAX_PIECES);
    p->pieces[p->n_pieces] = *variable;
    p->pieces[p->n_pieces++].text = arena_copy(p->arena, MEM_MESSAGE, buf_str(literal));
    buf_consume(literal, buf_size(literal));
    return E_OK;
}

/* At a brace; leaves `*at` behind what it stands for. */
static err take_brace(struct parser *p, struct str text, size_t *at, struct buf *literal)
{
    struct to_mqtt_piece piece = {0};
    char c = text.p[*at];
    const char *end;
    struct str name;
    err e;

    if (*at + 1 < text.n && text.p[*at + 1] == c) {
        *at += 2;
        return buf_append(literal, MEM_MESSAGE, (struct str){&c, 1});
    }
    end = c == '{' ? memchr(text.p + *at, '}', text.n - *at) : NULL;
    if (!end)
        return errinfo_set(p->ei, E_INVAL, "has a %c without its counterpart; write it twice for the character itself", c);
    name = (struct str){text.p + *at + 1, (size_t)(end - text.p) - *at - 1};
    e = find_variable(p, name, &piece);
    *at = (size_t)(end - text.p) + 1;
    return e == E_OK ? add_piece(p, literal, &piece) : e;
}

static err parse_pieces(struct parser *p, struct str text, struct buf *literal)
{
    static const struct to_mqtt_piece no_variable;
    size_t at = 0;
    err e = E_OK;

    while (e == E_OK && at < text.n) {
        if (text.p[at] == '{' || text.p[at] == '}')
            e = take_brace(p, text, &at, literal);
        else
            e = buf_append(literal, MEM_MESSAGE, (struct str){text.p + at++, 1});
    }
    if (e == E_OK && buf_size(literal) > 0)
        e = add_piece(p, literal, &no_variable);
    return e;
}

err to_mqtt_template_parse(struct arena *a, struct str text, const struct str *groups, size_t n_groups,
                           struct to_mqtt_template *out_template, struct errinfo *ei)
{
    struct parser p = {.arena = a, .groups = groups, .n_groups = n_groups, .ei = ei};
    struct buf literal = {0};
    err e;

    if (text.n > TO_MQTT_TEMPLATE_MAX_BYTES)
        return errinfo_set(ei, E_LIMIT, "has more than %d bytes", TO_MQTT_TEMPLATE_MAX_BYTES);
    e = parse_pieces(&p, text, &literal);
    buf_free(&literal, MEM_MESSAGE);
    if (e != E_OK)
        return e;
    out_template->pieces = arena_alloc(a, MEM_MESSAGE, p.n_pieces * sizeof *p.pieces);
    out_template->n_pieces = p.n_pieces;
    memcpy(out_template->pieces, p.pieces, p.n_pieces * sizeof *p.pieces);
    return E_OK;
}

static bool may_stand(const struct to_mqtt_piece *piece, struct str value)
{
    return value.n > 0 && !has_char(value, '+') && !has_char(value, '#') && (piece->takes_levels || !has_char(value, '/')) &&
           utf8_is_plain(value);
}

err to_mqtt_template_write(const struct to_mqtt_template *t, const struct to_mqtt_values *values, struct buf *out)
{
    size_t before = buf_size(out);
    err e = E_OK;

    for (size_t i = 0; i < t->n_pieces && e == E_OK; i++) {
        const struct to_mqtt_piece *piece = &t->pieces[i];
        struct str value;

        e = buf_append(out, MEM_MESSAGE, piece->text);
        if (e != E_OK || piece->variable == TO_MQTT_VARIABLE_NONE)
            continue;
        value = values->value(values->context, piece);
        if (!may_stand(piece, value))
            return E_INVAL;
        /* What begins with `$` is the server's own unless the rule itself says so (section 4.7.2 of MQTT 5.0). */
        if (buf_size(out) == before && value.p[0] == '$')
            return E_INVAL;
        if (buf_size(out) - before + value.n > TO_MQTT_TOPIC_MAX_BYTES)
            return E_LIMIT;
        e = buf_append(out, MEM_MESSAGE, value);
    }
    if (e == E_OK && buf_size(out) - before > TO_MQTT_TOPIC_MAX_BYTES)
        e = E_LIMIT;
    return e;
}

/* --- meeting a filter --- */

/* One level of a template: as far as it is fixed, and whether it goes on by variables, even over several levels. */
struct level {
    struct str fixed; /* meaningful when neither of the others is set */
    bool has_variable;
    bool takes_levels;
};

/* Takes the level at (`*piece`, `*at`) and steps behind its slash; false at the end of the template. */
static bool next_level(const struct to_mqtt_template *t, size_t *piece, size_t *at, struct level *out)
{
    *out = (struct level){0};
    if (*piece >= t->n_pieces)
        return false;
    for (; *piece < t->n_pieces; (*piece)++, *at = 0) {
        struct str text = str_from_offset(t->pieces[*piece].text, *at);
        bool has_slash;
        struct str head = str_take(&text, '/', &has_slash);

        if (head.n)
            out->fixed = head;
        if (has_slash) {
            *at += head.n + 1;
            return true;
        }
        if (t->pieces[*piece].variable != TO_MQTT_VARIABLE_NONE)
            out->has_variable = true;
        out->takes_levels = out->takes_levels || t->pieces[*piece].takes_levels;
    }
    return true;
}

static bool is_rest(struct str level)
{
    return level.n > 0 && (str_equal(level, STR("#")) || (level.p[0] == '{' && level.n > 2 && level.p[level.n - 2] == '#'));
}

static bool is_one(struct str level)
{
    return str_equal(level, STR("+")) || (level.n > 0 && level.p[0] == '{');
}

bool to_mqtt_template_can_meet(const struct to_mqtt_template *t, struct str filter)
{
    size_t piece = 0, at = 0;
    bool more = true;

    while (more) {
        struct str wanted = str_take(&filter, '/', &more);
        struct level level;

        if (is_rest(wanted))
            return true;
        if (!next_level(t, &piece, &at, &level))
            return false;
        if (level.takes_levels)
            return true;
        if (!is_one(wanted) && !level.has_variable && !str_equal(level.fixed, wanted))
            return false;
    }
    return piece >= t->n_pieces;
}
