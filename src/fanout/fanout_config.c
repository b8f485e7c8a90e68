#include "fanout/fanout_config.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/siphash.h"
#include "config/report.h"
#include "config/tree.h"
#include "fanout/fanout_channel.h"
#include "fanout/fanout_isolation.h"
#include "fanout/fanout_schema.h"
#include "fanout/fanout_snapshot_private.h"

enum { MAX_PASSES = 16 }; /* over one text, to isolate channels */

/* The whole text. */
struct document {
    const struct tree_node *channels;
    const struct tree_node *generation;
};

static const struct fanout_field document_fields[] = {
    {.names = {STR_INIT("channels"), STR_INIT("channelConfigs")},
     .type = FANOUT_FIELD_NODE,
     .offset = offsetof(struct document, channels),
     .schema = "{\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/channel\"}}"},
    {.names = {STR_INIT("generation")},
     .type = FANOUT_FIELD_NODE,
     .offset = offsetof(struct document, generation),
     .schema = "{\"type\": [\"integer\", \"string\"], \"minimum\": 1, \"pattern\": \"^[0-9]+$\"}"},
};

const struct fanout_level fanout_config_level = {"configuration", document_fields, ARRAY_LEN(document_fields)};

static void add_channel(struct fanout_reader *r, const struct tree_node *node, struct fanout_snapshot *snapshot,
                        struct fanout_channel *channel)
{
    const struct fanout_channel *other = fanout_snapshot_find_key(snapshot, channel->key);

    snapshot->n_subscriptions += channel->n_subscriptions;
    if (other)
        fanout_field_fail(r, node, "the channel %.*s is in line %u already", STR_ARG(channel->key), other->line);
    else
        map_add(&snapshot->by_key, MEM_CONFIG, siphash(channel->key), channel);
}

/* A host may belong to one channel only, and may not be what another one is called anyway. */
static void add_host(struct fanout_reader *r, struct fanout_snapshot *snapshot, const struct fanout_channel *channel,
                     struct str host)
{
    const struct fanout_host *alias = fanout_snapshot_find_alias(snapshot, host);
    const struct fanout_channel *other = alias ? alias->channel : NULL;
    struct fanout_host *entry;
    char key[FANOUT_HOST_BYTES];
    size_t n;

    if (!other && fanout_host_to_key(host, key, &n) && n)
        other = fanout_snapshot_find_key(snapshot, (struct str){key, n});
    if (other && other != channel)
        report_error(r->errors, r->file, channel->line, "%.*s: the host %.*s means the channel %.*s (line %u) already",
                     STR_ARG(channel->key), STR_ARG(report_excerpt(host)), STR_ARG(other->key), other->line);
    if (alias || (other && other != channel))
        return;
    entry = arena_alloc(r->arena, MEM_CONFIG, sizeof *entry);
    *entry = (struct fanout_host){host, channel};
    map_add(&snapshot->by_host, MEM_CONFIG, siphash(host), entry);
}

/* As it was before, in memory that is its donor's. */
static void keep_channel(struct fanout_reader *r, const struct fanout_channel *old, struct fanout_channel *channel)
{
    *channel = *old;
    channel->donor = fanout_snapshot_ref(old->donor ? old->donor : r->isolation->before);
    r->has_https = r->has_https || channel->donor->has_https;
}

/* The channel at the snapshot's next place. False: there is none. */
static bool take_channel(struct fanout_reader *r, const struct tree_node *node, uint32_t place,
                         struct fanout_snapshot *snapshot)
{
    struct fanout_channel *channel = &snapshot->channels[snapshot->n_channels];
    const struct fanout_channel *old = NULL;
    enum fanout_fate fate = fanout_isolation_fate(r->isolation, place, &old);
    size_t n_errors = fanout_isolation_count(r->errors);
    bool has_name = false;

    if (fate == FANOUT_FATE_OUT)
        return false;
    if (fate == FANOUT_FATE_OLD)
        keep_channel(r, old, channel);
    else
        has_name = fanout_channel_read(r, node, channel);
    channel->place = place;
    if (fanout_isolation_judge(r->isolation, r->errors, n_errors, place, has_name ? channel->key : (struct str){0}, node->line))
        return false;
    return has_name || fate == FANOUT_FATE_OLD;
}

