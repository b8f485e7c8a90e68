#include "core/command_topic.h"

#include <string.h>

static const struct str endpoints[] = {STR_INIT("command"), STR_INIT("c")};
static const struct str requests[] = {STR_INIT("req"), STR_INIT("q")};

/* The index of the name, by length. */
static bool find(const struct str names[2], struct str name, bool *out_is_short)
{
    *out_is_short = str_equal(name, names[1]);
    return *out_is_short || str_equal(name, names[0]);
}

static bool is_plain_level(struct str level)
{
    return !level.n || (!memchr(level.p, '+', level.n) && !memchr(level.p, '#', level.n));
}

err command_topic_parse_filter(struct str filter, struct command_filter *out_filter)
{
    struct command_filter f = {0};
    struct str rest = filter, request;
    bool more;

    if (!find(endpoints, str_take(&rest, '/', &more), &f.is_short_endpoint))
        return E_NOTFOUND;
    f.tenant = str_take(&rest, '/', &more);
    f.device = str_take(&rest, '/', &more);
    request = str_take(&rest, '/', &more);
    if (!more || !find(requests, request, &f.is_short_request) || !str_equal(rest, STR("#")))
        return E_INVAL;
    f.is_for_all = str_equal(f.device, STR("+"));
    if (f.is_for_all)
        f.device = (struct str){0};
    if (!is_plain_level(f.tenant) || !is_plain_level(f.device))
        return E_INVAL;
    *out_filter = f;
    return E_OK;
}

/* --- the message id, percent-encoded but for what RFC 3986 section 2.3 leaves as it is --- */

static const struct str bag = STR_INIT("/?message-id=");

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || memchr("-._~", c, 4);
}

static size_t bag_size(struct str message_id)
{
    size_t n = message_id.n ? bag.n : 0;

    for (size_t i = 0; i < message_id.n; i++)
        n += is_unreserved(message_id.p[i]) ? 1 : 3;
    return n;
}

static void bag_format(struct str message_id, char *to)
{
    static const char digits[] = "0123456789ABCDEF";

    if (!message_id.n)
        return;
    memcpy(to, bag.p, bag.n);
    to += bag.n;
    for (size_t i = 0; i < message_id.n; i++) {
        unsigned char c = (unsigned char)message_id.p[i];

        if (is_unreserved((char)c)) {
            *to++ = (char)c;
            continue;
        }
        *to++ = '%';
        *to++ = digits[c >> 4];
        *to++ = digits[c & 15];
    }
}

/* --- topics --- */

enum { LEVELS = 6 };

static void levels_of(const struct command_filter *filter, const struct command_address *address, struct str levels[LEVELS])
{
    levels[0] = endpoints[filter->is_short_endpoint];
    levels[1] = filter->tenant;
    levels[2] = address->device.n ? address->device : filter->device;
    levels[3] = requests[filter->is_short_request];
    levels[4] = address->request_id;
    levels[5] = address->subject;
}

size_t command_topic_size(const struct command_filter *filter, const struct command_address *address)
{
    struct str levels[LEVELS];
    size_t n = LEVELS - 1 + bag_size(address->message_id);

    levels_of(filter, address, levels);
    for (int i = 0; i < LEVELS; i++)
        n += levels[i].n;
    return n;
}

void command_topic_format(const struct command_filter *filter, const struct command_address *address, char *to)
{
    struct str levels[LEVELS];

    levels_of(filter, address, levels);
    for (int i = 0; i < LEVELS; i++) {
        if (i > 0)
            *to++ = '/';
        if (levels[i].n > 0)
            memcpy(to, levels[i].p, levels[i].n);
        to += levels[i].n;
    }
    bag_format(address->message_id, to);
}
