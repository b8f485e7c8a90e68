#include "proto/cloudevents/cloudevent_kafka.h"

#include "proto/cloudevents/cloudevent_build.h"

enum { PREFIX_BYTES = 3 }; /* "ce_" */

static struct str header_name(struct arena *a, enum mem_sub sub, struct str name)
{
    char *text = arena_alloc(a, sub, PREFIX_BYTES + name.n);

    memcpy(text, "ce_", PREFIX_BYTES);
    memcpy(text + PREFIX_BYTES, name.p, name.n);
    return (struct str){text, PREFIX_BYTES + name.n};
}

size_t cloudevent_kafka_headers(struct arena *a, enum mem_sub sub, const struct cloudevent *event,
                                const struct cloudevent_extras *extras, const struct cloudevent_kafka_header **out_headers)
{
    /* One more for the content type of JSON that came without one. */
    struct cloudevent_kafka_header *headers =
        arena_alloc(a, sub, (cloudevent_build_count(event, extras) + 1) * sizeof *headers);
    struct str content_type = cloudevent_content_type(event);
    const struct cloudevent_attribute *attribute;
    size_t at = 0, n = 0;

    while (cloudevent_build_next(event, extras, &at, &attribute))
        if (!str_equal(attribute->name, STR("datacontenttype")))
            headers[n++] = (struct cloudevent_kafka_header){header_name(a, sub, attribute->name), attribute->value};
    if (content_type.n)
        headers[n++] = (struct cloudevent_kafka_header){STR("content-type"), content_type};
    *out_headers = headers;
    return n;
}

struct str cloudevent_kafka_value(const struct cloudevent *event)
{
    if (event->data_kind == CLOUDEVENT_NO_DATA)
        return (struct str){0};
    return event->data.p ? event->data : STR("");
}
