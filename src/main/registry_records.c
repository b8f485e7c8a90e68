#include "main/registry_records.h"

#include <stdio.h>
#include <stdlib.h>

#include "admin/manage.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "loop/loop.h"
#include "obs/metrics.h"
#include "registry/document.h"

/* A record on its way. */
struct outgoing {
    struct delivery delivery;
    struct list link; /* of those that wait for room */
    struct registry_records *records;
    struct sink_topic *topic;
    struct str key;
    struct str value;
    struct str tenant, gateway; /* of a provisioning event; the tenant empty: it is none */
    char time[24];              /* of it, in ms since 1970 */
    char text[];
};

static struct metric counts[] = {
    {.name = "millrace_registry_records_total",
     .labels = "outcome=\"stored\"",
     .help = "Records that tell of changes to the registry",
     .kind = METRIC_COUNTER},
    {.name = "millrace_registry_records_total", .labels = "outcome=\"failed\"", .kind = METRIC_COUNTER},
    {.name = "millrace_registry_records_total", .labels = "outcome=\"dropped\"", .kind = METRIC_COUNTER},
};
enum { STORED, FAILED, DROPPED };
enum { PROVISIONING_HEADERS = 9 };

static const struct str tenant_topic = STR_INIT("hono.notification.registry-tenant");
static const struct str device_topic = STR_INIT("hono.notification.registry-device");

static void on_delivered(struct mail *m)
{
    struct outgoing *o = CONTAINER_OF(m, struct outgoing, delivery.mail);
    bool is_stored = o->delivery.outcome == OUTCOME_STORED;

    metric_add(&counts[is_stored ? STORED : FAILED], 1);
    if (!is_stored)
        LOG_WARN(LOG_REGISTRY, "record.failed", F_TEXT("why", sink_outcome_name(o->delivery.outcome)));
    mem_free(MEM_REGISTRY, o);
}

/* Those of docs/wire/device-data.md. */
static size_t provisioning_headers(const struct outgoing *o, struct record_header to[PROVISIONING_HEADERS])
{
    const struct record_header headers[PROVISIONING_HEADERS] = {
        {STR("device_id"), o->key},
        {STR("tenant_id"), o->tenant},
        {STR("content-type"), STR("application/vnd.eclipse-hono-device-provisioning-notification")},
        {STR("hono_registration_status"), STR("NEW")},
        {STR("creation-time"), str_from(o->time)},
        {STR("qos"), STR("1")},
        {STR("orig_adapter"), STR("hono-device-registry")},
        {STR("orig_address"), STR("event")},
        {STR("gateway_id"), o->gateway},
    };

    memcpy(to, headers, sizeof headers);
    return o->gateway.n ? PROVISIONING_HEADERS : PROVISIONING_HEADERS - 1;
}

/* E_AGAIN: it has to wait. */
static err submit(struct outgoing *o)
{
    struct record record = {.topic = o->topic, .key = o->key, .value = o->value};
    struct record_header headers[PROVISIONING_HEADERS];
    err e;

    if (o->tenant.n) {
        record.headers = headers;
        record.n_headers = provisioning_headers(o, headers);
    }
    e = sink_submit(o->records->sink, &record, &o->delivery);
    if (e == E_INVAL)
        on_delivered(&o->delivery.mail);
    return e == E_AGAIN ? e : E_OK;
}

static void on_room(struct mail *m)
{
    struct registry_records *r = CONTAINER_OF(m, struct registry_records, waiter.mail);
    struct list *link;

    while ((link = list_pop(&r->waiting))) {
        struct outgoing *o = CONTAINER_OF(link, struct outgoing, link);

        if (submit(o) == E_AGAIN) {
            link->next = r->waiting.next ? r->waiting.next : &r->waiting; /* back to the front */
            link->prev = &r->waiting;
            link->next->prev = link;
            r->waiting.next = link;
            sink_wait(r->sink, &r->waiter);
            return;
        }
        r->n_waiting--;
    }
}

/* With room for its texts. NULL: there is none for more. */
static struct outgoing *new_outgoing(struct registry_records *r, struct sink_topic *topic, size_t text_bytes)
{
    struct outgoing *o;

    if (r->n_waiting >= REGISTRY_RECORDS_MAX_WAITING) {
        metric_add(&counts[DROPPED], 1);
        LOG_WARN(LOG_REGISTRY, "record.dropped", F_INT("waiting", r->n_waiting));
        return NULL;
    }
    o = mem_alloc_zero(MEM_REGISTRY, sizeof *o + text_bytes);
    o->delivery = (struct delivery){.mail = {.on_mail = on_delivered}, .home = r->home};
    o->records = r;
    o->topic = topic;
    return o;
}

/* Behind those that wait. */
static void submit_or_wait(struct outgoing *o)
{
    struct registry_records *r = o->records;

    if (list_is_empty(&r->waiting) && submit(o) == E_OK)
        return;
    list_push(&r->waiting, &o->link);
    r->n_waiting++;
    sink_wait(r->sink, &r->waiter);
}

static void send(struct registry_records *r, struct sink_topic *topic, struct str key, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    size_t n = strlen(text ? text : "");
    struct outgoing *o = new_outgoing(r, topic, key.n + n);

    json_decref(value);
    ASSERT(text);
    if (!o) {
        free(text);
        return;
    }
    memcpy(o->text, key.p, key.n);
    memcpy(o->text + key.n, text, n);
    o->key = (struct str){o->text, key.n};
    o->value = (struct str){o->text + key.n, n};
    free(text);
    submit_or_wait(o);
}

/* --- what is told --- */

