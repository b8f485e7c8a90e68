#include "fanout/fanout_subscription.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/map.h"
#include "base/siphash.h"
#include "config/report.h"
#include "fanout/fanout_schema.h"

enum { MAX_UID_BYTES = 128 };

/* A subscription while it is read. */
struct draft {
    struct str uid;
    struct fanout_target subscriber, reply;
    const struct tree_node *ref, *dead_letter, *delivery_section, *filters, *filter;
};

static const struct fanout_field fields[] = {
    {.names = {STR_INIT("uid")}, .type = FANOUT_FIELD_TEXT, .offset = offsetof(struct draft, uid), .max = MAX_UID_BYTES},
    {.names = {STR_INIT("subscriber"), STR_INIT("subscriberURI"), STR_INIT("callableDomain")},
     .type = FANOUT_FIELD_CUSTOM,
     .offset = offsetof(struct draft, subscriber),
     .read = fanout_delivery_read_target,
     .schema = FANOUT_DELIVERY_TARGET_SCHEMA},
    {.names = {STR_INIT("reply"), STR_INIT("replyURI"), STR_INIT("sinkableDomain")},
     .type = FANOUT_FIELD_CUSTOM,
     .offset = offsetof(struct draft, reply),
     .read = fanout_delivery_read_target,
     .schema = FANOUT_DELIVERY_TARGET_SCHEMA},
    {.names = {STR_INIT("dead_letter"), STR_INIT("deadLetter"), STR_INIT("deadLetterURI"), STR_INIT("deadLetterSink"),
               STR_INIT("deadLetterSinkURI")},
     .type = FANOUT_FIELD_NODE,
     .offset = offsetof(struct draft, dead_letter),
     .schema = FANOUT_DELIVERY_TARGET_SCHEMA},
    {.names = {STR_INIT("delivery")},
     .type = FANOUT_FIELD_NODE,
     .offset = offsetof(struct draft, delivery_section),
     .schema = "{\"$ref\": \"#/$defs/delivery\"}"},
    {.names = {STR_INIT("filters")},
     .type = FANOUT_FIELD_NODE,
     .offset = offsetof(struct draft, filters),
     .schema = "{\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/filter\"}}"},
    {.names = {STR_INIT("filter")},
     .type = FANOUT_FIELD_NODE,
     .offset = offsetof(struct draft, filter),
     .schema = "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {\"attributes\": {\"type\": "
               "[\"object\", \"null\"], \"propertyNames\": {\"pattern\": \"^(?!data$)[a-z][a-z0-9]*$\"}, "
               "\"additionalProperties\": {\"type\": [\"string\", \"number\", \"boolean\", \"null\"]}}}}"},
    {.names = {STR_INIT("ref")}, .type = FANOUT_FIELD_NODE, .offset = offsetof(struct draft, ref), .schema = "true"},
    {.names = {STR_INIT("generation")}, .type = FANOUT_FIELD_IGNORED}, /* of Knative's object */
};

const struct fanout_level fanout_subscription_level = {"subscription", fields, ARRAY_LEN(fields)};

/* A uid that stays the same as long as the addresses do, wherever the subscription stands: what is parked or remembered goes by
 * it. `nth` tells several of the same addresses apart. */
static struct str derive_uid(struct fanout_reader *r, const struct draft *draft, unsigned nth)
{
    static const struct siphash_key key = {0x6d696c6c72616365, 0x66616e6f7574}; /* the same in every process */
    uint64_t hash = siphash_with(key, draft->subscriber.text) ^ (siphash_with(key, draft->reply.text) << 1);
    char text[40];
    int n = nth ? snprintf(text, sizeof text, "%016" PRIx64 "-%u", hash, nth + 1)
                : snprintf(text, sizeof text, "%016" PRIx64, hash);

    return arena_copy(r->arena, MEM_CONFIG, (struct str){text, (size_t)n});
}

/* It stands in paths and in headers. */
static bool check_uid(struct fanout_reader *r, const struct tree_node *node, struct str uid)
{
    for (size_t i = 0; i < uid.n; i++)
        if ((unsigned char)uid.p[i] <= ' ' || (unsigned char)uid.p[i] >= 0x7f || strchr("/?#%\"\\", uid.p[i])) {
            fanout_field_fail(r, node, "the uid \"%.*s\" may have no space and none of / ? # %% \" \\",
                              STR_ARG(report_excerpt(uid)));
            return false;
        }
    return true;
}

