#include "adapter/http/http_upload.h"

#include <assert.h>

#include "adapter/device_upload.h"
#include "adapter/http/http_answer.h"
#include "adapter/http/http_batch.h"
#include "adapter/http/http_command.h"
#include "adapter/http/http_login.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "registry/registry_wait.h"

/* One message. */
struct item {
    struct delivery delivery;
    struct upload *upload;
    struct str text;
    const char *why; /* it was refused, in words: a constant, or in the upload's `texts` */
    uint16_t status; /* 0: not decided yet */
    bool is_counted; /* the ledger knows its end */
    bool is_in_flight;
};

struct upload {
    struct http_edge *edge;
    struct http_exchange *x; /* NULL: answered */
    struct principal principal;
    struct timer limit;
    struct list link; /* in edge->waiting */
    struct http_intake intake;
    size_t n, next; /* items, and the first that was not submitted yet */
    size_t n_undecided, n_in_flight;
    struct arena texts;
    struct http_command_wait wait;
    bool waits; /* for a command */
    struct item items[];
};

static const struct config_http *http_config(const struct http_edge *edge)
{
    return &http_edge_config(edge)->http;
}

static enum ledger_route route_of(const struct upload *u)
{
    return device_upload_route(u->intake.endpoint);
}

/* --- the end of a message --- */

static void decide(struct item *item, uint16_t status, const char *why)
{
    if (item->status == 0)
        item->upload->n_undecided--;
    item->status = status;
    item->why = why;
}

static void count_end(struct item *item, bool is_stored, enum ledger_refusal why, unsigned qos)
{
    enum ledger_route route = route_of(item->upload);

    item->is_counted = true;
    ledger_count_waiting(route, -1);
    if (is_stored)
        ledger_count_acknowledged(route);
    else
        ledger_count_refused(route, why, qos);
}

/* The sender is told, so it is never a mere drop. */
static void refuse_item(struct item *item, enum ledger_refusal why, const char *text)
{
    count_end(item, false, why, 1);
    decide(item, http_answer_status(why), text ? text : http_answer_text(why));
    LOG_DEBUG(LOG_HTTP, "upload.refused", F_TEXT("reason", ledger_refusal_name(why)), F_INT("status", item->status));
}

/* --- the answer --- */

/* [{"status":202},{"status":403,"error":"..."}] */
static err write_results(const struct upload *u, struct buf *to, bool *out_is_good, bool *out_is_retriable)
{
    *out_is_good = true;
    *out_is_retriable = false;
    for (size_t i = 0; i < u->n; i++) {
        const struct item *item = &u->items[i];
        err e = buf_printf(to, MEM_ADAPTER, "%s{\"status\":%u", i ? "," : "[", item->status);

        if (e == E_OK && item->why)
            e = buf_append(to, MEM_ADAPTER, STR(",\"error\":"));
        if (e == E_OK && item->why)
            e = jsonw_string(to, MEM_ADAPTER, str_from(item->why));
        if (e == E_OK)
            e = buf_append(to, MEM_ADAPTER, STR("}"));
        if (e != E_OK)
            return e;
        *out_is_good &= item->status == 202;
        *out_is_retriable |= item->status == 503;
    }
    return buf_append(to, MEM_ADAPTER, STR("]\n"));
}

static void answer_batch(const struct upload *u)
{
    const struct config_http *config = http_config(u->edge);
    struct buf text = {0};
    bool is_good, is_retriable;

    if (write_results(u, &text, &is_good, &is_retriable) == E_OK)
        http_answer_json(u->x, config, is_good ? 202 : 207, buf_str(&text), is_retriable);
    else
        http_answer_refuse(u->x, config, 503, "no memory for the answer");
    buf_free(&text, MEM_ADAPTER);
}

/* A client that has gone leaves the command to whoever has come in its place. */
static void answer_command(struct upload *u, struct command *command)
{
    bool is_gone = http_exchange_is_cancelled(u->x);

    http_answer_command(u->x, http_config(u->edge), command);
    command_done(command, is_gone ? COMMAND_RETURNED : COMMAND_ATTEMPTED, 0, NULL);
}

