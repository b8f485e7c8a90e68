#include "core/rule_record.h"

#include <assert.h>

#include "base/check.h"
#include "core/payload_field.h"

enum {
    OWN_HEADERS = 11, /* at most; see the order in the header */
    NUMBER_BYTES = 20,
    MAX_HOPS_READ = 1000000, /* a larger count is no count */
};

static const struct str reserved = STR_INIT("mqtt.");

struct builder {
    const struct rule *rule;
    const struct rule_message *m;
    struct rule_scratch *scratch;
    struct str values[RULE_TEMPLATE_MAX_VARIABLES];
    uint32_t hops;
    struct str origin; /* empty: the sender is the first */
    size_t n_properties;
    size_t text_used, headers_used;
};

/* --- values --- */

static bool next_property(const struct rule_message *m, struct str *rest, struct str *name, struct str *value)
{
    return m->next_property && m->next_property(rest, name, value);
}

static struct str find_property(const struct rule_message *m, struct str wanted)
{
    struct str rest = m->properties, name, value;

    while (next_property(m, &rest, &name, &value))
        if (str_equal(name, wanted))
            return value;
    return (struct str){0};
}

static struct str take_text(struct builder *b, size_t n)
{
    struct str text = {b->scratch->text + b->text_used, n};

    b->text_used += n;
    ASSERT(b->text_used <= b->scratch->text_bytes);
    return text;
}

static char *writable(struct str text)
{
    return (char *)(uintptr_t)text.p; /* it came from take_text() */
}

static struct str find_field(struct builder *b, struct str pointer)
{
    struct jsonr_value field;
    struct str text;

    if (!payload_field_find(b->m->payload, pointer, &field))
        return (struct str){0};
    if (!field.has_escapes)
        return field.raw;
    text = take_text(b, field.raw.n);
    text.n = jsonr_decode(field.raw, writable(text));
    return text;
}

static struct str qos_text(const struct rule_message *m)
{
    static const char digits[] = "012";

    return (struct str){digits + m->qos, 1};
}

static struct str value_of(struct builder *b, const struct rule_variable *v, const struct str *segments)
{
    const struct rule_message *m = b->m;

    switch (v->kind) {
    case RULE_VARIABLE_CLIENT_ID:
        return m->client_id;
    case RULE_VARIABLE_USER:
        return m->user;
    case RULE_VARIABLE_TENANT:
        return m->tenant;
    case RULE_VARIABLE_DEVICE_ID:
        return m->device_id;
    case RULE_VARIABLE_TOPIC:
        return m->topic;
    case RULE_VARIABLE_QOS:
        return qos_text(m);
    case RULE_VARIABLE_SEGMENT:
        return segments[v->segment];
    case RULE_VARIABLE_USER_PROPERTY:
        return find_property(m, v->name);
    case RULE_VARIABLE_PAYLOAD:
        return find_field(b, v->name);
    case RULE_VARIABLE_KINDS:
        break;
    }
    return (struct str){0};
}

/* --- memory --- */

/* What decoded payload fields may take, before anything is known of them. */
static size_t fields_bytes(const struct builder *b)
{
    size_t n = 0;

    for (size_t i = 0; i < b->rule->variables.n; i++) {
        struct jsonr_value field;

        if (b->rule->variables.items[i].kind == RULE_VARIABLE_PAYLOAD &&
            payload_field_find(b->m->payload, b->rule->variables.items[i].name, &field) && field.has_escapes)
            n += field.raw.n;
    }
    return n;
}

static bool grow_text(struct rule_scratch *scratch, size_t n)
{
    char *grown;

    if (n <= scratch->text_bytes)
        return true;
    grown = mem_try_realloc(MEM_ADAPTER, scratch->text, n);
    if (!grown)
        return false;
    scratch->text = grown;
    scratch->text_bytes = n;
    return true;
}

static bool grow_headers(struct rule_scratch *scratch, size_t n)
{
    struct record_header *grown;

    if (n <= scratch->n_headers)
        return true;
    grown = mem_try_realloc(MEM_ADAPTER, scratch->headers, n * sizeof *grown);
    if (!grown)
        return false;
    scratch->headers = grown;
    scratch->n_headers = n;
    return true;
}

static size_t partition_bytes(const struct builder *b, const struct rule_action *action)
{
    return rule_template_size(&action->partition, b->values);
}