static void add_hosts(struct fanout_reader *r, struct fanout_snapshot *snapshot, const struct fanout_channel *channel)
{
    size_t n_errors = fanout_isolation_count(r->errors);

    for (size_t i = 0; i < channel->n_hosts; i++)
        add_host(r, snapshot, channel, channel->hosts[i]);
    (void)fanout_isolation_judge(r->isolation, r->errors, n_errors, channel->place, channel->key, channel->line);
}

static void read_channels(struct fanout_reader *r, const struct tree_node *list, struct fanout_snapshot *snapshot)
{
    uint32_t place = 0;

    fanout_isolation_begin(r->isolation, list->count);
    snapshot->channels = arena_alloc(r->arena, MEM_CONFIG, list->count * sizeof *snapshot->channels);
    for (const struct tree_node *node = list->first; node; node = node->next, place++) {
        struct fanout_channel *channel = &snapshot->channels[snapshot->n_channels];
        size_t n_errors;

        if (!take_channel(r, node, place, snapshot))
            continue;
        snapshot->n_channels++;
        n_errors = fanout_isolation_count(r->errors);
        add_channel(r, node, snapshot, channel);
        (void)fanout_isolation_judge(r->isolation, r->errors, n_errors, place, channel->key, node->line);
    }
    for (size_t i = 0; i < snapshot->n_channels; i++)
        add_hosts(r, snapshot, &snapshot->channels[i]);
}

static void read_generation(struct fanout_reader *r, const struct tree_node *node, uint64_t *to)
{
    uint64_t value;

    if (!fanout_field_expect(r, node, TREE_SCALAR))
        return;
    if (str_to_u64(node->text, INT64_MAX, &value) && value > 0)
        *to = value;
    else
        fanout_field_fail(r, node, "\"%.*s\" is no whole number from 1", STR_ARG(report_excerpt(node->text)));
}

static void read_document(struct fanout_reader *r, struct tree_node *root, struct fanout_snapshot *snapshot)
{
    struct document document = {0};

    fanout_field_read(r, document_fields, ARRAY_LEN(document_fields), "the configuration", root, &document);
    if (document.generation)
        read_generation(r, document.generation, &snapshot->generation);
    if (document.channels && fanout_field_expect(r, document.channels, TREE_LIST))
        read_channels(r, document.channels, snapshot);
}

/* A channel without a name has that of the request's snapshot, of which it is the only one. */
static void name_channel(struct arena *scratch, struct tree_node *root)
{
    static const struct str keys[] = {STR_INIT("namespace"), STR_INIT("name")};

    for (size_t i = 0; i < ARRAY_LEN(keys) && root->kind == TREE_MAP; i++) {
        struct tree_node *name;

        if (tree_find(root, keys[i]))
            continue;
        name = tree_add(scratch, TREE_SCALAR, root->line);
        name->key = keys[i];
        name->text = STR("stateless");
        tree_append(root, name);
    }
}

static void read_single(struct fanout_reader *r, struct tree_node *root, struct fanout_snapshot *snapshot)
{
    struct tree_node list = {.kind = TREE_LIST, .line = root->line, .first = root, .count = 1};

    if (fanout_field_expect(r, root, TREE_MAP))
        read_channels(r, &list, snapshot);
}

/* Reads a parsed text once. The snapshot may be built in part when there are errors. */
typedef void (*read_whole)(struct fanout_reader *r, struct tree_node *root, struct fanout_snapshot *snapshot);

static struct fanout_snapshot *read_once(struct fanout_reader *r, read_whole read, struct tree_node *root, uint64_t generation)
{
    struct arena arena = {0};
    struct fanout_snapshot *snapshot = arena_alloc(&arena, MEM_CONFIG, sizeof *snapshot);