static void answer(struct upload *u)
{
    const struct item *item = &u->items[0];
    struct command *command = u->waits ? http_command_end(&u->wait) : NULL;

    wheel_stop(&u->limit);
    principal_release(&u->principal);
    u->x->on_cancel = NULL;
    if (command)
        answer_command(u, command);
    else if (u->intake.form != HTTP_INTAKE_SINGLE)
        answer_batch(u);
    else if (item->status == 202)
        http_answer_accept(u->x, http_config(u->edge));
    else
        http_answer_refuse(u->x, http_config(u->edge), item->status, item->why);
    u->x = NULL;
}

/* Whether the message is stored and its sender waits on, for a command. */
static bool is_listening(struct upload *u)
{
    if (!u->waits || u->items[0].status != 202 || http_exchange_is_cancelled(u->x))
        return false;
    wheel_stop(&u->limit);
    return http_command_listen(&u->wait, u->intake.ttd_s);
}

/* Answers when all is decided, and frees when all has come back. */
static void settle(struct upload *u)
{
    if (u->x && u->n_undecided == 0 && !is_listening(u))
        answer(u);
    if (u->x || u->n_in_flight)
        return;
    arena_free(&u->texts, MEM_ADAPTER);
    mem_free(MEM_ADAPTER, u);
}

static void on_delivery(struct mail *m)
{
    struct item *item = CONTAINER_OF(m, struct item, delivery.mail);
    struct upload *u = item->upload;
    bool is_stored = item->delivery.outcome == OUTCOME_STORED;
    enum ledger_refusal why = is_stored ? LEDGER_REFUSED_FAILED : device_upload_refusal(item->delivery.outcome);

    u->n_in_flight--;
    item->is_in_flight = false;
    if (item->is_counted) {
        http_edge_count(HTTP_EDGE_LATE, is_stored);
    } else {
        count_end(item, is_stored, why, u->intake.qos);
        if (item->status == 0)
            decide(item, is_stored ? 202 : http_answer_status(why), is_stored ? NULL : http_answer_text(why));
    }
    settle(u);
}

static void on_wait_done(struct http_command_wait *wait)
{
    settle(CONTAINER_OF(wait, struct upload, wait));
}

static void on_cancel(struct http_exchange *x)
{
    struct upload *u = x->user;

    if (u->n_undecided == 0)
        settle(u);
}

static void give_up(struct upload *u)
{
    list_remove(&u->link);
    for (size_t i = 0; i < u->n; i++) {
        if (u->items[i].status)
            continue;
        http_edge_count(HTTP_EDGE_TIMEOUTS, 1);
        refuse_item(&u->items[i], u->items[i].is_in_flight ? LEDGER_REFUSED_UNAVAILABLE : LEDGER_REFUSED_OVERLOADED, NULL);
    }
    settle(u);
}

static void on_limit(struct timer *t)
{
    give_up(CONTAINER_OF(t, struct upload, limit));
}

void http_upload_give_up(struct list *link)
{
    give_up(CONTAINER_OF(link, struct upload, link));
}

/* --- a message to the sink --- */

/* A record of either kind. */
union made {
    struct device_record data;
    struct command_answer response;
};