static bool reserve_headers(struct builder *b)
{
    size_t n = b->rule->n_actions * (OWN_HEADERS + b->n_properties);

    for (size_t i = 0; i < b->rule->n_actions; i++)
        n += b->rule->actions[i].n_headers;
    return grow_headers(b->scratch, n);
}

/* All text that the templates will take, and the numbers. Growing moves what was decoded before, so the values are looked up
 * after it: their sizes are known first. */
static size_t templates_bytes(const struct builder *b)
{
    size_t n = 2 * NUMBER_BYTES + b->m->tenant.n + 1 + b->m->client_id.n;

    for (size_t i = 0; i < b->rule->n_actions; i++) {
        const struct rule_action *action = &b->rule->actions[i];

        n += rule_template_size(&action->key, b->values) + partition_bytes(b, action);
        for (size_t k = 0; k < action->n_headers; k++)
            n += rule_template_size(&action->headers[k].value, b->values);
    }
    return n;
}

static void look_up(struct builder *b, const struct str *segments)
{
    b->text_used = 0;
    for (size_t i = 0; i < b->rule->variables.n; i++)
        b->values[i] = value_of(b, &b->rule->variables.items[i], segments);
}

static bool prepare(struct builder *b, const struct str *segments)
{
    size_t fields = fields_bytes(b);

    if (!reserve_headers(b) || !grow_text(b->scratch, fields))
        return false;
    look_up(b, segments);
    fields += templates_bytes(b);
    if (fields <= b->scratch->text_bytes)
        return true;
    if (!grow_text(b->scratch, fields))
        return false;
    look_up(b, segments);
    return true;
}

/* --- headers --- */

static struct str number_text(struct builder *b, uint32_t value)
{
    struct str text = take_text(b, NUMBER_BYTES);
    char digits[NUMBER_BYTES];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    memcpy(writable(text), digits + at, sizeof digits - at);
    return (struct str){text.p, sizeof digits - at};
}

static void add(struct builder *b, struct str name, struct str value)
{
    ASSERT(b->headers_used < b->scratch->n_headers);
    b->scratch->headers[b->headers_used++] = (struct record_header){name, value};
}

static void add_if_given(struct builder *b, struct str name, struct str value)
{
    if (value.n > 0)
        add(b, name, value);
}

static struct str render(struct builder *b, const struct rule_template *t)
{
    struct str text = take_text(b, rule_template_size(t, b->values));

    rule_template_write(t, b->values, writable(text));
    return text;
}

static bool sets(const struct rule_action *action, struct str name)
{
    for (size_t i = 0; i < action->n_headers; i++)
        if (str_equal(action->headers[i].name, name))
            return true;
    return false;
}

/* Written once and shared by all records of the message. */
struct shared_text {
    struct str expiry, hops, origin;
};

static struct shared_text write_shared(struct builder *b)
{
    struct shared_text shared = {.hops = number_text(b, b->hops), .origin = b->origin};

    if (b->m->has_expiry)
        shared.expiry = number_text(b, b->m->expiry_s);
    if (shared.origin.n == 0) {
        struct str text = take_text(b, b->m->tenant.n + 1 + b->m->client_id.n);
        char *to = writable(text);

        memcpy(to, b->m->tenant.p, b->m->tenant.n);
        to[b->m->tenant.n] = '/';
        if (b->m->client_id.n)
            memcpy(to + b->m->tenant.n + 1, b->m->client_id.p, b->m->client_id.n);
        shared.origin = text;
    }
    return shared;
}

static void add_own(struct builder *b, const struct rule_action *action, const struct shared_text *shared)
{
    const struct rule_message *m = b->m;

    if (m->event.n > 0) {
        add(b, STR("mqtt.event"), m->event);
    } else {
        add(b, STR("mqtt.topic"), m->topic);
        add(b, STR("mqtt.qos"), qos_text(m));
        add(b, STR("mqtt.retain"), m->is_retained ? STR("true") : STR("false"));
    }
    add(b, STR("mqtt.client_id"), m->client_id);
    if (!sets(action, STR("content-type")))
        add_if_given(b, STR("content-type"), m->content_type);
    add_if_given(b, STR("mqtt.response_topic"), m->response_topic);
    if (m->has_correlation_data)
        add(b, STR("mqtt.correlation_data"), m->correlation_data);
    add_if_given(b, STR("mqtt.expiry_s"), shared->expiry);
    if (m->event.n == 0) {
        add(b, STR("mqtt.hops"), shared->hops);
        add(b, STR("mqtt.origin"), shared->origin);
    }
}

