#include "registry/schema.h"

#include <string.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/moment.h"
#include "registry/dn.h"

enum { MAX_TEXT_BYTES = 1024, MAX_LIST = 100, MAX_NAME_BYTES = 256 };

static bool has_only(struct str text, const char *others, bool has_capitals)
{
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];

        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (has_capitals && c >= 'A' && c <= 'Z') ||
            (c && strchr(others, c)))
            continue;
        return false;
    }
    return true;
}

static bool is_any(struct str text)
{
    (void)text; /* jansson has seen to UTF-8 */
    return true;
}

/* `.` and `..` would not survive in the path of a URL. */
static bool is_tenant_id(struct str text)
{
    return has_only(text, "-_.", true) && !str_equal(text, STR(".")) && !str_equal(text, STR(".."));
}

static bool is_device_id(struct str text)
{
    return has_only(text, "-_.:=", true) && !str_equal(text, STR(".")) && !str_equal(text, STR(".."));
}

static bool is_alias(struct str text)
{
    return has_only(text, "-", false) && text.n && text.p[0] != '-' && text.p[text.n - 1] != '-';
}

static bool is_time(struct str text)
{
    int64_t ms;

    return moment_parse(text, &ms) == E_OK;
}

static bool is_base64(struct str text)
{
    char decoded[BASE64_DECODED_BYTES(SCHEMA_MAX_TEXT_BYTES)];
    size_t n;
    bool is_good = text.n <= SCHEMA_MAX_TEXT_BYTES && base64_decode(text, decoded, &n);

    explicit_bzero(decoded, sizeof decoded); /* it may be a key */
    return is_good;
}

static bool is_dn(struct str text)
{
    char canonical[DN_BYTES];
    size_t n;

    return dn_canonical(text, canonical, &n) == E_OK;
}

static bool is_uri(struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] <= ' ' || text.p[i] == 0x7f)
            return false;
    return str_starts_with(text, STR("http://")) || str_starts_with(text, STR("https://"));
}

static const struct {
    const char *words, *pattern, *format;
    bool (*fits)(struct str text);
} forms[SCHEMA_FORMS] = {
    [SCHEMA_ANY] = {"text", NULL, NULL, is_any},
    [SCHEMA_TENANT_ID] = {"letters, digits, '-', '_' and '.'", "^(?!\\.{1,2}$)[a-zA-Z0-9_.-]+$", NULL, is_tenant_id},
    [SCHEMA_DEVICE_ID] = {"letters, digits, '-', '_', '.', ':' and '='", "^(?!\\.{1,2}$)[a-zA-Z0-9_.:=-]+$", NULL,
                          is_device_id},
    [SCHEMA_ALIAS] = {"small letters, digits and '-' inside", "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", NULL, is_alias},
    [SCHEMA_TIME] = {"a date and time, as in 2026-01-01T00:00:00Z", NULL, "date-time", is_time},
    [SCHEMA_BASE64] = {"base64", "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$", "byte", is_base64},
    [SCHEMA_DN] = {"a distinguished name (RFC 2253), as in CN=ca,O=acme", NULL, NULL, is_dn},
    [SCHEMA_URI] = {"an http or https URI", "^https?://[!-~]+$", NULL, is_uri},
};

const char *schema_form_words(enum schema_form form)
{
    return forms[form].words;
}

const char *schema_form_pattern(enum schema_form form)
{
    return forms[form].pattern;
}

const char *schema_form_format(enum schema_form form)
{
    return forms[form].format;
}

bool schema_fits(enum schema_form form, struct str text, size_t max)
{
    return text.n <= max && forms[form].fits(text);
}

int64_t schema_max(const struct schema_member *member)
{
    static const int64_t otherwise[SCHEMA_TYPES] = {
        [SCHEMA_INTEGER] = INT64_MAX, [SCHEMA_TEXT] = MAX_TEXT_BYTES, [SCHEMA_TEXTS] = MAX_TEXT_BYTES,
        [SCHEMA_LIST] = MAX_LIST,     [SCHEMA_MAP] = MAX_LIST,        [SCHEMA_SCALARS] = MAX_LIST,
    };

    return member->max ? member->max : otherwise[member->type];
}

/* --- one check for each type --- */

typedef err (*checker)(const struct schema_member *member, json_t *value, const struct document_place *place,
                       struct document_fault *fault);

static err check_bool(const struct schema_member *member, json_t *value, const struct document_place *place,
                      struct document_fault *fault)
{
    (void)member;
    return json_is_boolean(value) ? E_OK : document_refuse(fault, 400, place, "must be true or false");
}