/* The record of an item. False: it was refused. */
static bool prepare(struct item *item, union made *made, struct record **out_record)
{
    struct upload *u = item->upload;
    const struct http_intake *in = &u->intake;
    struct generation *generation = u->edge->generation;
    char device[HTTP_BATCH_DEVICE_BYTES];
    struct device_upload upload = {
        .config = generation->config,
        .registry = generation->registry,
        .commands = u->edge->adapter->settings.commands,
        .principal = &u->principal,
        .adapter = CONFIG_ADAPTER_HTTP,
        .endpoint = in->endpoint,
        .tenant = in->tenant,
        .device = in->device,
        .address = in->address,
        .payload = item->text,
        .content_type = in->content_type,
        .trace = in->trace,
        .bag = &in->bag,
        .ttd_s = u->waits && !u->wait.is_done ? in->ttd_s : 0,
        .qos = in->qos,
        .admits_strangers = true,
    };
    const char *fault = NULL;
    enum ledger_refusal why;
    struct errinfo ei;
    bool is_good;

    if (http_batch_check(in->form, item->text, &ei) != E_OK)
        fault = arena_copy(&u->texts, MEM_ADAPTER, str_from(ei.text)).p;
    else if (in->form != HTTP_INTAKE_SINGLE && !http_batch_device(item->text, in->pointer, device, &upload.device))
        fault = "what device-pointer leads to is no device id";
    if (fault) {
        refuse_item(item, LEDGER_REFUSED_PAYLOAD_FORMAT, fault);
        return false;
    }
    if (in->endpoint == DEVICE_ENDPOINT_COMMAND) {
        is_good = device_upload_prepare_response(&upload, DEVICE_FAULT_NONE, in->request_id, in->status, &made->response, &why);
        *out_record = &made->response.record;
    } else {
        is_good = device_upload_prepare(&upload, DEVICE_FAULT_NONE, &made->data, &why);
        *out_record = &made->data.record;
    }
    if (is_good)
        (*out_record)->topic = tenant_topics_find(&u->edge->tenant_topics, u->principal.tenant->id, in->endpoint);
    else
        refuse_item(item, why, upload.text);
    return is_good;
}

/* False: no room. Nothing has happened then, and the message can wait. */
static bool submit(struct item *item)
{
    struct upload *u = item->upload;
    struct record *record;
    union made made;
    err e;

    if (!prepare(item, &made, &record))
        return true;
    item->delivery = (struct delivery){.mail = {.on_mail = on_delivery}, .home = &u->edge->worker->loop.mailbox};
    e = sink_submit(u->edge->adapter->settings.sink, record, &item->delivery);
    if (e == E_OK) {
        device_upload_count(&u->principal, record);
        item->is_in_flight = true;
        u->n_in_flight++;
        if (u->intake.qos == 0)
            decide(item, 202, NULL);
    } else if (e != E_AGAIN) {
        refuse_item(item, device_upload_refusal(item->delivery.outcome), NULL);
    } else if (u->intake.qos == 0) {
        refuse_item(item, LEDGER_REFUSED_OVERLOADED, NULL);
    } else {
        return false;
    }
    return true;
}

/* Submits what is left. False: not all found room. */
static bool advance(struct upload *u)
{
    while (u->next < u->n && submit(&u->items[u->next]))
        u->next++;
    return u->next == u->n;
}

bool http_upload_resume(struct list *link)
{
    struct upload *u = CONTAINER_OF(link, struct upload, link);

    if (!advance(u))
        return false;
    list_remove(&u->link);
    settle(u);
    return true;
}

/* --- the request --- */

static uint64_t limit_ms(const struct config *config)
{
    uint64_t limit = config->http.request_timeout_ms, kafka = config->hono_delivery_timeout_ms;

    return kafka && kafka < limit ? kafka : limit;
}

/* Whoever waits for room is served first. */
static void begin(struct upload *u)
{
    struct http_edge *edge = u->edge;
    bool is_queued = u->intake.qos && !list_is_empty(&edge->waiting);

    for (size_t i = 0; i < u->n; i++) {
        ledger_count_in(route_of(u));
        ledger_count_waiting(route_of(u), 1);
    }
    if (is_queued || !advance(u)) {
        http_edge_count(HTTP_EDGE_WAITS, 1);
        list_push(&edge->waiting, &u->link);
        sink_wait(edge->adapter->settings.sink, &edge->room);
    }
    if (u->n_undecided)
        wheel_start(&edge->worker->loop.wheel, &u->limit, limit_ms(http_edge_config(edge)));
    settle(u);
}

static void on_wait_ready(struct http_command_wait *wait)
{
    begin(CONTAINER_OF(wait, struct upload, wait));
}

/* One that waits for a command can be found by it before its own message can be read. */
static void begin_waiting(struct upload *u)
{
    u->waits = true;
    u->wait = (struct http_command_wait){.on_ready = on_wait_ready, .on_done = on_wait_done};
    u->x->user = u;
    u->x->on_cancel = on_cancel;
    http_command_begin(&u->wait, u->edge, &u->intake, &u->principal);
}

