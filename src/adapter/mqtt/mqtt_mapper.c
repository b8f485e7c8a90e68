#include "adapter/mqtt/mqtt_mapper.h"

#include "adapter/mqtt/mqtt_extras.h"
#include "adapter/mqtt/mqtt_publish_in.h"
#include "base/check.h"
#include "base/log.h"
#include "core/message.h"
#include "http/http_client.h"
#include "proto/mqtt/mqtt_property.h"

/* Connections to one mapper and messages that wait for one, of each worker; headers of a response, of which a record takes only so
 * many. */
enum { MAX_CONNECTIONS = 64, MAX_WAITING = 10000, MAX_HEADERS = 32, OK = 200 };

/* One message that is, or was, with its mapper. */
struct mqtt_mapping {
    struct http_call call;
    struct mqtt_worker *mw;
    struct mqtt_conn *conn; /* NULL: a will's */
    bool is_done;
    struct mqtt_mapped mapped; /* views into the next two */
    struct buf sent;           /* the payload that is being sent, then the one that was received */
    struct buf text, headers;
    /* Of a will. */
    struct message *will;
    struct principal principal;
    unsigned origin;
    /* Of a command. */
    void (*on_mapped)(void *context);
    void *context;
};

static struct http_client_metrics metrics;

void mqtt_mapper_register(void)
{
    http_client_metrics_register(&metrics, "mapper");
}

/* ---- answers ---- */

static bool is_any(struct str name, const struct str *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_equal_nocase(name, names[i]))
            return true;
    return false;
}

/* What is about the connection or the response, not about the message; and what only the program itself may say. */
static bool is_header_of_message(struct str name)
{
    static const struct str others[] = {
        STR_INIT("connection"),        STR_INIT("content-length"), STR_INIT("content-type"), STR_INIT("date"),
        STR_INIT("device_id"),         STR_INIT("keep-alive"),     STR_INIT("server"),       STR_INIT("trailer"),
        STR_INIT("transfer-encoding"), STR_INIT("upgrade"),
    };

    return !is_any(name, others, ARRAY_LEN(others)) && !str_starts_with(name, STR("mqtt."));
}

static err take_headers(struct mqtt_mapping *m, const struct http1_response_head *head)
{
    size_t n = 0;
    err e = E_OK;

    for (size_t i = 0; i < head->n_headers && e == E_OK; i++) {
        const struct http_header *h = &head->headers[i];

        if (!is_header_of_message(h->name))
            continue;
        e = ++n > MAX_HEADERS ? E_LIMIT : mqtt_property_append_user(&m->headers, MEM_ADAPTER, h->name, h->value);
    }
    return e;
}

static err take_body(struct mqtt_mapping *m, struct str body)
{
    buf_free(&m->sent, MEM_ADAPTER);
    return buf_append(&m->sent, MEM_ADAPTER, body);
}

/* Copies what the response has; it is gone when the call's owner returns. */
static err take(struct mqtt_mapping *m, const struct http1_response_head *head, struct str body)
{
    struct str type = http1_response_header(head, STR("content-type"));
    struct str device = http1_response_header(head, STR("device_id"));
    err e = take_body(m, body);

    if (e == E_OK)
        e = take_headers(m, head);
    if (e == E_OK)
        e = buf_append(&m->text, MEM_ADAPTER, type);
    if (e == E_OK)
        e = buf_append(&m->text, MEM_ADAPTER, device);
    if (e != E_OK)
        return e;
    m->mapped = (struct mqtt_mapped){
        .is_good = true,
        .payload = buf_str(&m->sent),
        .content_type = {buf_str(&m->text).p, type.n},
        .device = str_from_offset(buf_str(&m->text), type.n),
        .headers = buf_str(&m->headers),
    };
    return E_OK;
}

static void mapping_free(struct mqtt_mapping *m)
{
    if (!m)
        return;
    http_client_cancel(&m->call);
    buf_free(&m->sent, MEM_ADAPTER);
    buf_free(&m->text, MEM_ADAPTER);
    buf_free(&m->headers, MEM_ADAPTER);
    message_unref(m->will);
    principal_release(&m->principal);
    mem_free(MEM_ADAPTER, m);
}

static void finish_will(struct mqtt_mapping *m)
{
    struct mqtt_worker *mw = m->mw;
    struct mqtt_mapping *before = mw->mapped_will;

    mw->mapped_will = m;
    mqtt_publish_in_route_will(mw, &m->principal, m->origin, m->will);
    mw->mapped_will = before;
    mapping_free(m);
}

static void on_done(struct http_call *call)
{
    struct mqtt_mapping *m = CONTAINER_OF(call, struct mqtt_mapping, call);
    err e = call->result;

    m->is_done = true;
    if (e == E_OK && call->response->status != OK)
        e = E_INVAL;
    if (e == E_OK)
        e = take(m, call->response, call->body);
    if (e != E_OK)
        LOG_INFO(LOG_MQTT, "mapper.failed", F_TEXT("why", err_name(e)),
                 F_INT("status", call->result == E_OK ? call->response->status : 0));
    if (m->on_mapped)
        m->on_mapped(m->context);
    else if (m->conn)
        mqtt_conn_resume(m->conn);
    else
        finish_will(m);
}

/* ---- requests ---- */

void mqtt_mapper_use_tls(struct mqtt_worker *mw)
{
    if (mw->mapper)
        http_client_use_tls(mw->mapper, mw->generation->tls.client);
}

static struct http_client *client_of(struct mqtt_worker *mw)
{
    struct mqtt_adapter *a = mw->adapter;

