#include "fanout/fanout_config.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/siphash.h"
#include "config/report.h"
#include "config/tree.h"
#include "fanout/fanout_channel.h"
#include "fanout/fanout_snapshot_private.h"

/* The whole text. */
struct document {
    const struct tree_node *channels;
    const struct tree_node *generation;
};

static const struct fanout_field document_fields[] = {
    {.names = {STR_INIT("channels"), STR_INIT("channelConfigs")},
     .type = FANOUT_FIELD_NODE,
     .offset = offsetof(struct document, channels)},
    {.names = {STR_INIT("generation")}, .type = FANOUT_FIELD_NODE, .offset = offsetof(struct document, generation)},
};

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

static void read_channels(struct fanout_reader *r, const struct tree_node *list, struct fanout_snapshot *snapshot)
{
    snapshot->channels = arena_alloc(r->arena, MEM_CONFIG, list->count * sizeof *snapshot->channels);
    for (const struct tree_node *node = list->first; node; node = node->next) {
        struct fanout_channel *channel = &snapshot->channels[snapshot->n_channels];

        if (!fanout_channel_read(r, node, channel))
            continue;
        snapshot->n_channels++;
        add_channel(r, node, snapshot, channel);
    }
    for (size_t i = 0; i < snapshot->n_channels; i++)
        for (size_t k = 0; k < snapshot->channels[i].n_hosts; k++)
            add_host(r, snapshot, &snapshot->channels[i], snapshot->channels[i].hosts[k]);
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

static void read_document(struct fanout_reader *r, const struct tree_node *root, struct fanout_snapshot *snapshot)
{
    struct document document = {0};

    fanout_field_read(r, document_fields, ARRAY_LEN(document_fields), "the configuration", root, &document);
    if (document.generation)
        read_generation(r, document.generation, &snapshot->generation);
    if (document.channels && fanout_field_expect(r, document.channels, TREE_LIST))
        read_channels(r, document.channels, snapshot);
}

/* A channel without a name has that of the request's snapshot, of which it is the only one. */
static void read_single(struct fanout_reader *r, struct arena *scratch, struct tree_node *root,
                        struct fanout_snapshot *snapshot)
{
    static const struct str keys[] = {STR_INIT("namespace"), STR_INIT("name")};
    struct tree_node *list = tree_add(scratch, TREE_LIST, root->line);

    if (!fanout_field_expect(r, root, TREE_MAP))
        return;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct tree_node *name;

        if (tree_find(root, keys[i]))
            continue;
        name = tree_add(scratch, TREE_SCALAR, root->line);
        name->key = keys[i];
        name->text = STR("stateless");
        tree_append(root, name);
    }
    tree_append(list, root);
    read_channels(r, list, snapshot);
}

/* What the text is. */
enum whole { DOCUMENT, CHANNEL };

static err build(enum whole whole, struct str text, const char *name, uint64_t generation,
                 const struct fanout_abilities *abilities, struct fanout_snapshot **out_snapshot, struct config_errors *errors)
{
    struct arena scratch = {0}, arena = {0};
    struct fanout_snapshot *snapshot = arena_alloc(&arena, MEM_CONFIG, sizeof *snapshot);
    struct fanout_reader r = {.arena = &arena, .file = name, .errors = errors, .abilities = abilities};
    struct tree_node *root;
    err e;

    *errors = (struct config_errors){0};
    snapshot->generation = generation;
    snapshot->source = whole == CHANNEL ? STR("request") : STR("");
    atomic_init(&snapshot->references, 1);
    e = tree_parse(&scratch, text, name, &root, errors);
    if (e == E_OK && whole == CHANNEL)
        read_single(&r, &scratch, root, snapshot);
    else if (e == E_OK)
        read_document(&r, root, snapshot);
    arena_free(&scratch, MEM_CONFIG);
    snapshot->has_https = r.has_https;
    snapshot->arena = arena; /* from here on the snapshot owns the memory it lies in */
    if (e == E_OK && errors->count == 0) {
        *out_snapshot = snapshot;
        return E_OK;
    }
    fanout_snapshot_unref(snapshot);
    return E_INVAL;
}

err fanout_config_build(struct str text, const char *name, uint64_t generation, const struct fanout_abilities *abilities,
                        struct fanout_snapshot **out_snapshot, struct config_errors *errors)
{
    return build(DOCUMENT, text, name, generation, abilities, out_snapshot, errors);
}

err fanout_config_build_channel(struct str text, const char *name, const struct fanout_abilities *abilities,
                                struct fanout_snapshot **out_snapshot, struct config_errors *errors)
{
    return build(CHANNEL, text, name, 1, abilities, out_snapshot, errors);
}