/* How many items a body has; 0: `*out_status` and `*out_text` say why it is not taken. */
static size_t count_items(const struct http_intake *in, struct str body, uint16_t *out_status, const char **out_text)
{
    struct http_batch batch;
    struct str item;
    size_t n = 0;
    err e = http_batch_begin(&batch, in->form, body);

    while (e == E_OK && (e = http_batch_next(&batch, &item)) == E_OK)
        n++;
    *out_status = e == E_LIMIT ? 413 : 400;
    if (e == E_LIMIT)
        *out_text = "a batch has at most 1000 messages";
    else if (e == E_INVAL)
        *out_text = "the body is no JSON array";
    else
        *out_text = "the batch is empty";
    return e == E_CLOSED ? n : 0;
}

/* A request that is refused as a whole is one message in the ledger. */
static void refuse_request(struct http_edge *edge, struct http_exchange *x, enum device_endpoint endpoint, uint16_t status,
                           const char *text)
{
    static const struct {
        uint16_t status;
        enum ledger_refusal why;
    } rows[] = {{400, LEDGER_REFUSED_BAD_REQUEST},
                {404, LEDGER_REFUSED_NOT_FOUND},
                {413, LEDGER_REFUSED_TOO_LARGE},
                {503, LEDGER_REFUSED_NO_MEMORY}};
    enum ledger_refusal why = LEDGER_REFUSED_FAILED;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].status == status)
            why = rows[i].why;
    ledger_count_in(device_upload_route(endpoint));
    ledger_count_refused(device_upload_route(endpoint), why, 1);
    http_answer_refuse(x, http_config(edge), status, text);
}

static struct upload *upload_new(struct http_edge *edge, struct http_exchange *x, size_t n)
{
    struct upload *u = mem_try_alloc(MEM_ADAPTER, sizeof *u + n * sizeof *u->items);

    if (!u)
        return NULL;
    *u = (struct upload){.edge = edge, .x = x, .limit = {.on_timer = on_limit}, .n = n, .n_undecided = n};
    memset(u->items, 0, n * sizeof *u->items);
    for (size_t i = 0; i < n; i++)
        u->items[i].upload = u;
    return u;
}

/* Reads the request once more, in its place: the intake points into itself. */
static void fill(struct upload *u, const struct principal *who)
{
    struct http_batch batch;
    const char *text;
    uint16_t status = http_intake_read(&u->x->request, &u->intake, &text);

    ASSERT(status == 0); /* as before */
    u->principal = *who;
    ASSERT(http_batch_begin(&batch, u->intake.form, u->x->request.body) == E_OK);
    for (size_t i = 0; i < u->n; i++)
        ASSERT(http_batch_next(&batch, &u->items[i].text) == E_OK);
}

/* 0, or why a sender like this may not send such a request. */
static uint16_t check_sender(const struct principal *who, const struct http_intake *in, const char **out_text)
{
    *out_text = "credentials are missing or wrong";
    if (!who->device && in->device.n == 0)
        return 401;
    *out_text = "expected /<endpoint>/<tenant>/<device>";
    return !who->device && in->tenant.n == 0 ? 404 : 0;
}

/* Begins an upload, which has the principal then; or says what to answer. */
static uint16_t take(struct http_edge *edge, struct http_exchange *x, const struct principal *who, const char **out_text)
{
    struct http_intake in;
    struct upload *u;
    uint16_t status = http_intake_read(&x->request, &in, out_text);
    size_t n;

    if (status == 0)
        status = check_sender(who, &in, out_text);
    if (status)
        return status;
    n = count_items(&in, x->request.body, &status, out_text);
    if (n == 0)
        return status;
    u = upload_new(edge, x, n);
    *out_text = http_answer_text(LEDGER_REFUSED_NO_MEMORY);
    if (!u)
        return 503;
    fill(u, who);
    if (in.ttd_s && edge->adapter->settings.commands)
        begin_waiting(u);
    else
        begin(u);
    return 0;
}