    if (mw->mapper)
        return mw->mapper;
    mw->mapper = mem_alloc(MEM_ADAPTER, sizeof *mw->mapper);
    mw->mapper_options = mem_alloc(MEM_ADAPTER, sizeof *mw->mapper_options);
    *mw->mapper_options = (struct http_client_options){
        .max_connections = MAX_CONNECTIONS, .max_waiting = MAX_WAITING, .metrics = &metrics, .resolver = &a->resolver};
    http_client_init(mw->mapper, &mw->worker->loop, mw->mapper_options);
    mqtt_mapper_use_tls(mw);
    return mw->mapper;
}

static const struct config_mapper *find(const struct config *config, struct str name)
{
    for (size_t i = 0; i < config->mapper_count; i++)
        if (str_equal(config->mappers[i].id, name))
            return &config->mappers[i];
    return NULL;
}

static size_t list_headers(const struct mqtt_mapper_request *r, struct http_header *to)
{
    static const struct str qos[] = {STR_INIT("0"), STR_INIT("1"), STR_INIT("2")};
    const struct http_header all[] = {
        {STR("orig_address"), r->address}, {STR("tenant_id"), r->tenant},      {STR("device_id"), r->device},
        {STR("gateway_id"), r->gateway},   {STR("client_id"), r->client_id},   {STR("qos"), qos[r->qos]},
        {STR("subject"), r->subject},      {STR("message-id"), r->message_id},
    };
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].value.n)
            to[n++] = all[i];
    return n;
}

static err send_request(struct mqtt_mapping *m, const struct mqtt_mapper_request *r)
{
    const struct config_mapper *mapper = find(mqtt_config(m->mw), r->mapper);
    struct http_header headers[8];
    struct http_url url;
    struct http_client_request request = {
        .url = &url,
        .method = HTTP_METHOD_POST,
        .content_type = r->content_type,
        .headers = headers,
        .n_headers = list_headers(r, headers),
    };
    err e;

    if (!mapper || http_url_parse(mapper->url, &url, NULL) != E_OK)
        return E_NOTFOUND; /* the configuration's checks have seen to it */
    e = buf_append(&m->sent, MEM_ADAPTER, r->payload);
    if (e != E_OK)
        return e;
    request.body = buf_str(&m->sent);
    request.timeout_ms = (uint32_t)mapper->timeout_ms;
    request.max_response_bytes = mapper->max_response_bytes;
    m->call.on_done = on_done;
    return http_client_send(client_of(m->mw), &m->call, &request);
}

/* A request that cannot be made has failed at once. */
static struct mqtt_mapping *mapping_new(struct mqtt_worker *mw, const struct mqtt_mapper_request *request)
{
    struct mqtt_mapping *m = mem_alloc_zero(MEM_ADAPTER, sizeof *m);
    err e;

    m->mw = mw;
    e = send_request(m, request);
    m->is_done = e != E_OK;
    if (m->is_done)
        LOG_INFO(LOG_MQTT, "mapper.failed", F_TEXT("why", err_name(e)));
    return m;
}

enum handle mqtt_mapper_ask(struct mqtt_conn *c, const struct mqtt_mapper_request *request,
                            const struct mqtt_mapped **out_mapped)
{
    struct mqtt_extras *extras = mqtt_extras_make(c);

    if (!extras->mapping) {
        extras->mapping = mapping_new(c->mw, request);
        extras->mapping->conn = c;
    }
    if (extras->mapping->is_done) {
        *out_mapped = &extras->mapping->mapped;
        return HANDLE_DONE;
    }
    stream_pause(&c->stream);
    return HANDLE_WAIT;
}

void mqtt_mapper_forget(struct mqtt_conn *c)
{
    if (c->state == MQTT_WAIT_CONNECT || !c->extras || !c->extras->mapping)
        return;
    mapping_free(c->extras->mapping);
    c->extras->mapping = NULL;
}

enum handle mqtt_mapper_ask_for_will(struct mqtt_worker *mw, const struct principal *principal, struct message *will,
                                     const struct mqtt_mapper_request *request, const struct mqtt_mapped **out_mapped)
{
    static const struct mqtt_mapped failed;
    struct mqtt_mapping *m;

    if (mw->mapped_will && mw->mapped_will->will == will) {
        *out_mapped = &mw->mapped_will->mapped;
        return HANDLE_DONE;
    }
    m = mapping_new(mw, request);
    if (m->is_done) {
        mapping_free(m);
        *out_mapped = &failed;
        return HANDLE_DONE;
    }
    m->will = message_ref(will);
    m->principal = principal_copy(principal);
    m->origin = mw->will_origin;
    return HANDLE_WAIT;
}

struct mqtt_mapping *mqtt_mapper_begin(struct mqtt_worker *mw, const struct mqtt_mapper_request *request,
                                       void (*on_mapped)(void *context), void *context)
{
    struct mqtt_mapping *m = mapping_new(mw, request);

    m->on_mapped = on_mapped;
    m->context = context;
    return m;
}

const struct mqtt_mapped *mqtt_mapper_result(const struct mqtt_mapping *mapping)
{
    return mapping->is_done ? &mapping->mapped : NULL;
}

void mqtt_mapper_end(struct mqtt_mapping *mapping)
{
    mapping_free(mapping);
}

void mqtt_mapper_close(struct mqtt_worker *mw)
{
    if (mw->mapper)
        http_client_close(mw->mapper);
}

void mqtt_mapper_fini(struct mqtt_worker *mw)
{
    if (!mw->mapper)
        return;
    http_client_fini(mw->mapper);
    mem_free(MEM_ADAPTER, mw->mapper);
    mem_free(MEM_ADAPTER, mw->mapper_options);
}
