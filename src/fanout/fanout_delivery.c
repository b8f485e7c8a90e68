#include "fanout/fanout_delivery.h"

#include "base/check.h"
#include "config/report.h"
#include "fanout/fanout_schema.h"

enum {
    MINUTE_MS = 60 * 1000,
    HOUR_MS = 60 * MINUTE_MS,
    MAX_TARGET_BYTES = 2048,
    MAX_TOPIC_BYTES = 249, /* Kafka's own limit */
};

static const char *const backoffs[] = {"exponential", "linear", NULL};
static const char *const formats[] = {"binary", "json", NULL};
static const char *const exhausted[] = {"nack", "dead-letter", "park", "drop", NULL};

/* Where the text of a target begins, and what is made of it. */
struct scheme {
    struct str prefix;
    bool is_h2c;
    bool is_https;
};

static const struct scheme schemes[] = {
    {STR_INIT("http://"), false, false}, {STR_INIT("h2c://"), true, false}, {STR_INIT("https://"), false, true}};

static void read_exhausted(struct fanout_reader *r, const struct tree_node *node, void *to);

static const struct fanout_field fields[] = {
    {.names = {STR_INIT("dead_letter"), STR_INIT("deadLetter"), STR_INIT("deadLetterURI"), STR_INIT("deadLetterSink"),
               STR_INIT("deadLetterSinkURI")},
     .type = FANOUT_FIELD_CUSTOM,
     .offset = offsetof(struct fanout_delivery, dead_letter),
     .read = fanout_delivery_read_target,
     .schema = FANOUT_DELIVERY_TARGET_SCHEMA},
    {.names = {STR_INIT("retry")},
     .type = FANOUT_FIELD_NUMBER,
     .offset = offsetof(struct fanout_delivery, retry.retries),
     .max = 1000,
     .initial = 5},
    {.names = {STR_INIT("backoff"), STR_INIT("backoffPolicy")},
     .type = FANOUT_FIELD_CHOICE,
     .offset = offsetof(struct fanout_delivery, retry.backoff),
     .choices = backoffs},
    {.names = {STR_INIT("backoff_delay"), STR_INIT("backoffDelay")},
     .type = FANOUT_FIELD_DURATION,
     .offset = offsetof(struct fanout_delivery, retry.delay_ms),
     .max = HOUR_MS,
     .initial = 200},
    {.names = {STR_INIT("backoff_max"), STR_INIT("backoffMax")},
     .type = FANOUT_FIELD_DURATION,
     .offset = offsetof(struct fanout_delivery, retry.delay_max_ms),
     .max = HOUR_MS,
     .initial = 30 * 1000},
    {.names = {STR_INIT("retry_after_max"), STR_INIT("retryAfterMax")},
     .type = FANOUT_FIELD_DURATION,
     .offset = offsetof(struct fanout_delivery, retry.retry_after_max_ms),
     .max = HOUR_MS,
     .initial = 30 * 1000},
    {.names = {STR_INIT("timeout")},
     .type = FANOUT_FIELD_DURATION,
     .offset = offsetof(struct fanout_delivery, retry.attempt_timeout_ms),
     .min = 1,
     .max = HOUR_MS,
     .initial = 30 * 1000},
    {.names = {STR_INIT("on_exhausted"), STR_INIT("onExhausted")},
     .type = FANOUT_FIELD_CUSTOM,
     .read = read_exhausted, /* several members, so it is given the whole */
     .schema =
         "{\"anyOf\": [{\"enum\": [\"nack\", \"dead-letter\", \"park\", \"drop\"]}, "
         "{\"type\": \"array\", \"prefixItems\": [{\"const\": \"dead-letter\"}, {\"enum\": [\"nack\", \"park\", \"drop\"]}], "
         "\"minItems\": 2, \"maxItems\": 2}]}"},
    {.names = {STR_INIT("format")},
     .type = FANOUT_FIELD_CHOICE,
     .offset = offsetof(struct fanout_delivery, format),
     .choices = formats},
    {.names = {STR_INIT("max_inflight"), STR_INIT("maxInflight")},
     .type = FANOUT_FIELD_NUMBER,
     .offset = offsetof(struct fanout_delivery, max_inflight),
     .max = 1000 * 1000},
};