static err check_integer(const struct schema_member *member, json_t *value, const struct document_place *place,
                         struct document_fault *fault)
{
    int64_t most = schema_max(member);

    if (!json_is_integer(value))
        return document_refuse(fault, 400, place, "must be a whole number");
    if (json_integer_value(value) < member->min || json_integer_value(value) > most)
        return document_refuse(fault, 400, place, "must be %lld to %lld", (long long)member->min, (long long)most);
    return E_OK;
}

static err check_choice(const struct schema_member *member, struct str text, const struct document_place *place,
                        struct document_fault *fault)
{
    char list[120] = "";
    size_t n = 0;

    for (size_t i = 0; member->choices[i]; i++) {
        if (str_equal(text, str_from(member->choices[i])))
            return E_OK;
        if (n + strlen(member->choices[i]) + 3 < sizeof list) {
            memcpy(list + n, i ? ", " : "", i ? 3 : 1);
            n += i ? 2 : 0;
            memcpy(list + n, member->choices[i], strlen(member->choices[i]) + 1);
            n += strlen(member->choices[i]);
        }
    }
    return document_refuse(fault, 400, place, "must be one of %s", list);
}

static err check_text(const struct schema_member *member, json_t *value, const struct document_place *place,
                      struct document_fault *fault)
{
    struct str text = document_text(value);
    int64_t most = schema_max(member);

    if (!text.p)
        return document_refuse(fault, 400, place, "must be a text");
    if (member->choices)
        return check_choice(member, text, place, fault);
    if ((int64_t)text.n < member->min)
        return document_refuse(fault, 400, place, "must not be empty");
    if ((int64_t)text.n > most)
        return document_refuse(fault, 400, place, "has %zu bytes, at most %lld", text.n, (long long)most);
    if (text.n && !forms[member->form].fits(text))
        return document_refuse(fault, 400, place, "must be %s", forms[member->form].words);
    return E_OK;
}

static bool is_in(const json_t *list, size_t n, struct str text)
{
    for (size_t i = 0; i < n; i++)
        if (str_equal(document_text(json_array_get(list, i)), text))
            return true;
    return false;
}

static err check_texts(const struct schema_member *member, json_t *value, const struct document_place *place,
                       struct document_fault *fault)
{
    if (!json_is_array(value))
        return json_is_string(value) ? check_text(member, value, place, fault)
                                     : document_refuse(fault, 400, place, "must be a text or a list of texts");
    if (json_array_size(value) > SCHEMA_MAX_TEXTS)
        return document_refuse(fault, 400, place, "has %zu elements, at most %d", json_array_size(value), SCHEMA_MAX_TEXTS);
    for (size_t i = 0; i < json_array_size(value); i++) {
        struct document_place here = document_element(place, i);
        json_t *element = json_array_get(value, i);

        if (check_text(member, element, &here, fault) != E_OK)
            return E_INVAL;
        if (is_in(value, i, document_text(element)))
            return document_refuse(fault, 400, &here, "is there twice");
    }
    return E_OK;
}

static err check_object(const struct schema_member *member, json_t *value, const struct document_place *place,
                        struct document_fault *fault)
{
    return schema_check(member->of, value, place, fault);
}

static err check_list(const struct schema_member *member, json_t *value, const struct document_place *place,
                      struct document_fault *fault)
{
    if (!json_is_array(value))
        return document_refuse(fault, 400, place, "must be a list");
    if ((int64_t)json_array_size(value) < member->min)
        return document_refuse(fault, 400, place, "must have at least %lld element", (long long)member->min);
    if ((int64_t)json_array_size(value) > schema_max(member))
        return document_refuse(fault, 400, place, "has %zu elements, at most %lld", json_array_size(value),
                               (long long)schema_max(member));
    for (size_t i = 0; i < json_array_size(value); i++) {
        struct document_place here = document_element(place, i);

        if (schema_check(member->of, json_array_get(value, i), &here, fault) != E_OK)
            return E_INVAL;
    }
    return E_OK;
}

static err check_names(const struct schema_member *member, const json_t *value, const struct document_place *place,
                       struct document_fault *fault)
{
    if (!json_is_object(value))
        return document_refuse(fault, 400, place, "must be an object");
    if ((int64_t)json_object_size(value) > schema_max(member))
        return document_refuse(fault, 400, place, "has %zu members, at most %lld", json_object_size(value),
                               (long long)schema_max(member));
    return E_OK;
}

