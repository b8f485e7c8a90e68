#include "proto/cloudevents/cloudevent.h"

#include "base/check.h"
#include "base/utf8.h"
#include "proto/cloudevents/cloudevent_build.h"

/* Names of the specification and its extensions that most events have. */
static const struct str usual_names[] = {
    STR_INIT("id"),         STR_INIT("source"),       STR_INIT("type"),       STR_INIT("specversion"),
    STR_INIT("time"),       STR_INIT("subject"),      STR_INIT("dataschema"), STR_INIT("traceparent"),
    STR_INIT("tracestate"), STR_INIT("partitionkey"), STR_INIT("sequence"),   STR_INIT("datacontenttype"),
};

static const struct view {
    struct str name;
    size_t at;
    bool is_required;
} views[] = {
    {STR_INIT("specversion"), offsetof(struct cloudevent, specversion), true},
    {STR_INIT("id"), offsetof(struct cloudevent, id), true},
    {STR_INIT("source"), offsetof(struct cloudevent, source), true},
    {STR_INIT("type"), offsetof(struct cloudevent, type), true},
    {STR_INIT("datacontenttype"), offsetof(struct cloudevent, datacontenttype), false},
};

bool cloudevent_find(const struct cloudevent *event, struct str name, struct str *out_value)
{
    for (size_t i = 0; i < event->n_attributes; i++)
        if (str_equal(event->attributes[i].name, name)) {
            *out_value = event->attributes[i].value;
            return true;
        }
    return false;
}

static bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool cloudevent_is_name(struct str name)
{
    for (size_t i = 0; i < name.n; i++)
        if (!is_name_character(name.p[i]))
            return false;
    return name.n > 0 && name.n <= CLOUDEVENT_NAME_MAX && !str_equal(name, STR("data"));
}

static bool ends_with_nocase(struct str s, struct str end)
{
    return s.n >= end.n && str_equal_nocase(str_from_offset(s, s.n - end.n), end);
}

bool cloudevent_is_json(struct str datacontenttype)
{
    bool has_parameters;
    struct str media_type = str_take(&datacontenttype, ';', &has_parameters);

    while (media_type.n && (media_type.p[media_type.n - 1] == ' ' || media_type.p[media_type.n - 1] == '\t'))
        media_type.n--;
    return ends_with_nocase(media_type, STR("/json")) || ends_with_nocase(media_type, STR("+json"));
}

struct str cloudevent_content_type(const struct cloudevent *event)
{
    if (!event->datacontenttype.n && event->data_kind == CLOUDEVENT_JSON)
        return STR("application/json");
    return event->datacontenttype;
}

/* --- for readers --- */

err cloudevent_build_name(struct arena *a, enum mem_sub sub, struct str name, struct str *out_name, struct errinfo *ei)
{
    char *lower;

    for (size_t i = 0; i < ARRAY_LEN(usual_names); i++)
        if (str_equal_nocase(name, usual_names[i])) {
            *out_name = usual_names[i];
            return E_OK;
        }
    if (name.n > CLOUDEVENT_NAME_MAX)
        return errinfo_set(ei, E_INVAL, "an attribute's name is longer than %d characters: %.*s...", CLOUDEVENT_NAME_MAX,
                           CLOUDEVENT_SHOWN(name));
    if (cloudevent_is_name(name)) {
        *out_name = name;
        return E_OK;
    }
    lower = arena_alloc(a, sub, name.n + 1);
    for (size_t i = 0; i < name.n; i++)
        lower[i] = (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] | 0x20 : name.p[i]);
    *out_name = (struct str){lower, name.n};
    if (!cloudevent_is_name(*out_name))
        return errinfo_set(ei, E_INVAL, "\"%.*s\" cannot be the name of an attribute: a-z and 0-9 can, but not \"data\"",
                           CLOUDEVENT_SHOWN(name));
    return E_OK;
}

static struct str *view_of(struct cloudevent *event, const struct view *view)
{
    return (struct str *)(void *)((char *)event + view->at);
}

void cloudevent_add(struct cloudevent *event, const struct cloudevent_attribute *attribute)
{
    event->attributes[event->n_attributes++] = *attribute;
    for (size_t i = 0; i < ARRAY_LEN(views); i++)
        if (str_equal(attribute->name, views[i].name))
            *view_of(event, &views[i]) = attribute->value;
}

err cloudevent_build_check_value(struct str name, struct str value, struct errinfo *ei)
{
    if (utf8_is_plain(value))
        return E_OK;
    return errinfo_set(ei, E_INVAL, "attribute \"%.*s\" %s", CLOUDEVENT_SHOWN(name),
                       utf8_is_valid(value) ? "has a control character" : "is not UTF-8");
}

err cloudevent_build_check(const struct cloudevent *event, struct errinfo *ei)
{
    struct str ignored;

    for (size_t i = 0; i < ARRAY_LEN(views); i++) {
        const struct str *value = (const struct str *)(const void *)((const char *)event + views[i].at);

        if (views[i].is_required && !value->n)
            return errinfo_set(ei, E_INVAL, "attribute \"%s\" is %s", views[i].name.p,
                               cloudevent_find(event, views[i].name, &ignored) ? "empty" : "missing");
    }
    if (!str_equal(event->specversion, STR("1.0")) && !str_equal(event->specversion, STR("0.3")))
        return errinfo_set(ei, E_INVAL, "specversion \"%.*s\" is not supported: 1.0 and 0.3 are",
                           CLOUDEVENT_SHOWN(event->specversion));
    return E_OK;
}

/* --- for writers --- */

static bool is_replaced(const struct cloudevent_extras *extras, struct str name)
{
    for (size_t i = 0; extras && i < extras->n; i++)
        if (str_equal(extras->attributes[i].name, name))
            return true;
    return false;
}

bool cloudevent_build_next(const struct cloudevent *event, const struct cloudevent_extras *extras, size_t *at,
                           const struct cloudevent_attribute **out_attribute)
{
    size_t n = cloudevent_build_count(event, extras);

    while (*at < n) {
        size_t i = (*at)++;
        bool is_extra = i >= event->n_attributes;
        const struct cloudevent_attribute *attribute =
            is_extra ? &extras->attributes[i - event->n_attributes] : &event->attributes[i];

        if (is_extra ? !attribute->value.p : is_replaced(extras, attribute->name))
            continue;
        *out_attribute = attribute;
        return true;
    }
    return false;
}
