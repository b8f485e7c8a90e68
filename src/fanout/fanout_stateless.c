#include "fanout/fanout_stateless.h"

#include "base/check.h"
#include "base/jsonr.h"
#include "base/utf8.h"

/* An entry of the allow-list. */
struct allowed {
    struct str host; /* lower-case; of `*.DOMAIN` what is behind the star; of `kafka:TOPIC` the topic, as it is written */
    uint16_t port;   /* 0: any */
    bool is_domain;
    bool is_kafka;
};

struct fanout_stateless {
    struct arena arena;
    struct str token;
    struct fanout_abilities abilities;
    struct allowed *allowed;
    size_t n_allowed;
};

static const struct str channel_header = STR_INIT("Fanout-Channel");
static const struct str envelope_type = STR_INIT("application/vnd.millrace.fanout+json");

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static struct allowed read_allowed(struct arena *a, struct str entry)
{
    static const struct str kafka = STR_INIT("kafka:");
    struct allowed out = {0};
    const char *colon = entry.p && entry.n ? memrchr(entry.p, ':', entry.n) : NULL;
    uint64_t port;
    char *p;

    if (str_starts_with(entry, kafka)) {
        out.is_kafka = true;
        out.host = arena_copy(a, MEM_CONFIG, str_from_offset(entry, kafka.n));
        return out;
    }
    if (colon && str_to_u64(str_from_offset(entry, (size_t)(colon - entry.p) + 1), UINT16_MAX, &port)) {
        out.port = (uint16_t)port;
        entry.n = (size_t)(colon - entry.p);
    }
    out.is_domain = str_starts_with(entry, STR("*."));
    entry = str_from_offset(entry, out.is_domain);
    p = arena_alloc(a, MEM_CONFIG, entry.n + 1);
    for (size_t i = 0; i < entry.n; i++)
        p[i] = lower(entry.p[i]);
    out.host = (struct str){p, entry.n};
    return out;
}

struct fanout_stateless *fanout_stateless_new(const struct config_fanout *config, const struct fanout_abilities *abilities)
{
    struct fanout_stateless *s;

    if (config->stateless_token.n == 0)
        return NULL;
    s = mem_alloc_zero(MEM_CONFIG, sizeof *s);
    s->token = arena_copy(&s->arena, MEM_CONFIG, config->stateless_token);
    s->abilities = *abilities;
    s->abilities.has_disk = false; /* what is parked goes by a subscription that is still there when it is tried again */
    s->n_allowed = config->stateless_allow.count;
    s->allowed = arena_alloc(&s->arena, MEM_CONFIG, s->n_allowed * sizeof *s->allowed);
    for (size_t i = 0; i < s->n_allowed; i++)
        s->allowed[i] = read_allowed(&s->arena, config->stateless_allow.items[i]);
    return s;
}

void fanout_stateless_free(struct fanout_stateless *s)
{
    if (!s)
        return;
    arena_wipe(&s->arena, MEM_CONFIG);
    mem_free(MEM_CONFIG, s);
}

/* The type without its parameters. */
static bool is_envelope(const struct http_request *request)
{
    struct str type = http_message_header(request, STR("Content-Type"));
    bool has_parameters;

    type = str_take(&type, ';', &has_parameters);
    while (type.n && (type.p[type.n - 1] == ' ' || type.p[type.n - 1] == '\t'))
        type.n--;
    return str_equal_nocase(type, envelope_type);
}

bool fanout_stateless_is_meant(const struct http_request *request)
{
    return http_message_header(request, channel_header).p || is_envelope(request);
}

static bool has_token(const struct fanout_stateless *s, const struct http_request *request)
{
    static const struct str scheme = STR_INIT("Bearer ");
    struct str given = http_message_header(request, STR("Authorization"));

    return given.n > scheme.n && str_equal_nocase((struct str){given.p, scheme.n}, scheme) &&
           str_equal_secret(str_from_offset(given, scheme.n), s->token);
}

/* --- the two forms --- */

static bool is_name(struct jsonr_value name, struct str text)
{
    return !name.has_escapes && str_equal(name.raw, text);
}

/* The members `channel` and `event`, each once and nothing else. */
static bool read_envelope(struct str body, struct str *out_channel, struct str *out_event)
{
    struct jsonr r = jsonr_begin(body);
    bool is_first = true, is_ok = false;

    *out_channel = *out_event = (struct str){0};
    if (!utf8_is_valid(body) || !jsonr_enter(&r, '{'))
        return false;
    while (jsonr_has_next(&r, '}', &is_first, &is_ok)) {
        struct jsonr_value name, value;
        struct str *to;

        if (!jsonr_take_name(&r, &name) || !jsonr_take_value(&r, &value) || value.kind != JSONR_OBJECT)
            return false;
        to = is_name(name, STR("channel")) ? out_channel : is_name(name, STR("event")) ? out_event : NULL;
        if (!to || to->p)
            return false;
        *to = value.raw;
    }
    return is_ok && jsonr_rest(&r).n == 0 && out_channel->p && out_event->p;
}