/* The name of a free member: not empty, bounded. */
static err check_name(struct str name, const struct document_place *place, struct document_fault *fault)
{
    if (name.n == 0 || name.n > MAX_NAME_BYTES)
        return document_refuse(fault, 400, place, "a name must have 1 to %d bytes", MAX_NAME_BYTES);
    return E_OK;
}

static err check_map(const struct schema_member *member, json_t *value, const struct document_place *place,
                     struct document_fault *fault)
{
    struct schema_member text = {.type = SCHEMA_TEXT, .form = member->form, .choices = member->choices};
    const char *name;
    json_t *element;

    if (check_names(member, value, place, fault) != E_OK)
        return E_INVAL;
    json_object_foreach(value, name, element)
    {
        struct document_place here = document_member(place, name);

        if (check_name(str_from(name), &here, fault) != E_OK || check_text(&text, element, &here, fault) != E_OK)
            return E_INVAL;
    }
    return E_OK;
}

static err check_scalars(const struct schema_member *member, json_t *value, const struct document_place *place,
                         struct document_fault *fault)
{
    const char *name;
    json_t *element;

    if (check_names(member, value, place, fault) != E_OK)
        return E_INVAL;
    json_object_foreach(value, name, element)
    {
        struct document_place here = document_member(place, name);

        if (check_name(str_from(name), &here, fault) != E_OK)
            return E_INVAL;
        if (!json_is_string(element) && !json_is_number(element) && !json_is_boolean(element))
            return document_refuse(fault, 400, &here, "must be a text, a number, true or false");
        if (json_string_length(element) > MAX_TEXT_BYTES)
            return document_refuse(fault, 400, &here, "has %zu bytes, at most %d", json_string_length(element), MAX_TEXT_BYTES);
    }
    return E_OK;
}

static err check_free(const struct schema_member *member, json_t *value, const struct document_place *place,
                      struct document_fault *fault)
{
    (void)member;
    return json_is_object(value) ? E_OK : document_refuse(fault, 400, place, "must be an object");
}

static const checker checkers[SCHEMA_TYPES] = {
    [SCHEMA_BOOL] = check_bool,   [SCHEMA_INTEGER] = check_integer, [SCHEMA_TEXT] = check_text,
    [SCHEMA_TEXTS] = check_texts, [SCHEMA_OBJECT] = check_object,   [SCHEMA_LIST] = check_list,
    [SCHEMA_MAP] = check_map,     [SCHEMA_SCALARS] = check_scalars, [SCHEMA_FREE] = check_free,
};

static const struct schema_member *find_member(const struct schema *schema, const char *name)
{
    for (size_t i = 0; i < schema->count; i++)
        if (strcmp(schema->members[i].name, name) == 0)
            return &schema->members[i];
    return NULL;
}

err schema_check(const struct schema *schema, json_t *object, const struct document_place *place, struct document_fault *fault)
{
    const char *name;
    json_t *value;
    void *next;

    if (!json_is_object(object))
        return document_refuse(fault, 400, place, "must be an object");
    json_object_foreach_safe(object, next, name, value)
    {
        const struct schema_member *member = find_member(schema, name);
        struct document_place here = document_member(place, name);

        if (!member)
            return document_refuse(fault, 400, &here, "there is no such member");
        if (member->flags & SCHEMA_READ_ONLY)
            (void)json_object_del(object, name); /* it is there */
        else if (checkers[member->type](member, value, &here, fault) != E_OK)
            return E_INVAL;
    }
    for (size_t i = 0; i < schema->count; i++) {
        const struct schema_member *member = &schema->members[i];
        struct document_place here = document_member(place, member->name);

        if (member->flags & SCHEMA_REQUIRED && !json_object_get(object, member->name))
            return document_refuse(fault, 400, &here, "is missing");
    }
    return E_OK;
}

static err check_id(enum schema_form form, struct str id, const char *what, struct document_fault *fault)
{
    if (id.n == 0 || !schema_fits(form, id, SCHEMA_MAX_ID_BYTES))
        return document_refuse(fault, 400, NULL, "the id of a %s must be 1 to %d %s", what, SCHEMA_MAX_ID_BYTES,
                               forms[form].words);
    return E_OK;
}

err schema_check_tenant_id(struct str id, struct document_fault *fault)
{
    return check_id(SCHEMA_TENANT_ID, id, "tenant", fault);
}

err schema_check_device_id(struct str id, struct document_fault *fault)
{
    return check_id(SCHEMA_DEVICE_ID, id, "device", fault);
}