/* A request whose sender is being found out. */
struct login {
    struct registry_wait wait;
    struct http_edge_listener *listener;
    struct http_exchange *x;
};

/* Whether the request is about a device that its gateway has registered by it, which takes its time. */
static bool is_provisioning(struct login *login, const struct principal *who)
{
    struct http_intake in;
    const char *text;

    if (!who->device || !who->device->may_provision || http_intake_read(&login->x->request, &in, &text) != 0 ||
        in.device.n == 0 || (in.tenant.n && !str_equal(in.tenant, who->tenant->id)))
        return false;
    return registry_provision(login->listener->edge->generation->registry, who->tenant->id, in.device, who->device->id,
                              &login->wait);
}

/* Takes `login`. */
static void serve(struct login *login)
{
    struct http_edge *edge = login->listener->edge;
    struct http_exchange *x = login->x;
    struct principal who = {0};
    const char *text = NULL;
    uint16_t status = http_login_check(login->listener, x, &login->wait, &who, &text);

    if (status == HTTP_LOGIN_PENDING)
        return; /* on_login() */
    if (status == 0 && is_provisioning(login, &who)) {
        principal_release(&who);
        return; /* likewise */
    }
    mem_free(MEM_ADAPTER, login);
    if (status) {
        http_answer_refuse(x, http_config(edge), status, text);
        return;
    }
    status = take(edge, x, &who, &text);
    if (status == 0)
        return;
    principal_release(&who);
    if (status == 401)
        http_answer_refuse(x, http_config(edge), status, text);
    else
        refuse_request(edge, x, http_intake_endpoint(x->request.path), status, text);
}

static void on_login(struct mail *m)
{
    serve(CONTAINER_OF(m, struct login, wait.mail));
}

static void on_upload(struct http_exchange *x, void *context)
{
    struct http_edge_listener *listener = context;
    struct login *login = mem_alloc_zero(MEM_ADAPTER, sizeof *login);

    login->wait.mail.on_mail = on_login;
    login->wait.home = &listener->edge->worker->loop.mailbox;
    login->listener = listener;
    login->x = x;
    serve(login);
}

static void on_options(struct http_exchange *x, void *context)
{
    const struct http_edge_listener *listener = context;
    struct str path = x->request.path;
    enum device_endpoint endpoint = http_intake_endpoint(path);
    unsigned n_own = endpoint == DEVICE_ENDPOINT_COMMAND ? 3 : 1, n = 0; /* levels of one that is about the sender itself */

    for (size_t i = 0; i < path.n; i++)
        n += path.p[i] == '/';
    http_answer_options(x, http_config(listener->edge), endpoint, n > n_own);
}

size_t http_upload_write_routes(struct http_edge_listener *listener)
{
    static const struct http_route routes[] = {
        {.method = HTTP_METHOD_POST, .pattern = "/telemetry", .handler = on_upload},
        {.method = HTTP_METHOD_POST, .pattern = "/event", .handler = on_upload},
        {.method = HTTP_METHOD_PUT, .pattern = "/telemetry/*", .handler = on_upload},
        {.method = HTTP_METHOD_PUT, .pattern = "/event/*", .handler = on_upload},
        {.method = HTTP_METHOD_POST, .pattern = "/command/res/{}", .handler = on_upload},
        {.method = HTTP_METHOD_PUT, .pattern = "/command/res/*", .handler = on_upload},
        {.method = HTTP_METHOD_OPTIONS, .pattern = "/command/res/*", .handler = on_options},
        {.method = HTTP_METHOD_OPTIONS, .pattern = "/telemetry", .handler = on_options},
        {.method = HTTP_METHOD_OPTIONS, .pattern = "/event", .handler = on_options},
        {.method = HTTP_METHOD_OPTIONS, .pattern = "/telemetry/*", .handler = on_options},
        {.method = HTTP_METHOD_OPTIONS, .pattern = "/event/*", .handler = on_options},
    };

    static_assert(ARRAY_LEN(routes) <= HTTP_EDGE_ROUTES, "the table fits");
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        listener->routes[i] = routes[i];
        listener->routes[i].context = listener;
    }
    return ARRAY_LEN(routes);
}