/* --- what is allowed --- */

static bool is_host_allowed(const struct allowed *entry, const struct http_url *url)
{
    struct str host = url->host;

    if (entry->is_kafka || (entry->port && entry->port != url->port))
        return false;
    if (!entry->is_domain)
        return str_equal_nocase(host, entry->host);
    return host.n > entry->host.n && str_equal_nocase(str_from_offset(host, host.n - entry->host.n), entry->host);
}

static bool is_allowed(const struct fanout_stateless *s, const struct fanout_target *target)
{
    for (size_t i = 0; i < s->n_allowed; i++) {
        const struct allowed *entry = &s->allowed[i];

        if (target->kind == FANOUT_TARGET_KAFKA ? entry->is_kafka && str_equal(entry->host, target->topic)
                                                : is_host_allowed(entry, &target->url))
            return true;
    }
    return target->kind == FANOUT_TARGET_NONE;
}

static const struct fanout_target *find_forbidden(const struct fanout_stateless *s, const struct fanout_channel *channel)
{
    for (size_t i = 0; i < channel->n_subscriptions; i++) {
        const struct fanout_subscription *sub = &channel->subscriptions[i];
        const struct fanout_target *const targets[] = {&sub->subscriber, &sub->reply, &sub->dead_letter};

        for (size_t k = 0; k < ARRAY_LEN(targets); k++)
            if (!is_allowed(s, targets[k]))
                return targets[k];
    }
    return NULL;
}

/* The token is for us, not for subscribers. */
static bool forwards_token(const struct fanout_channel *channel)
{
    static const struct str name = STR_INIT("authorization");

    for (size_t i = 0; i < channel->n_forward_headers; i++)
        if (str_equal(channel->forward_headers[i], name))
            return true;
    for (size_t i = 0; i < channel->n_forward_prefixes; i++)
        if (str_starts_with(name, channel->forward_prefixes[i]))
            return true;
    return false;
}

static uint16_t check_channel(const struct fanout_stateless *s, const struct fanout_channel *channel, struct errinfo *ei)
{
    const struct fanout_target *forbidden = find_forbidden(s, channel);

    if (forbidden) {
        ERR_IGNORE(errinfo_set(ei, E_DENIED, "the target %.*s is not allowed", STR_ARG(forbidden->text)));
        return 403;
    }
    if (forwards_token(channel)) {
        ERR_IGNORE(errinfo_set(ei, E_INVAL, "the header authorization cannot be forwarded here"));
        return 400;
    }
    return 0;
}

static err build(const struct fanout_stateless *s, struct str text, struct fanout_snapshot **out_snapshot, struct errinfo *ei)
{
    struct config_errors *errors = mem_alloc(MEM_CONFIG, sizeof *errors); /* larger than a stack frame should be */
    err e = fanout_config_build_channel(text, channel_header.p, &s->abilities, out_snapshot, errors);

    if (e != E_OK)
        *ei = errors->items[0];
    mem_free(MEM_CONFIG, errors);
    return e;
}

uint16_t fanout_stateless_take(const struct fanout_stateless *s, const struct http_request *request,
                               struct fanout_stateless_request *out_request, struct errinfo *ei)
{
    struct str text = http_message_header(request, channel_header);
    uint16_t status;

    *out_request = (struct fanout_stateless_request){0};
    if (!s) {
        ERR_IGNORE(errinfo_set(ei, E_DENIED, "requests with subscriptions of their own are not taken here"));
        return 403;
    }
    if (!has_token(s, request)) {
        ERR_IGNORE(errinfo_set(ei, E_DENIED, "a token is needed"));
        return 401;
    }
    if (!text.p && !read_envelope(request->body, &text, &out_request->event)) {
        ERR_IGNORE(errinfo_set(ei, E_INVAL, "not an object with a channel and an event"));
        return 400;
    }
    if (text.n > FANOUT_STATELESS_MAX_BYTES) {
        ERR_IGNORE(errinfo_set(ei, E_LIMIT, "the channel is larger than %d bytes", FANOUT_STATELESS_MAX_BYTES));
        return 413;
    }
    if (build(s, text, &out_request->snapshot, ei) != E_OK)
        return 400;
    status = check_channel(s, &out_request->snapshot->channels[0], ei);
    if (status) {
        fanout_snapshot_unref(out_request->snapshot);
        *out_request = (struct fanout_stateless_request){0};
    }
    return status;
}
