#include "fanout/fanout_channel.h"

#include "base/check.h"
#include "config/report.h"
#include "fanout/fanout_delivery.h"
#include "fanout/fanout_schema.h"
#include "fanout/fanout_subscription.h"

enum {
    MINUTE_MS = 60 * 1000,
    HOUR_MS = 60 * MINUTE_MS,
    MAX_LABEL_BYTES = 63, /* of DNS */
    MAX_NAME_BYTES = 253,
    MAX_WORDS = 64, /* hosts and headers of a channel */
};

static const char *const orders[] = {"none", "key", "strict", NULL};
static const char *const redelivers[] = {"all", "failed-only", NULL};
static const char *const repeats[] = {"deliver", "count", "suppress", NULL};
static const char *const nacks[] = {"all", "first", NULL};
static const char *const replies[] = {"200", "any2xx", NULL};
static const char *const encodings[] = {"spec", "raw", NULL};

/* A channel while it is read. */
struct draft {
    struct fanout_channel channel;
    struct fanout_delivery delivery; /* what subscriptions inherit */
    uint32_t reply_on, encoding;     /* choices */
    bool has_ack, is_async;          /* `ack` and Knative's asyncHandler say the same thing */
    bool has_headers, has_prefixes;
    const struct tree_node *delivery_section, *subscriptions, *fanout_config;
};

/* A list of words in the arena. */
struct words {
    struct str *items;
    size_t count;
};

static void read_ack(struct fanout_reader *r, const struct tree_node *node, void *to);
static void read_label(struct fanout_reader *r, const struct tree_node *node, void *to);
static void read_name(struct fanout_reader *r, const struct tree_node *node, void *to);
static void read_hosts(struct fanout_reader *r, const struct tree_node *node, void *to);
static void read_headers(struct fanout_reader *r, const struct tree_node *node, void *to);
static void read_prefixes(struct fanout_reader *r, const struct tree_node *node, void *to);

#define IN_CHANNEL(member) offsetof(struct draft, channel.member)

static const struct fanout_field channel_fields[] = {
    {.names = {STR_INIT("namespace")},
     .type = FANOUT_FIELD_CUSTOM,
     .offset = IN_CHANNEL(ns),
     .read = read_label,
     .is_needed = true,
     .schema = "{\"type\": \"string\", \"pattern\": \"^[a-z0-9-]{1,63}$\"}"},
    {.names = {STR_INIT("name")},
     .type = FANOUT_FIELD_CUSTOM,
     .offset = IN_CHANNEL(name),
     .read = read_name,
     .is_needed = true,
     .schema = "{\"type\": \"string\", \"pattern\": \"^[a-z0-9.-]{1,190}$\"}"},
    {.names = {STR_INIT("hosts"), STR_INIT("hostname")},
     .type = FANOUT_FIELD_CUSTOM,
     .read = read_hosts,
     .schema = "{\"$ref\": \"#/$defs/words\"}"},
    {.names = {STR_INIT("ack")},
     .type = FANOUT_FIELD_CUSTOM,
     .read = read_ack,
     .schema = "{\"type\": \"string\", \"pattern\": \"^(all|first|async-memory|quorum[(][0-9]+[)])$\"}"},
    {.names = {STR_INIT("order")}, .type = FANOUT_FIELD_CHOICE, .offset = IN_CHANNEL(order), .choices = orders},
    {.names = {STR_INIT("order_key")}, .type = FANOUT_FIELD_TEXT, .offset = IN_CHANNEL(order_key), .min = 1, .max = 64},
    {.names = {STR_INIT("redeliver")}, .type = FANOUT_FIELD_CHOICE, .offset = IN_CHANNEL(redeliver), .choices = redelivers},
    {.names = {STR_INIT("repeats")}, .type = FANOUT_FIELD_CHOICE, .offset = IN_CHANNEL(repeats), .choices = repeats},
    {.names = {STR_INIT("remember")},
     .type = FANOUT_FIELD_DURATION,
     .offset = IN_CHANNEL(remember_ms),
     .min = 1000,
     .max = 24 * HOUR_MS,
     .initial = 10 * MINUTE_MS},
    {.names = {STR_INIT("nack")}, .type = FANOUT_FIELD_CHOICE, .offset = IN_CHANNEL(nack), .choices = nacks},
    {.names = {STR_INIT("reply_on")},
     .type = FANOUT_FIELD_CHOICE,
     .offset = offsetof(struct draft, reply_on),
     .choices = replies},
    {.names = {STR_INIT("ce_header_encoding")},
     .type = FANOUT_FIELD_CHOICE,
     .offset = offsetof(struct draft, encoding),
     .choices = encodings},
    {.names = {STR_INIT("timeout")},
     .type = FANOUT_FIELD_DURATION,
     .offset = IN_CHANNEL(timeout_ms),
     .min = 1,
     .max = HOUR_MS,
     .initial = MINUTE_MS},
    {.names = {STR_INIT("max_body")},
     .type = FANOUT_FIELD_SIZE,
     .offset = IN_CHANNEL(max_body_bytes),
     .min = 64 << 10, /* CloudEvents 1.0.2 section 5: intermediaries forward events of this size */
     .max = 64 << 20,
     .initial = 1 << 20},
    {.names = {STR_INIT("max_queued")},
     .type = FANOUT_FIELD_SIZE,
     .offset = IN_CHANNEL(max_queued_bytes),
     .min = 64 << 10,
     .max = 1LL << 34,
     .initial = 16 << 20},
    {.names = {STR_INIT("max_hops")},
     .type = FANOUT_FIELD_NUMBER,
     .offset = IN_CHANNEL(max_hops),
     .min = 1,
     .max = 255,
     .initial = 32},
    {.names = {STR_INIT("forward_headers")},
     .type = FANOUT_FIELD_CUSTOM,
     .read = read_headers,
     .schema = "{\"$ref\": \"#/$defs/words\"}"},
    {.names = {STR_INIT("forward_prefixes")},
     .type = FANOUT_FIELD_CUSTOM,
     .read = read_prefixes,
     .schema = "{\"$ref\": \"#/$defs/words\"}"},
    {.names = {STR_INIT("delivery")},
     .type = FANOUT_FIELD_NODE,
     .offset = offsetof(struct draft, delivery_section),
     .schema = "{\"$ref\": \"#/$defs/delivery\"}"},
    {.names = {STR_INIT("subscriptions")},
     .type = FANOUT_FIELD_NODE,
     .offset = offsetof(struct draft, subscriptions),
     .schema = "{\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/subscription\"}}"},
    {.names = {STR_INIT("fanoutConfig")},
     .type = FANOUT_FIELD_NODE,
     .offset = offsetof(struct draft, fanout_config),
     .schema = "{\"$ref\": \"#/$defs/fanoutConfig\"}"},
};