static bool has_uid(const void *entry, const void *uid)
{
    return str_equal(((const struct fanout_subscription *)entry)->uid, *(const struct str *)uid);
}

static void name_subscription(struct fanout_reader *r, const struct tree_node *node, const struct draft *draft,
                              struct map *by_uid, struct fanout_subscription *s)
{
    const struct fanout_subscription *other;
    const struct tree_node *of_ref = draft->ref && draft->ref->kind == TREE_MAP ? tree_find(draft->ref, STR("uid")) : NULL;
    bool is_derived = false;

    s->uid = draft->uid;
    if (s->uid.n == 0 && of_ref && of_ref->kind == TREE_SCALAR)
        s->uid = arena_copy(r->arena, MEM_CONFIG, of_ref->text);
    is_derived = s->uid.n == 0;
    for (unsigned nth = 0; is_derived; nth++) {
        s->uid = derive_uid(r, draft, nth);
        if (!map_find(by_uid, siphash(s->uid), &s->uid, has_uid))
            break;
    }
    if (!check_uid(r, node, s->uid))
        return;
    other = map_find(by_uid, siphash(s->uid), &s->uid, has_uid);
    if (other)
        fanout_field_fail(r, node, "the uid \"%.*s\" is that of the subscription in line %u already",
                          STR_ARG(report_excerpt(s->uid)), other->line);
    else
        map_add(by_uid, MEM_CONFIG, siphash(s->uid), s);
}

static void fail_filter(struct fanout_reader *r, const struct tree_node *node, const struct errinfo *ei)
{
    report_error(r->errors, r->file, ei->line ? ei->line : node->line, "%.*s: %s", STR_ARG(node->key), ei->text);
}

/* `filters` wins over Knative's older `filter`, unless it is empty; both are checked. */
static void read_filters(struct fanout_reader *r, const struct draft *draft, struct fanout_subscription *s)
{
    static const struct str attributes_key = STR_INIT("attributes");
    const struct event_filter *legacy = NULL;
    struct errinfo ei = {0};

    if (draft->filters && fanout_field_expect(r, draft->filters, TREE_LIST) &&
        event_filter_compile(r->arena, draft->filters, &s->filter, &ei) != E_OK)
        fail_filter(r, draft->filters, &ei);
    if (!draft->filter || !fanout_field_expect(r, draft->filter, TREE_MAP))
        return;
    for (const struct tree_node *child = draft->filter->first; child; child = child->next) {
        if (!str_equal(child->key, attributes_key))
            fanout_field_fail(r, child, "no such field of filter; it has only attributes");
        else if (!tree_is_null(child) && fanout_field_expect(r, child, TREE_MAP) &&
                 event_filter_compile_legacy(r->arena, child, &legacy, &ei) != E_OK)
            fail_filter(r, child, &ei);
    }
    if (!s->filter)
        s->filter = legacy;
}

static void read_subscription(struct fanout_reader *r, const struct tree_node *node, const struct fanout_delivery *inherited,
                              struct map *by_uid, struct fanout_subscription *s)
{
    struct draft draft = {0};
    struct fanout_delivery delivery = *inherited;

    s->line = node->line;
    fanout_field_read(r, fields, ARRAY_LEN(fields), "a subscription", node, &draft);
    if (node->kind != TREE_MAP)
        return;
    if (draft.delivery_section)
        fanout_delivery_read(r, draft.delivery_section, &delivery);
    if (draft.dead_letter)
        fanout_delivery_read_target(r, draft.dead_letter, &delivery.dead_letter);
    s->subscriber = draft.subscriber;
    s->reply = draft.reply;
    fanout_delivery_apply(r, node, &delivery, s);
    name_subscription(r, node, &draft, by_uid, s);
    read_filters(r, &draft, s);
}

void fanout_subscription_read_all(struct fanout_reader *r, const struct tree_node *list,
                                  const struct fanout_delivery *inherited, struct fanout_channel *channel)
{
    struct map by_uid = {0};

    if (!fanout_field_expect(r, list, TREE_LIST))
        return;
    channel->subscriptions = arena_alloc(r->arena, MEM_CONFIG, list->count * sizeof *channel->subscriptions);
    for (const struct tree_node *node = list->first; node; node = node->next) {
        struct fanout_subscription *s = &channel->subscriptions[channel->n_subscriptions];

        s->index = (uint32_t)channel->n_subscriptions++;
        read_subscription(r, node, inherited, &by_uid, s);
    }
    map_free(&by_uid, MEM_CONFIG);
}