static void add_properties(struct builder *b, const struct rule_action *action)
{
    struct str rest = b->m->properties, name, value;

    while (next_property(b->m, &rest, &name, &value)) {
        if (str_starts_with(name, reserved) || sets(action, name))
            continue;
        if (b->m->content_type.n > 0 && str_equal(name, STR("content-type")))
            continue;
        add(b, name, value);
    }
}

/* --- records --- */

static bool render_partition(struct builder *b, const struct rule_action *action, struct record *record)
{
    uint64_t number;

    if (action->partition.n_pieces == 0)
        return true;
    if (!str_to_u64(render(b, &action->partition), INT32_MAX, &number))
        return false;
    record->has_partition = true;
    record->partition = (int32_t)number;
    return true;
}

static enum rule_refusal build_one(struct builder *b, const struct rule_action *action, const struct shared_text *shared,
                                   size_t prefix_bytes, struct rule_record *out)
{
    const struct rule_message *m = b->m;
    size_t first = b->headers_used;

    out->action = action;
    out->record = (struct record){.value = m->payload.n > 0 ? m->payload : m->is_retained ? (struct str){0} : STR("")};
    out->topic = (struct rule_name){.max_bytes = RULE_NAME_MAX_BYTES - prefix_bytes};
    rule_template_write_name(&action->topic, b->values, &out->topic);
    if (out->topic.is_too_long)
        return RULE_REFUSED_TOPIC_TOO_LONG;
    if (!render_partition(b, action, &out->record))
        return RULE_REFUSED_PARTITION;
    out->record.key = render(b, &action->key);
    add_own(b, action, shared);
    for (size_t i = 0; i < action->n_headers; i++)
        add(b, action->headers[i].name, render(b, &action->headers[i].value));
    add_properties(b, action);
    out->record.headers = b->scratch->headers + first;
    out->record.n_headers = b->headers_used - first;
    return RULE_REFUSED_NOTHING;
}

/* Counts the user properties and reads those that tell of former hops. */
static void read_properties(struct builder *b)
{
    struct str rest = b->m->properties, name, value;
    uint64_t hops = 0;
    bool has_hops = false;

    while (next_property(b->m, &rest, &name, &value)) {
        b->n_properties++;
        if (!str_starts_with(name, reserved))
            continue;
        if (!has_hops && str_equal(name, STR("mqtt.hops")))
            has_hops = str_to_u64(value, MAX_HOPS_READ, &hops);
        else if (b->origin.n == 0 && str_equal(name, STR("mqtt.origin")))
            b->origin = value;
    }
    b->hops = (uint32_t)hops + 1;
    if (!has_hops)
        b->origin = (struct str){0};
}

enum rule_refusal rule_record_build(const struct rule *rule, const struct rule_message *m, const struct str *segments,
                                    size_t prefix_bytes, struct rule_scratch *scratch)
{
    struct builder b;
    struct shared_text shared;
    enum rule_refusal refusal = RULE_REFUSED_NOTHING;

    /* Not an initialiser: the array of values is written only as far as the rule has variables. */
    b.rule = rule;
    b.m = m;
    b.scratch = scratch;
    b.origin = (struct str){0};
    b.n_properties = b.headers_used = b.text_used = 0;
    read_properties(&b);
    if (b.hops > RULE_RECORD_MAX_HOPS)
        return RULE_REFUSED_HOPS;
    if (!prepare(&b, segments))
        return RULE_REFUSED_NO_MEMORY;
    shared = write_shared(&b);
    for (size_t i = 0; i < rule->n_actions && refusal == RULE_REFUSED_NOTHING; i++)
        refusal = build_one(&b, &rule->actions[i], &shared, prefix_bytes, &scratch->records[i]);
    return refusal;
}

void rule_record_free_scratch(struct rule_scratch *scratch)
{
    mem_free(MEM_ADAPTER, scratch->text);
    mem_free(MEM_ADAPTER, scratch->headers);
    *scratch = (struct rule_scratch){0};
}

const char *rule_record_refusal_name(enum rule_refusal refusal)
{
    static const char *const names[] = {
        [RULE_REFUSED_NOTHING] = "nothing",     [RULE_REFUSED_TOPIC_TOO_LONG] = "topic_too_long",
        [RULE_REFUSED_PARTITION] = "partition", [RULE_REFUSED_HOPS] = "hop_limit",
        [RULE_REFUSED_NO_MEMORY] = "no_memory",
    };

    return names[refusal];
}