const struct fanout_level fanout_delivery_level = {"delivery", fields, ARRAY_LEN(fields)};

/* One policy. False: it is none, which was told. */
static bool read_policy(struct fanout_reader *r, const struct tree_node *node, enum fanout_exhausted *out_policy)
{
    if (!fanout_field_expect(r, node, TREE_SCALAR))
        return false;
    for (unsigned i = 0; exhausted[i]; i++) {
        if (!str_equal(node->text, str_from(exhausted[i])))
            continue;
        *out_policy = (enum fanout_exhausted)i;
        if (i == FANOUT_EXHAUSTED_PARK && !r->abilities->has_disk)
            fanout_field_fail(r, node, "park needs a place for the events: start with --data, or set data_dir");
        return true;
    }
    fanout_field_fail(r, node, "\"%.*s\" is none of nack, dead-letter, park, drop", STR_ARG(report_excerpt(node->text)));
    return false;
}

/* A policy, or the list [dead-letter, X] with what to do when the dead-letter target fails as well. */
static void read_exhausted(struct fanout_reader *r, const struct tree_node *node, void *to)
{
    struct fanout_delivery *delivery = to;
    const struct tree_node *first = node->kind == TREE_LIST ? node->first : node;
    enum fanout_exhausted policies[2] = {0};

    delivery->on_dead_letter_failed = FANOUT_EXHAUSTED_NACK;
    delivery->has_exhausted = false;
    if (tree_is_null(node))
        return;
    if (node->kind == TREE_LIST && node->count != 2) {
        fanout_field_fail(r, node, "a list has two: dead-letter, and what to do when that fails: nack, park or drop");
        return;
    }
    if (!read_policy(r, first, &policies[0]) || (node->kind == TREE_LIST && !read_policy(r, first->next, &policies[1])))
        return;
    if (node->kind == TREE_LIST && (policies[0] != FANOUT_EXHAUSTED_DEAD_LETTER || policies[1] == FANOUT_EXHAUSTED_DEAD_LETTER))
        fanout_field_fail(r, node, "of a list the first is dead-letter and the second nack, park or drop");
    delivery->on_exhausted = policies[0];
    delivery->on_dead_letter_failed = policies[1];
    delivery->has_exhausted = true;
}

static bool is_topic(struct str topic)
{
    if (topic.n == 0 || topic.n > MAX_TOPIC_BYTES || str_equal(topic, STR(".")) || str_equal(topic, STR("..")))
        return false;
    for (size_t i = 0; i < topic.n; i++) {
        char c = topic.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-'))
            return false;
    }
    return true;
}

static void read_topic(struct fanout_reader *r, const struct tree_node *node, struct str text, size_t prefix,
                       struct fanout_target *out)
{
    struct str copy;

    if (!is_topic(str_from_offset(text, prefix))) {
        fanout_field_fail(r, node, "\"%.*s\" is no topic of Kafka", STR_ARG(report_excerpt(str_from_offset(text, prefix))));
        return;
    }
    if (!r->abilities->has_kafka) {
        fanout_field_fail(r, node, "%.*s needs Kafka, which this process does not have", STR_ARG(report_excerpt(text)));
        return;
    }
    copy = arena_copy(r->arena, MEM_CONFIG, text);
    *out = (struct fanout_target){FANOUT_TARGET_KAFKA, .text = copy, .topic = str_from_offset(copy, prefix)};
}

/* The scheme before what is left, in the arena. */
static struct str url_of(struct fanout_reader *r, bool is_https, struct str rest)
{
    struct str scheme = is_https ? STR("https://") : STR("http://");
    char *p = arena_alloc(r->arena, MEM_CONFIG, scheme.n + rest.n + 1);

    memcpy(p, scheme.p, scheme.n);
    if (rest.n)
        memcpy(p + scheme.n, rest.p, rest.n);
    return (struct str){p, scheme.n + rest.n};
}

