/* command_topic: what a device subscribes to for its commands, and the topics they are published to (docs/wire/commands.md):
 *
 *   command | c  /  [T]  /  [D | +]  /  req | q  /  #         a filter: exactly five levels
 *   command | c  /  [T]  /  [D]  /  req | q  /  [R]  /  S      a topic: R the request id, none of a one-way command; S the subject
 *
 * and behind it `/?message-id=ID` for clients that cannot be told the message id otherwise, as devices write their properties.
 * A topic spells what the filter spelled. Pure functions, any thread; no memory is allocated. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

/* Views into the filter. */
struct command_filter {
    bool is_short_endpoint; /* `c` */
    bool is_short_request;  /* `q` */
    bool is_for_all;        /* `+` as the device: a gateway, and all devices it acts for */
    struct str tenant;      /* empty: not named */
    struct str device;      /* empty: not named, the subscriber itself */
};

/* Reads a filter. E_NOTFOUND: it does not begin with `command` or `c` as a whole level, so it is another kind of filter. E_INVAL: it does,
 * but is none of the form above; answer 0x80. The caller checks that the tenant is the client's, that a gateway may act for the
 * device, and that the QoS is 0 or 1. */
MUST_USE err command_topic_parse_filter(struct str filter, struct command_filter *out_filter);

/* A command on its way to a subscriber. */
struct command_address {
    struct str device;     /* the target, when it is reached through a gateway; empty: the subscriber itself */
    struct str request_id; /* empty: a one-way command */
    struct str subject;
    struct str message_id; /* to be in the topic; empty: it is not */
};

/* The bytes that command_topic_format() writes. */
size_t command_topic_size(const struct command_filter *filter, const struct command_address *address);

/* Writes the topic. The device is named when the command goes through a gateway, or when the filter named it. */
void command_topic_format(const struct command_filter *filter, const struct command_address *address, char *to);
