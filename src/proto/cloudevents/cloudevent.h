/* cloudevent: one CloudEvent in memory, whatever it came as: context attributes as text in their canonical form, and data as bytes
 * that nobody has touched (CloudEvents 1.0.2 section 3). Views into the message it was read from, or into the arena the reader
 * was given; valid as long as both. Pure functions; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

enum {
    CLOUDEVENT_ATTRIBUTES_MAX = 64, /* with the required ones */
    CLOUDEVENT_NAME_MAX = 64,       /* section 3.1 recommends 20 */
};

/* What a JSON document wrote without quotes, that it is written so again; headers know only strings. */
enum cloudevent_type { CLOUDEVENT_STRING, CLOUDEVENT_INTEGER, CLOUDEVENT_BOOLEAN };

struct cloudevent_attribute {
    struct str name; /* lower-case, without any prefix */
    struct str value;
    enum cloudevent_type type;
};

/* Attributes that are written besides those of the event, and instead of those with their names; a value whose `p` is NULL takes the
 * event's away. So the event itself, which others are reading, is left alone. All-zero: none. */
struct cloudevent_extras {
    const struct cloudevent_attribute *attributes;
    size_t n;
};

/* What the data is, for writing it in another mode. */
enum cloudevent_data {
    CLOUDEVENT_NO_DATA,
    CLOUDEVENT_BYTES, /* as they were sent in binary mode, or from data_base64 */
    CLOUDEVENT_JSON,  /* a JSON value, as it stood in the document */
    CLOUDEVENT_TEXT,  /* a JSON string of a document whose datacontenttype is not JSON, unescaped */
};

struct cloudevent {
    /* All of them in the order of their coming, the required ones and datacontenttype as well. */
    struct cloudevent_attribute *attributes;
    size_t n_attributes;
    struct str id, source, type, specversion; /* views of the same; never empty in an event that was read */
    struct str datacontenttype;               /* empty: none */
    struct str data;
    enum cloudevent_data data_kind;
};

/* An attribute by its lower-case name. False when the event does not have it; an empty value is one. */
bool cloudevent_find(const struct cloudevent *event, struct str name, struct str *out_value);

/* For whoever puts an event together: adds an attribute, for which there is room, and sets the event's view of it if it has one. */
void cloudevent_add(struct cloudevent *event, const struct cloudevent_attribute *attribute);

/* Whether this may be the name of an attribute: [a-z0-9], 1 to CLOUDEVENT_NAME_MAX, and not `data` (section 3.1). */
bool cloudevent_is_name(struct str name);

/* Whether a datacontenttype says that data is JSON: any type with the subtype json, or one that ends with +json (JSON format 1.0.2
 * section 3.1). False for an empty one. */
bool cloudevent_is_json(struct str datacontenttype);

/* The Content-Type of the data when it is sent in binary mode: datacontenttype, and application/json for a JSON value without one (JSON
 * format section 3.1). Empty: none. */
struct str cloudevent_content_type(const struct cloudevent *event);
