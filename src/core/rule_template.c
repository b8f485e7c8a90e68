#include "core/rule_template.h"

#include <assert.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/utf8.h"
#include "core/payload_field.h"

enum { MAX_TEXT_BYTES = 4096 };

/* Variables by name. Those that end with a dot are followed by a name of the user's. */
static const struct {
    struct str name;
    enum rule_variable_kind kind;
    bool is_prefix;
    bool is_for_events;
    bool can_be_empty;
} known[] = {
    {STR_INIT("client_id"), RULE_VARIABLE_CLIENT_ID, false, true, false},
    {STR_INIT("user"), RULE_VARIABLE_USER, false, true, true},
    {STR_INIT("tenant"), RULE_VARIABLE_TENANT, false, true, false},
    {STR_INIT("device_id"), RULE_VARIABLE_DEVICE_ID, false, true, true},
    {STR_INIT("topic"), RULE_VARIABLE_TOPIC, false, false, false},
    {STR_INIT("qos"), RULE_VARIABLE_QOS, false, false, false},
    {STR_INIT("user_property."), RULE_VARIABLE_USER_PROPERTY, true, false, true},
    {STR_INIT("payload."), RULE_VARIABLE_PAYLOAD, true, true, true},
};
static_assert(ARRAY_LEN(known) == RULE_VARIABLE_KINDS - 1, "every kind but segments has a name");

/* --- compiling --- */

struct parser {
    struct arena *arena;
    enum mem_sub sub;
    const struct rule_scope *scope;
    struct rule_variables *variables;
    struct rule_template_error *error;
    struct rule_piece pieces[RULE_TEMPLATE_MAX_PIECES];
    size_t n_pieces;
};

#define FAIL(p, code, ...) errinfo_set(&(p)->error->ei, code, __VA_ARGS__)

static bool find_segment(const struct parser *p, struct str name, struct rule_variable *out)
{
    for (size_t i = 0; p->scope->filter && i < p->scope->filter->n_segments; i++) {
        if (!str_equal(p->scope->filter->segments[i], name))
            continue;
        *out = (struct rule_variable){RULE_VARIABLE_SEGMENT, (uint8_t)i, name};
        return true;
    }
    return false;
}

static err check_argument(struct parser *p, const struct rule_variable *v)
{
    if (v->kind == RULE_VARIABLE_USER_PROPERTY && v->name.n == 0)
        return FAIL(p, E_INVAL, "{user_property.NAME} needs the name of a user property");
    if (v->kind == RULE_VARIABLE_PAYLOAD && (v->name.n == 0 || !payload_field_is_pointer(v->name)))
        return FAIL(p, E_INVAL, "{payload.%.*s} needs a JSON pointer, as in {payload./sensor/id}", STR_ARG(v->name));
    return E_OK;
}

static err find_variable(struct parser *p, struct str name, struct rule_variable *out)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (known[i].is_prefix ? !str_starts_with(name, known[i].name) : !str_equal(name, known[i].name))
            continue;
        *out = (struct rule_variable){.kind = known[i].kind, .name = name};
        if (!p->scope->filter && !known[i].is_for_events)
            return FAIL(p, E_INVAL, "{%.*s} has no meaning for an event", STR_ARG(name));
        if (known[i].is_prefix)
            out->name = (struct str){name.p + known[i].name.n, name.n - known[i].name.n};
        return check_argument(p, out);
    }
    if (find_segment(p, name, out))
        return E_OK;
    p->error->unknown = name;
    return FAIL(p, E_INVAL, "{%.*s} is no variable", STR_ARG(name));
}

static bool is_same_variable(const struct rule_variable *a, const struct rule_variable *b)
{
    return a->kind == b->kind && str_equal(a->name, b->name);
}

/* The number of a variable, new or known to the rule. */
static err number_of(struct parser *p, struct str name, uint8_t *out_number)
{
    struct rule_variables *all = p->variables;
    struct rule_variable v = {0};
    size_t i = 0;
    err e = find_variable(p, name, &v);

    if (e != E_OK)
        return e;
    while (i < all->n && !is_same_variable(&all->items[i], &v))
        i++;
    if (i == RULE_TEMPLATE_MAX_VARIABLES)
        return FAIL(p, E_LIMIT, "a rule has at most %d different variables", RULE_TEMPLATE_MAX_VARIABLES);
    if (i == all->n) {
        v.name = arena_copy(p->arena, p->sub, v.name);
        all->items[all->n++] = v;
    }
    *out_number = (uint8_t)i;
    return E_OK;
}

static err add_piece(struct parser *p, struct str text, uint8_t variable)
{
    if (p->n_pieces == RULE_TEMPLATE_MAX_PIECES)
        return FAIL(p, E_LIMIT, "more than %d parts", RULE_TEMPLATE_MAX_PIECES);
    p->pieces[p->n_pieces++] = (struct rule_piece){.text = text, .variable = variable};
    return E_OK;
}