/* What Knative puts into `fanoutConfig`. */
static const struct fanout_field fanout_config_fields[] = {
    {.names = {STR_INIT("subscriptions")},
     .type = FANOUT_FIELD_NODE,
     .offset = offsetof(struct draft, subscriptions),
     .schema = "{\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/subscription\"}}"},
    {.names = {STR_INIT("asyncHandler")}, .type = FANOUT_FIELD_BOOL, .offset = offsetof(struct draft, is_async)},
};

const struct fanout_level fanout_channel_level = {"channel", channel_fields, ARRAY_LEN(channel_fields)},
                          fanout_channel_config_level = {"fanoutConfig", fanout_config_fields, ARRAY_LEN(fanout_config_fields)};

/* Letters in lower case, digits and '-', or more by `extra`, as names in Kubernetes have them. */
static bool is_name(struct str text, size_t max, const char *extra)
{
    if (text.n == 0 || text.n > max)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || (c && strchr(extra, c))))
            return false;
    }
    return true;
}

static void take_name(struct fanout_reader *r, const struct tree_node *node, size_t max, const char *extra, struct str *to)
{
    if (tree_is_null(node) || !fanout_field_expect(r, node, TREE_SCALAR))
        return;
    if (is_name(node->text, max, extra))
        *to = arena_copy(r->arena, MEM_CONFIG, node->text);
    else
        fanout_field_fail(r, node, "\"%.*s\" must be 1 to %zu lower-case letters, digits and '-%s'",
                          STR_ARG(report_excerpt(node->text)), max, extra);
}

static void read_label(struct fanout_reader *r, const struct tree_node *node, void *to)
{
    take_name(r, node, MAX_LABEL_BYTES, "", to);
}

static void read_name(struct fanout_reader *r, const struct tree_node *node, void *to)
{
    take_name(r, node, MAX_NAME_BYTES - MAX_LABEL_BYTES, ".", to);
}

