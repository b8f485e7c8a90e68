/* cloudevent_build: what all readers of events share. Internal to cloudevents/. Pure functions; any thread. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "proto/cloudevents/cloudevent.h"

/* Names in error texts are cut, since strangers chose them: "%.*s" of this. */
#define CLOUDEVENT_SHOWN(s) (int)((s).n < CLOUDEVENT_NAME_MAX ? (s).n : CLOUDEVENT_NAME_MAX), (s).p

/* The name in lower case, without a copy when it is a usual one or is so already. E_INVAL, and a text: it cannot be a name. */
MUST_USE err cloudevent_build_name(struct arena *a, enum mem_sub sub, struct str name, struct str *out_name,
                                   struct errinfo *ei);

/* Whether the value is a String of section 3.2: UTF-8 without control characters and non-characters. E_INVAL, and a text. */
MUST_USE err cloudevent_build_check_value(struct str name, struct str value, struct errinfo *ei);

/* Whether everything is there that must be, and the version is one of those that are known. E_INVAL, and a text. */
MUST_USE err cloudevent_build_check(const struct cloudevent *event, struct errinfo *ei);

/* For writers: the attributes that are to be written, one after the other, `*at` being 0 at first. False: there are no more. */
bool cloudevent_build_next(const struct cloudevent *event, const struct cloudevent_extras *extras, size_t *at,
                           const struct cloudevent_attribute **out_attribute);

/* The most that cloudevent_build_next() gives. */
static inline size_t cloudevent_build_count(const struct cloudevent *event, const struct cloudevent_extras *extras)
{
    return event->n_attributes + (extras ? extras->n : 0);
}