/* A value that another value follows ends at the first character of the text between them. */
static void set_stops(struct rule_template *t)
{
    size_t last = 0;

    for (size_t i = 0; i < t->n_pieces; i++)
        if (t->pieces[i].variable != RULE_TEMPLATE_NO_VARIABLE)
            last = i;
    for (size_t i = 0; i < last; i++)
        t->pieces[i].stop = t->pieces[i + 1].text.n ? t->pieces[i + 1].text.p[0] : 0;
}

/* At a brace; leaves `*at` behind what it stands for. `literal` collects fixed text. */
static err take_brace(struct parser *p, struct str text, size_t *at, struct buf *literal)
{
    char c = text.p[*at];
    const char *end;
    uint8_t number = 0;
    err e;

    if (*at + 1 < text.n && text.p[*at + 1] == c) {
        *at += 2;
        return buf_append(literal, p->sub, (struct str){&c, 1});
    }
    if (c == '}')
        return FAIL(p, E_INVAL, "a } without its {; write }} for the character itself");
    end = memchr(text.p + *at, '}', text.n - *at);
    if (!end)
        return FAIL(p, E_INVAL, "a { without its }; write {{ for the character itself");
    struct str name = {text.p + *at + 1, (size_t)(end - text.p) - *at - 1};
    e = number_of(p, name, &number);
    if (e != E_OK)
        return e;
    *at = (size_t)(end - text.p) + 1;
    e = add_piece(p, arena_copy(p->arena, p->sub, buf_str(literal)), number);
    buf_consume(literal, buf_size(literal));
    return e;
}

static err parse_pieces(struct parser *p, struct str text, struct buf *literal)
{
    size_t at = 0;
    err e = E_OK;

    while (e == E_OK && at < text.n) {
        char c = text.p[at];

        if (c == '{' || c == '}') {
            e = take_brace(p, text, &at, literal);
        } else {
            e = buf_append(literal, p->sub, (struct str){&c, 1});
            at++;
        }
    }
    if (e == E_OK && buf_size(literal) > 0)
        e = add_piece(p, arena_copy(p->arena, p->sub, buf_str(literal)), RULE_TEMPLATE_NO_VARIABLE);
    return e;
}

err rule_template_parse(struct arena *a, enum mem_sub sub, struct str text, const struct rule_scope *scope,
                        struct rule_variables *variables, struct rule_template *out_template,
                        struct rule_template_error *out_error)
{
    struct parser p = {.arena = a, .sub = sub, .scope = scope, .variables = variables, .error = out_error};
    struct rule_template t = {.text = arena_copy(a, sub, text)};
    struct buf literal = {0};
    err e = E_OK;

    *out_error = (struct rule_template_error){0};
    if (text.n > MAX_TEXT_BYTES || !utf8_is_valid(text))
        return FAIL(&p, E_INVAL, "must be valid UTF-8 of at most %d bytes", MAX_TEXT_BYTES);
    e = parse_pieces(&p, text, &literal);
    buf_free(&literal, sub);
    if (e != E_OK)
        return e;
    t.pieces = arena_alloc(a, sub, p.n_pieces * sizeof *t.pieces);
    t.n_pieces = p.n_pieces;
    memcpy(t.pieces, p.pieces, p.n_pieces * sizeof *t.pieces);
    set_stops(&t);
    *out_template = t;
    return E_OK;
}

/* --- checking --- */

static bool can_be_empty(const struct rule_variable *v)
{
    if (v->kind == RULE_VARIABLE_SEGMENT)
        return true; /* `a//b` has an empty level */
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (known[i].kind == v->kind)
            return known[i].can_be_empty;
    return true;
}

err rule_template_check_topic(const struct rule_template *t, const struct rule_variables *variables, size_t prefix_bytes,
                              struct errinfo *ei)
{
    bool has_more = false; /* than dots, whatever the values are */
    size_t n = 0, n_variables = 0;