    r->arena = &arena;
    r->has_https = false;
    snapshot->generation = generation;
    snapshot->source = STR("");
    atomic_init(&snapshot->references, 1);
    read(r, root, snapshot);
    if (r->isolation && !r->isolation->has_changed)
        fanout_isolation_list(r->isolation, &arena, snapshot);
    snapshot->has_https = r->has_https;
    snapshot->arena = arena; /* from here on the snapshot owns the memory it lies in */
    return snapshot;
}

/* Until no channel is found wrong any more: each pass isolates one at least a step further, and most texts need two. */
static err read_isolated(struct fanout_reader *r, read_whole read, struct tree_node *root, uint64_t generation,
                         struct fanout_snapshot **out_snapshot)
{
    for (int pass = 0; pass < MAX_PASSES; pass++) {
        struct fanout_snapshot *snapshot = read_once(r, read, root, generation);
        bool is_vain = fanout_isolation_is_vain(r->isolation, r->errors);

        if (!is_vain && !r->isolation->has_changed) {
            *out_snapshot = snapshot;
            return E_OK;
        }
        fanout_snapshot_unref(snapshot);
        if (is_vain)
            return E_INVAL;
    }
    report_error(r->errors, r->file, 0, "the channels are at odds with each other in too many ways to keep them apart");
    return E_INVAL;
}

static err build(struct fanout_reader *r, read_whole read, struct tree_node *root, uint64_t generation,
                 struct fanout_snapshot **out_snapshot)
{
    struct fanout_snapshot *snapshot;

    if (r->isolation)
        return read_isolated(r, read, root, generation, out_snapshot);
    snapshot = read_once(r, read, root, generation);
    if (r->errors->count == 0) {
        *out_snapshot = snapshot;
        return E_OK;
    }
    fanout_snapshot_unref(snapshot);
    return E_INVAL;
}

/* `isolation` may be NULL. */
static err parse_and_build(struct str text, const char *name, uint64_t generation, const struct fanout_abilities *abilities,
                           struct fanout_isolation *isolation, struct fanout_snapshot **out_snapshot,
                           struct config_errors *errors)
{
    struct arena scratch = {0};
    struct fanout_reader r = {.file = name, .errors = errors, .abilities = abilities, .isolation = isolation};
    struct tree_node *root;
    err e;

    *errors = (struct config_errors){0};
    if (isolation)
        isolation->scratch = &scratch;
    e = tree_parse(&scratch, text, name, &root, errors);
    if (e == E_OK)
        e = build(&r, read_document, root, generation, out_snapshot);
    arena_free(&scratch, MEM_CONFIG);
    return e == E_OK ? E_OK : E_INVAL;
}

err fanout_config_build(struct str text, const char *name, uint64_t generation, const struct fanout_abilities *abilities,
                        struct fanout_snapshot **out_snapshot, struct config_errors *errors)
{
    return parse_and_build(text, name, generation, abilities, NULL, out_snapshot, errors);
}

err fanout_config_build_isolated(struct str text, const char *name, uint64_t generation,
                                 const struct fanout_abilities *abilities, struct fanout_snapshot *before,
                                 struct fanout_snapshot **out_snapshot, struct config_errors *errors)
{
    struct fanout_isolation isolation = {.before = before};

    return parse_and_build(text, name, generation, abilities, &isolation, out_snapshot, errors);
}

err fanout_config_build_channel(struct str text, const char *name, const struct fanout_abilities *abilities,
                                struct fanout_snapshot **out_snapshot, struct config_errors *errors)
{
    struct arena scratch = {0};
    struct fanout_reader r = {.file = name, .errors = errors, .abilities = abilities};
    struct tree_node *root;
    err e;

    *errors = (struct config_errors){0};
    e = tree_parse(&scratch, text, name, &root, errors);
    if (e == E_OK) {
        name_channel(&scratch, root);
        e = build(&r, read_single, root, 1, out_snapshot);
    }
    if (e == E_OK)
        (*out_snapshot)->source = STR("request");
    arena_free(&scratch, MEM_CONFIG);
    return e == E_OK ? E_OK : E_INVAL;
}