static const struct {
    const char *change; /* as audit calls it, and notifications */
    bool is_tenant, has_change, is_all;
} kinds[REGISTRY_OPS] = {
    [REGISTRY_TENANT_CREATE] = {"CREATE", true, true, false},   [REGISTRY_TENANT_UPDATE] = {"UPDATE", true, true, false},
    [REGISTRY_TENANT_DELETE] = {"DELETE", true, true, false},   [REGISTRY_DEVICE_CREATE] = {"CREATE", false, true, false},
    [REGISTRY_DEVICE_UPDATE] = {"UPDATE", false, true, false},  [REGISTRY_DEVICE_DELETE] = {"DELETE", false, true, false},
    [REGISTRY_DEVICES_DELETE] = {"DELETE", false, false, true}, [REGISTRY_CREDENTIALS_UPDATE] = {"UPDATE", false, false, false},
};

static const char *type_of(enum registry_op op)
{
    if (kinds[op].is_tenant)
        return "tenant-change-v1";
    if (kinds[op].is_all)
        return "all-devices-of-tenant-deleted-v1";
    return kinds[op].has_change ? "device-change-v1" : "credentials-change-v1";
}

static void notify(struct registry_records *r, const struct manage_change *change)
{
    json_t *value = json_object();
    bool is_tenant = kinds[change->op].is_tenant;

    document_set_text(value, "type", str_from(type_of(change->op)));
    document_set_text(value, "source", STR("device-registry"));
    document_set_text(value, "creation-time", change->at);
    document_set_text(value, "tenant-id", change->tenant);
    if (kinds[change->op].has_change) {
        document_set_text(value, "change", str_from(kinds[change->op].change));
        document_set(value, "enabled", json_boolean(change->document && document_get_bool(change->document, "enabled", true)));
    }
    if (is_tenant)
        document_set(
            value, "invalidate-cache-on-update",
            json_boolean(document_get_bool(json_object_get(change->document, "ext"), "invalidate-cache-on-update", false)));
    if (!is_tenant && !kinds[change->op].is_all)
        document_set_text(value, "device-id", change->device);
    send(r, is_tenant ? r->tenants : r->devices, change->device.n ? change->device : change->tenant, value);
}

/* Who, what, when; what it has become of a tenant or device, which has no secrets. */
static void tell_audit(struct registry_records *r, const struct manage_change *change)
{
    json_t *value = json_object();

    document_set_text(value, "at", change->at);
    document_set_text(value, "user", change->user);
    document_set_text(value, "operation", str_from(registry_request_op_name(change->op)));
    document_set_text(value, "tenant", change->tenant);
    if (change->device.n)
        document_set_text(value, "device", change->device);
    document_set_text(value, "version", change->version);
    if (change->document)
        document_set(value, "document", json_deep_copy(change->document));
    send(r, r->audit, change->tenant, value);
}

void registry_records_tell(struct registry_records *r, const struct manage_change *change)
{
    notify(r, change);
    if (r->audit)
        tell_audit(r, change);
}

static struct str append(struct outgoing *o, size_t *at, struct str text)
{
    struct str here = {o->text + *at, text.n};

    if (text.n)
        memcpy(o->text + *at, text.p, text.n);
    *at += text.n;
    return here;
}

void registry_records_tell_provisioned(struct registry_records *r, struct str tenant, struct str device, struct str gateway)
{
    char name[256];
    int n = snprintf(name, sizeof name, "hono.event.%.*s", STR_ARG(tenant));
    struct sink_topic *topic = n > 0 && (size_t)n < sizeof name ? sink_find_topic(r->sink, str_from(name)) : NULL;
    struct outgoing *o = topic ? new_outgoing(r, topic, device.n + tenant.n + gateway.n) : NULL;
    size_t at = 0;

    if (!o)
        return; /* a tenant with such an id has no topics at all, or it was counted */
    o->key = append(o, &at, device);
    o->tenant = append(o, &at, tenant);
    o->gateway = append(o, &at, gateway);
    snprintf(o->time, sizeof o->time, "%llu", (unsigned long long)loop_wall_ms());
    submit_or_wait(o);
}

static void on_created(struct mail *m)
{
    struct sink_creation *creation = CONTAINER_OF(m, struct sink_creation, mail);

    if (creation->result != E_OK && creation->result != E_CLOSED)
        LOG_WARN(LOG_REGISTRY, "topic.missing", F_STR("topic", creation->name), F_TEXT("why", err_name(creation->result)));
}

static struct sink_topic *find_topic(struct registry_records *r, struct str name)
{
    struct sink_creation *creation = &r->creations[r->n_creations++];

    *creation = (struct sink_creation){.mail = {.on_mail = on_created}, .home = r->home, .name = name};
    sink_create_topic(r->sink, creation);
    return sink_find_topic(r->sink, name);
}

void registry_records_init(struct registry_records *r, struct sink *sink, struct mailbox *home, struct str audit_topic)
{
    *r = (struct registry_records){.sink = sink, .home = home, .waiter = {.mail = {.on_mail = on_room}, .home = home}};
    list_init(&r->waiting);
    metrics_register(counts, ARRAY_LEN(counts));
    r->tenants = find_topic(r, tenant_topic);
    r->devices = find_topic(r, device_topic);
    if (audit_topic.n)
        r->audit = find_topic(r, audit_topic);
}

void registry_records_fini(struct registry_records *r)
{
    struct list *link;

    if (!r->sink)
        return;
    while ((link = list_pop(&r->waiting)))
        mem_free(MEM_REGISTRY, CONTAINER_OF(link, struct outgoing, link));
    *r = (struct registry_records){0};
}