    for (size_t i = 0; i < t->n_pieces; i++) {
        const struct rule_piece *piece = &t->pieces[i];

        if (!rule_name_is_legal(piece->text))
            return errinfo_set(ei, E_INVAL, "a topic's name has only letters, digits, '.', '_' and '-', not '%.*s'",
                               STR_ARG(piece->text));
        n += piece->text.n;
        for (size_t k = 0; k < piece->text.n; k++)
            has_more = has_more || piece->text.p[k] != '.';
        if (piece->variable == RULE_TEMPLATE_NO_VARIABLE)
            continue;
        if (n_variables++ > 0 && (piece->text.n == 0 || piece->text.p[0] == '_'))
            return errinfo_set(ei, E_INVAL,
                               "two variables need a text between them that does not begin with '_', "
                               "else different values could name the same topic");
        has_more = has_more || !can_be_empty(&variables->items[piece->variable]);
    }
    if (n + prefix_bytes > RULE_NAME_MAX_BYTES)
        return errinfo_set(ei, E_INVAL, "a topic's name has at most %d bytes", RULE_NAME_MAX_BYTES);
    if (n == 0 && !has_more)
        return errinfo_set(ei, E_INVAL,
                           n_variables ? "can be empty: a level, a property or a field may be; put a text beside it"
                                       : "a topic is missing");
    if (!has_more && n <= 2)
        return errinfo_set(ei, E_INVAL, "can become '.' or '..', which are no names of topics");
    return E_OK;
}

/* Two texts with wildcards, each variable standing for any text: whether they have a text in common. Walks the grid of
 * positions; texts are short. */
struct wild {
    char c[512];
    bool is_any[512];
    size_t n;
};

static void add_wild(struct wild *w, char c, bool is_any)
{
    if (w->n == ARRAY_LEN(w->c))
        return; /* cannot be: 249 bytes and 64 variables at most */
    w->c[w->n] = c;
    w->is_any[w->n++] = is_any;
}

static void to_wild(const struct rule_template *t, struct wild *out)
{
    out->n = 0;
    for (size_t i = 0; i < t->n_pieces; i++) {
        for (size_t k = 0; k < t->pieces[i].text.n; k++)
            add_wild(out, t->pieces[i].text.p[k], false);
        if (t->pieces[i].variable != RULE_TEMPLATE_NO_VARIABLE)
            add_wild(out, 0, true);
    }
}

/* reach[k]: the part of `a` walked so far and the first k of `b` can be the same text. */
static bool can_meet(const struct wild *a, const struct wild *b)
{
    bool reach[ARRAY_LEN(((struct wild *)0)->c) + 1] = {true};

    for (size_t k = 0; k < b->n && b->is_any[k]; k++)
        reach[k + 1] = true;
    for (size_t i = 0; i < a->n; i++) {
        bool diagonal = reach[0];

        reach[0] = reach[0] && a->is_any[i];
        for (size_t k = 0; k < b->n; k++) {
            bool up = reach[k + 1], left = reach[k];
            bool is_same = !a->is_any[i] && !b->is_any[k] && a->c[i] == b->c[k];

            /* A wildcard may take what stands opposite, or nothing. */
            reach[k + 1] = (a->is_any[i] && (up || left)) || (b->is_any[k] && (up || left)) || (is_same && diagonal);
            diagonal = up;
        }
    }
    return reach[b->n];
}

bool rule_template_can_meet(const struct rule_template *a, const struct rule_template *b)
{
    struct wild x, y;

    to_wild(a, &x);
    to_wild(b, &y);
    return can_meet(&x, &y);
}

bool rule_template_can_become(const struct rule_template *t, struct str text)
{
    struct rule_piece piece = {.text = text, .variable = RULE_TEMPLATE_NO_VARIABLE};
    struct rule_template fixed = {.text = text, .pieces = &piece, .n_pieces = 1};

    return rule_template_can_meet(t, &fixed);
}

/* --- rendering --- */

size_t rule_template_size(const struct rule_template *t, const struct str *values)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n_pieces; i++) {
        n += t->pieces[i].text.n;
        if (t->pieces[i].variable != RULE_TEMPLATE_NO_VARIABLE)
            n += values[t->pieces[i].variable].n;
    }
    return n;
}

static char *put(char *out, struct str s)
{
    if (s.n)
        memcpy(out, s.p, s.n);
    return out + s.n;
}

void rule_template_write(const struct rule_template *t, const struct str *values, char *out)
{
    for (size_t i = 0; i < t->n_pieces; i++) {
        out = put(out, t->pieces[i].text);
        if (t->pieces[i].variable != RULE_TEMPLATE_NO_VARIABLE)
            out = put(out, values[t->pieces[i].variable]);
    }
}

void rule_template_write_name(const struct rule_template *t, const struct str *values, struct rule_name *name)
{
    for (size_t i = 0; i < t->n_pieces; i++) {
        rule_name_add_text(name, t->pieces[i].text);
        if (t->pieces[i].variable != RULE_TEMPLATE_NO_VARIABLE)
            rule_name_add_value(name, values[t->pieces[i].variable], t->pieces[i].stop);
    }
}

struct str rule_template_variable_name(size_t i)
{
    return i < ARRAY_LEN(known) ? known[i].name : (struct str){0};
}

bool rule_template_is_variable(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (str_equal(known[i].name, name))
            return true;
    return false;
}