static void read_ack(struct fanout_reader *r, const struct tree_node *node, void *to)
{
    static const struct str quorum = STR_INIT("quorum("),
                            names[] = {STR_INIT("all"), STR_INIT(""), STR_INIT("first"), STR_INIT("async-memory")};
    struct draft *draft = to;
    struct fanout_channel *channel = &draft->channel;
    struct str text = node->text;
    uint64_t k;

    if (tree_is_null(node) || !fanout_field_expect(r, node, TREE_SCALAR))
        return;
    draft->has_ack = true;
    if (str_starts_with(text, quorum) && text.p[text.n - 1] == ')' &&
        str_to_u64((struct str){text.p + quorum.n, text.n - quorum.n - 1}, UINT32_MAX, &k) && k > 0) {
        channel->ack = FANOUT_ACK_QUORUM;
        channel->quorum = (uint32_t)k;
        return;
    }
    for (unsigned i = 0; i < ARRAY_LEN(names); i++)
        if (text.n && str_equal(text, names[i])) {
            channel->ack = (enum fanout_ack)i;
            channel->quorum = i == FANOUT_ACK_FIRST;
            return;
        }
    fanout_field_fail(r, node, "\"%.*s\" is none of all, quorum(K), first, async-memory", STR_ARG(report_excerpt(text)));
}

/* One scalar, or a list of them, each in lower case and checked. Empty ones are left out, as Knative writes a host it does not have. */
static struct words read_words(struct fanout_reader *r, const struct tree_node *node,
                               bool (*check)(struct fanout_reader *r, const struct tree_node *node, struct str *word))
{
    bool is_list = node->kind == TREE_LIST;
    struct words words = {0};

    if (tree_is_null(node) || (!is_list && !fanout_field_expect(r, node, TREE_SCALAR)))
        return words;
    if (is_list && node->count > MAX_WORDS) {
        fanout_field_fail(r, node, "too many: %u, at most %d", node->count, MAX_WORDS);
        return words;
    }
    words.items = arena_alloc(r->arena, MEM_CONFIG, (is_list ? node->count : 1) * sizeof *words.items);
    for (const struct tree_node *one = is_list ? node->first : node; one; one = is_list ? one->next : NULL) {
        char *p;

        if (!fanout_field_expect(r, one, TREE_SCALAR) || one->text.n == 0)
            continue;
        p = arena_alloc(r->arena, MEM_CONFIG, one->text.n + 1);
        for (size_t i = 0; i < one->text.n; i++)
            p[i] = one->text.p[i] >= 'A' && one->text.p[i] <= 'Z' ? (char)(one->text.p[i] - 'A' + 'a') : one->text.p[i];
        words.items[words.count] = (struct str){p, one->text.n};
        words.count += check(r, one, &words.items[words.count]);
    }
    return words;
}

static bool check_host(struct fanout_reader *r, const struct tree_node *node, struct str *host)
{
    if (host->p[host->n - 1] == '.')
        host->n--;
    if (is_name(*host, MAX_NAME_BYTES, "._") && host->p[host->n - 1] != '.')
        return true;
    fanout_field_fail(r, node, "\"%.*s\" is no host name without port", STR_ARG(report_excerpt(node->text)));
    return false;
}

static void read_hosts(struct fanout_reader *r, const struct tree_node *node, void *to)
{
    struct fanout_channel *channel = &((struct draft *)to)->channel;
    struct words words = read_words(r, node, check_host);

    channel->hosts = words.items;
    channel->n_hosts = words.count;
}

/* Headers that belong to one connection, or that a delivery writes itself. */
static bool is_reserved(struct str name)
{
    static const struct str reserved[] = {
        STR_INIT("connection"),
        STR_INIT("content-length"),
        STR_INIT("content-type"),
        STR_INIT("expect"),
        STR_INIT("host"),
        STR_INIT("keep-alive"),
        STR_INIT("kn-namespace"),
        STR_INIT("prefer"),
        STR_INIT("proxy-authenticate"),
        STR_INIT("proxy-authorization"),
        STR_INIT("proxy-connection"),
        STR_INIT("te"),
        STR_INIT("trailer"),
        STR_INIT("transfer-encoding"),
        STR_INIT("upgrade"),
        STR_INIT("traceparent"),
        STR_INIT("tracestate"),
    };

    for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
        if (str_equal(name, reserved[i]))
            return true;
    return str_starts_with(name, STR("ce-"));
}

/* RFC 9110 section 5.6.2 */
static bool is_token(struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c))))
            return false;
    }
    return text.n > 0 && text.n <= MAX_LABEL_BYTES;
}

static bool check_header(struct fanout_reader *r, const struct tree_node *node, struct str *name)
{
    if (!is_token(*name))
        fanout_field_fail(r, node, "\"%.*s\" is no name of a header", STR_ARG(report_excerpt(node->text)));
    else if (is_reserved(*name))
        fanout_field_fail(r, node, "%.*s is never passed on: each delivery has its own", STR_ARG(report_excerpt(node->text)));
    else
        return true;
    return false;
}