static bool has_scheme(struct str text, struct str scheme)
{
    return text.n >= scheme.n && str_equal_nocase((struct str){text.p, scheme.n}, scheme);
}

static void read_url(struct fanout_reader *r, const struct tree_node *node, struct str text, struct fanout_target *out)
{
    struct fanout_target target = {.kind = FANOUT_TARGET_HTTP};
    struct errinfo ei = {0};
    struct str rest = text, url;
    bool is_https = false;

    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        if (!has_scheme(text, schemes[i].prefix))
            continue;
        rest = str_from_offset(text, schemes[i].prefix.n);
        target.is_h2c = schemes[i].is_h2c;
        is_https = schemes[i].is_https;
    }
    url = url_of(r, is_https, rest);
    if (http_url_parse(url, &target.url, &ei) != E_OK) {
        fanout_field_fail(r, node, "%.*s: %s", STR_ARG(report_excerpt(text)), ei.text);
        return;
    }
    /* A host alone stands for a URL, and that is what a failed delivery is to name. */
    target.text = target.is_h2c ? arena_copy(r->arena, MEM_CONFIG, text) : url;
    r->has_https = r->has_https || is_https;
    *out = target;
}

/* A destination of Knative's: only its `uri` (later `url`) says where to. */
static const struct tree_node *destination(struct fanout_reader *r, const struct tree_node *node)
{
    const struct tree_node *uri = NULL;

    for (const struct tree_node *child = node->first; child; child = child->next) {
        if (str_equal(child->key, STR("uri")) || str_equal(child->key, STR("url")))
            uri = child;
        else if (!tree_is_null(child))
            fanout_field_fail(r, child, "a destination has only a uri here; nothing is looked up in Kubernetes");
    }
    return uri;
}

void fanout_delivery_read_target(struct fanout_reader *r, const struct tree_node *node, void *to)
{
    static const struct str kafka = STR_INIT("kafka:");
    struct fanout_target *out = to;
    struct str text;

    *out = (struct fanout_target){0};
    if (node->kind == TREE_MAP)
        node = destination(r, node);
    if (tree_is_null(node) || !fanout_field_expect(r, node, TREE_SCALAR) || node->text.n == 0)
        return;
    text = node->text;
    if (text.n > MAX_TARGET_BYTES)
        fanout_field_fail(r, node, "longer than %d bytes", MAX_TARGET_BYTES);
    else if (str_starts_with(text, kafka))
        read_topic(r, node, text, kafka.n, out);
    else
        read_url(r, node, text, out);
}

void fanout_delivery_init(struct fanout_delivery *delivery)
{
    *delivery = (struct fanout_delivery){0};
    fanout_field_init(fields, ARRAY_LEN(fields), delivery);
}

void fanout_delivery_read(struct fanout_reader *r, const struct tree_node *section, struct fanout_delivery *delivery)
{
    fanout_field_read(r, fields, ARRAY_LEN(fields), "delivery", section, delivery);
}

void fanout_delivery_apply(struct fanout_reader *r, const struct tree_node *subscription,
                           const struct fanout_delivery *delivery, struct fanout_subscription *out_subscription)
{
    bool has_dead_letter = delivery->dead_letter.kind != FANOUT_TARGET_NONE;

    out_subscription->dead_letter = delivery->dead_letter;
    out_subscription->retry = delivery->retry;
    out_subscription->format = delivery->format;
    out_subscription->max_inflight = delivery->max_inflight;
    out_subscription->on_dead_letter_failed = delivery->on_dead_letter_failed;
    out_subscription->on_exhausted = has_dead_letter ? FANOUT_EXHAUSTED_DEAD_LETTER : FANOUT_EXHAUSTED_NACK;
    if (delivery->has_exhausted)
        out_subscription->on_exhausted = delivery->on_exhausted;
    if (out_subscription->on_exhausted == FANOUT_EXHAUSTED_DEAD_LETTER && !has_dead_letter)
        fanout_field_fail(r, subscription, "on_exhausted is dead-letter, but the subscription has no dead_letter");
}