static void read_headers(struct fanout_reader *r, const struct tree_node *node, void *to)
{
    struct draft *draft = to;
    struct words words = read_words(r, node, check_header);

    draft->channel.forward_headers = words.items;
    draft->channel.n_forward_headers = words.count;
    draft->has_headers = !tree_is_null(node);
}

static void read_prefixes(struct fanout_reader *r, const struct tree_node *node, void *to)
{
    struct draft *draft = to;
    struct words words = read_words(r, node, check_header);

    draft->channel.forward_prefixes = words.items;
    draft->channel.n_forward_prefixes = words.count;
    draft->has_prefixes = !tree_is_null(node);
}

/* What Knative's sidecar passed on. Constants: nobody writes to what a snapshot points to. */
static void default_headers(struct draft *draft)
{
    static struct str headers[] = {STR_INIT("x-request-id")};
    static struct str prefixes[] = {STR_INIT("knative-"), STR_INIT("x-b3-"), STR_INIT("x-ot-")};

    if (!draft->has_headers) {
        draft->channel.forward_headers = headers;
        draft->channel.n_forward_headers = ARRAY_LEN(headers);
    }
    if (!draft->has_prefixes) {
        draft->channel.forward_prefixes = prefixes;
        draft->channel.n_forward_prefixes = ARRAY_LEN(prefixes);
    }
}

/* What concerns several fields. */
static void check_channel(struct fanout_reader *r, const struct tree_node *node, struct draft *draft)
{
    struct fanout_channel *channel = &draft->channel;

    if (draft->is_async && draft->has_ack && channel->ack != FANOUT_ACK_ASYNC_MEMORY)
        fanout_field_fail(r, node, "ack contradicts asyncHandler: true, which is async-memory");
    if (draft->is_async)
        channel->ack = FANOUT_ACK_ASYNC_MEMORY;
    if (channel->ack == FANOUT_ACK_QUORUM && channel->quorum > channel->n_subscriptions)
        fanout_field_fail(r, node, "ack: quorum(%u) cannot be reached by %zu subscriptions", channel->quorum,
                          channel->n_subscriptions);
    if (channel->order == FANOUT_ORDER_KEY && channel->order_key.n == 0)
        channel->order_key = STR("partitionkey"); /* the extension made for it */
    if (channel->order_key.n && !cloudevent_is_name(channel->order_key))
        fanout_field_fail(r, node, "order_key: \"%.*s\" is no name of an attribute",
                          STR_ARG(report_excerpt(channel->order_key)));
    channel->is_reply_any_2xx = draft->reply_on == 1;
    channel->is_header_raw = draft->encoding == 1;
}

static void make_key(struct fanout_reader *r, struct fanout_channel *channel)
{
    char *p = arena_alloc(r->arena, MEM_CONFIG, channel->ns.n + channel->name.n + 2);

    memcpy(p, channel->ns.p, channel->ns.n);
    p[channel->ns.n] = '/';
    memcpy(p + channel->ns.n + 1, channel->name.p, channel->name.n);
    channel->key = (struct str){p, channel->ns.n + channel->name.n + 1};
}

static bool is_missing(const struct tree_node *map, struct str key)
{
    const struct tree_node *node = tree_find(map, key);

    return !node || tree_is_null(node);
}

bool fanout_channel_read(struct fanout_reader *r, const struct tree_node *node, struct fanout_channel *out_channel)
{
    struct draft draft = {.channel = {.line = node->line}};

    fanout_field_init(channel_fields, ARRAY_LEN(channel_fields), &draft);
    fanout_delivery_init(&draft.delivery);
    if (!fanout_field_expect(r, node, TREE_MAP))
        return false;
    fanout_field_read(r, channel_fields, ARRAY_LEN(channel_fields), "a channel", node, &draft);
    if (draft.subscriptions && draft.fanout_config)
        fanout_field_fail(r, node, "subscriptions stand in the channel or in its fanoutConfig, not in both");
    if (draft.fanout_config)
        fanout_field_read(r, fanout_config_fields, ARRAY_LEN(fanout_config_fields), "fanoutConfig", draft.fanout_config,
                          &draft);
    if (draft.delivery_section)
        fanout_delivery_read(r, draft.delivery_section, &draft.delivery);
    default_headers(&draft);
    if (draft.subscriptions)
        fanout_subscription_read_all(r, draft.subscriptions, &draft.delivery, &draft.channel);
    check_channel(r, node, &draft);
    *out_channel = draft.channel;
    if (is_missing(node, STR("namespace")) || is_missing(node, STR("name")))
        fanout_field_fail(r, node, "a channel needs a namespace and a name");
    if (draft.channel.ns.n == 0 || draft.channel.name.n == 0)
        return false;
    make_key(r, out_channel);
    return true;
}
