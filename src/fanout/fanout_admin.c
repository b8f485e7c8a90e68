#include "fanout/fanout_admin.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "config/value.h"
#include "fanout/fanout_describe.h"
#include "fanout/fanout_inspect.h"
#include "fanout/fanout_park_disk.h"
#include "fanout/fanout_park_order.h"
#include "loop/loop.h"

enum { ROUTES = 12, PARKED_SHOWN = 100 };

struct fanout_admin {
    struct fanout_control *control;
    struct fanout_park_disk *park;
    struct fanout *plane;
    struct mailbox *home;
    struct str token;
    bool is_local; /* the port is on loopback */
    struct http_route routes[ROUTES];
};

/* A request that waits until its change holds. */
struct pending {
    struct fanout_control_put put;
    struct http_exchange *x;
};

/* --- answers --- */

static void respond_json(struct http_exchange *x, uint16_t status, const struct http_header *headers, size_t n_headers,
                         struct buf *body, err e)
{
    struct http_response r = {.status = status,
                              .content_type = STR("application/json"),
                              .headers = headers,
                              .n_headers = n_headers,
                              .body = buf_str(body)};

    if (e == E_OK)
        http_exchange_respond(x, &r);
    else
        http_exchange_respond_error(x, 503, STR("no memory for the answer"));
    buf_free(body, MEM_HTTP);
}

static const struct {
    err code;
    uint16_t status;
} refusals[] = {
    {E_DENIED, 409}, {E_AGAIN, 503}, {E_INVAL, 400}, {E_NOTFOUND, 428}, {E_LIMIT, 409}, {E_IO, 500},
};

static void refuse(struct fanout_admin *a, struct http_exchange *x, err why, const struct config_errors *errors)
{
    const struct http_header retry = {STR("Retry-After"), STR("1")};
    struct buf body = {0};
    uint16_t status = 500;
    err e = fanout_describe_refusal(&body, errors, fanout_control_put_generation(a->control));

    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        if (refusals[i].code == why)
            status = refusals[i].status;
    respond_json(x, status, &retry, status == 503, &body, e);
}

static void on_get_config(struct http_exchange *x, void *context)
{
    struct fanout_admin *a = context;
    struct buf body = {0};
    err e = fanout_describe_config(&body, a->control);

    respond_json(x, 200, NULL, 0, &body, e);
}

static void on_get_channels(struct http_exchange *x, void *context)
{
    struct fanout_admin *a = context;
    struct buf body = {0};
    err e = fanout_describe_channels(&body, fanout_control_now(a->control));

    respond_json(x, 200, NULL, 0, &body, e);
}

/* A request that waits until all workers have said how their subscriptions fare. */
struct question {
    struct fanout_inspection inspection;
    const struct fanout_subscription *subscription; /* the only one that is asked about, or NULL */
    struct http_exchange *x;
};

static void on_inspected(struct mail *m)
{
    struct question *q = CONTAINER_OF(m, struct question, inspection.mail);
    struct buf body = {0};
    const struct fanout_subscription *only = q->subscription;
    err e = only ? fanout_inspect_write_one(&body, MEM_HTTP, &q->inspection.rows[only->index])
                 : fanout_inspect_write(&body, MEM_HTTP, &q->inspection);

    respond_json(q->x, 200, NULL, 0, &body, e);
    fanout_inspect_free(&q->inspection);
    mem_free(MEM_HTTP, q);
}

static const struct fanout_subscription *find_subscription(const struct fanout_channel *channel, struct str uid)
{
    for (size_t i = 0; i < channel->n_subscriptions; i++)
        if (str_equal(channel->subscriptions[i].uid, uid))
            return &channel->subscriptions[i];
    return NULL;
}

/* All of them, those of the channel in the path, or the one with the uid in the path. */
static void on_get_subscriptions(struct http_exchange *x, void *context)
{
    struct fanout_admin *a = context;
    struct fanout_snapshot *now = fanout_control_now(a->control);
    const struct fanout_channel *only = NULL;
    const struct fanout_subscription *subscription = NULL;
    struct question *q;

    if (x->n_params >= 2) { /* they lie side by side in the path */
        only = fanout_snapshot_find_key(now, (struct str){x->params[0].p, x->params[0].n + 1 + x->params[1].n});
        if (!only) {
            http_exchange_respond_error(x, 404, STR("there is no such channel"));
            return;
        }
    }
    if (x->n_params == 3 && !(subscription = find_subscription(only, x->params[2]))) {
        http_exchange_respond_error(x, 404, STR("the channel has no such subscription"));
        return;
    }
    q = mem_alloc_zero(MEM_HTTP, sizeof *q);
    q->x = x;
    q->inspection.mail.on_mail = on_inspected;
    q->inspection.home = a->home;
    q->inspection.snapshot = fanout_snapshot_ref(now);
    q->inspection.only = only;
    q->subscription = subscription;
    fanout_inspect(a->plane, &q->inspection);
}

static void on_get_parked(struct http_exchange *x, void *context)
{
    struct fanout_admin *a = context;
    struct http_response r = {.status = 200, .content_type = STR("application/json")};
    struct buf body = {0};

    if (!a->park) {
        http_exchange_respond_error(x, 404, STR("there is no place for parked events: data_dir is not used"));
        return;
    }
    if (fanout_park_disk_list(a->park, PARKED_SHOWN, &body) == E_OK) {
        r.body = buf_str(&body);
        http_exchange_respond(x, &r);
    } else {
        http_exchange_respond_error(x, 503, STR("the parked events cannot be read"));
    }
    buf_free(&body, MEM_FANOUT);
}

/* --- changes --- */

static void on_put_done(struct fanout_control_put *put, const struct fanout_snapshot *now)
{
    struct pending *p = CONTAINER_OF(put, struct pending, put);
    struct buf body = {0};
    err e = fanout_describe_snapshot(&body, now);

    respond_json(p->x, 200, NULL, 0, &body, e);
    mem_free(MEM_HTTP, p);
}

static bool is_allowed(const struct fanout_admin *a, struct http_exchange *x)
{
    static const struct str scheme = STR_INIT("Bearer ");
    static const struct http_header challenge = {STR_INIT("WWW-Authenticate"), STR_INIT("Bearer")};
    struct str given = http_message_header(&x->request, STR("Authorization"));
    struct buf body = {0};

    if (a->token.n == 0 && a->is_local)
        return true;
    if (a->token.n == 0) {
        http_exchange_respond_error(x, 403, STR("off loopback fanout.put_token is needed"));
        return false;
    }
    if (given.n > scheme.n && str_equal_nocase((struct str){given.p, scheme.n}, scheme) &&
        str_equal_secret(str_from_offset(given, scheme.n), a->token))
        return true;
    respond_json(x, 401, &challenge, 1, &body, buf_append(&body, MEM_HTTP, STR("{\"error\":\"a token is needed\"}\n")));
    return false;
}

/* `generation=N` of the query; 0: it is not there. False: it is no number. */
static bool read_generation(struct str query, uint64_t *out_generation)
{
    static const struct str name = STR_INIT("generation=");

    *out_generation = 0;
    while (query.n) {
        bool has_more;
        struct str part = str_take(&query, '&', &has_more);

        if (str_starts_with(part, name) &&
            (!str_to_u64(str_from_offset(part, name.n), INT64_MAX, out_generation) || *out_generation == 0))
            return false;
    }
    return true;
}

static struct pending *begin(struct http_exchange *x)
{
    struct pending *p = mem_alloc_zero(MEM_HTTP, sizeof *p);

    p->x = x;
    p->put.on_done = on_put_done;
    return p;
}

static void on_put_config(struct http_exchange *x, void *context)
{
    static struct config_errors errors; /* larger than a stack frame should be */
    struct fanout_admin *a = context;
    struct pending *p;
    uint64_t generation;
    err e;

    if (!is_allowed(a, x))
        return;
    if (!read_generation(x->request.query, &generation)) {
        http_exchange_respond_error(x, 400, STR("generation is no number from 1"));
        return;
    }
    p = begin(x);
    p->put.text = x->request.body;
    p->put.generation = generation;
    e = fanout_control_put(a->control, &p->put, &errors);
    if (e != E_OK) {
        refuse(a, x, e, &errors);
        mem_free(MEM_HTTP, p);
    }
}

static void on_delete_config(struct http_exchange *x, void *context)
{
    static struct config_errors errors; /* larger than a stack frame should be */
    struct fanout_admin *a = context;
    struct pending *p;
    err e;

    if (!is_allowed(a, x))
        return;
    p = begin(x);
    e = fanout_control_forget(a->control, &p->put, &errors);
    if (e != E_OK) {
        refuse(a, x, e, &errors);
        mem_free(MEM_HTTP, p);
    }
}

/* --- what is parked --- */

/* A request that waits until its order is carried out. */
struct parked_order {
    struct fanout_park_order order;
    struct http_exchange *x;
    struct buf texts; /* of the path, which the order's views are of */
};

static void on_ordered(struct mail *m)
{
    static const struct {
        err result;
        uint16_t status;
        const char *text;
    } answers[] = {
        {E_NOTFOUND, 404, "there is no such parked event"},
        {E_BUSY, 409, "the event is on its way to its subscriber just now"},
        {E_IO, 503, "the disk failed"},
    };
    struct parked_order *o = CONTAINER_OF(m, struct parked_order, order.mail);
    const struct fanout_park_order *order = &o->order;
    bool is_discard = order->action == FANOUT_PARK_DISCARD;
    struct buf body = {0};

    for (size_t i = 0; i < ARRAY_LEN(answers) && order->result != E_OK; i++)
        if (answers[i].result == order->result)
            http_exchange_respond_error(o->x, answers[i].status, str_from(answers[i].text));
    if (order->n)
        LOG_WARN(LOG_FANOUT, is_discard ? "fanout.park.discarded" : "fanout.park.hastened", F_INT("events", order->n),
                 F_INT("number", order->number), F_STR("channel", order->channel), F_STR("subscription", order->uid));
    if (order->result == E_OK)
        respond_json(o->x, 200, NULL, 0, &body,
                     buf_printf(&body, MEM_HTTP, "{\"%s\":%" PRIu64 ",\"under_way\":%" PRIu64 "}\n",
                                is_discard ? "discarded" : "hastened", order->n, order->n_under_way));
    buf_free(&o->texts, MEM_HTTP);
    mem_free(MEM_HTTP, o);
}

/* Of the path: a number, or namespace, name and uid, which lie side by side in it. False: it is no number. */
static bool read_order(const struct http_exchange *x, struct parked_order *o)
{
    const struct str *params = x->params;
    size_t n_channel;

    if (x->n_params == 1)
        return str_to_u64(params[0], INT64_MAX, &o->order.number) && o->order.number > 0;
    n_channel = params[0].n + 1 + params[1].n;
    if (buf_append(&o->texts, MEM_HTTP, (struct str){params[0].p, n_channel + 1 + params[2].n}) != E_OK)
        return false;
    o->order.channel = (struct str){buf_str(&o->texts).p, n_channel};
    o->order.uid = str_from_offset(buf_str(&o->texts), n_channel + 1);
    return true;
}

static void begin_order(struct http_exchange *x, struct fanout_admin *a, enum fanout_park_action action)
{
    struct parked_order *o;

    if (!is_allowed(a, x))
        return;
    if (!a->park) {
        http_exchange_respond_error(x, 404, STR("there is no place for parked events: data_dir is not used"));
        return;
    }
    o = mem_alloc_zero(MEM_HTTP, sizeof *o);
    o->x = x;
    o->order.mail.on_mail = on_ordered;
    o->order.home = a->home;
    o->order.action = action;
    if (read_order(x, o)) {
        fanout_park_disk_order(a->park, &o->order);
        return;
    }
    buf_free(&o->texts, MEM_HTTP);
    mem_free(MEM_HTTP, o);
    http_exchange_respond_error(x, 400, STR("the path has no number from 1"));
}

static void on_discard_parked(struct http_exchange *x, void *context)
{
    begin_order(x, context, FANOUT_PARK_DISCARD);
}

static void on_retry_parked(struct http_exchange *x, void *context)
{
    begin_order(x, context, FANOUT_PARK_RETRY);
}

/* --- life --- */

struct fanout_admin *fanout_admin_new(struct fanout_control *control, const struct config *config,
                                      struct fanout_park_disk *park, struct fanout *plane, struct mailbox *home)
{
    struct fanout_admin *a = mem_alloc_zero(MEM_HTTP, sizeof *a);
    const struct http_route routes[ROUTES] = {
        {HTTP_METHOD_GET, "/config", on_get_config, a, 0},
        {HTTP_METHOD_PUT, "/config", on_put_config, a, CONFIG_MAX_TEXT_BYTES},
        {HTTP_METHOD_DELETE, "/config", on_delete_config, a, 0},
        {HTTP_METHOD_GET, "/channels", on_get_channels, a, 0},
        {HTTP_METHOD_GET, "/parked", on_get_parked, a, 0},
        {HTTP_METHOD_DELETE, "/parked/{}", on_discard_parked, a, 0},
        {HTTP_METHOD_DELETE, "/parked/{}/{}/{}", on_discard_parked, a, 0},
        {HTTP_METHOD_POST, "/parked/{}/retry", on_retry_parked, a, 0},
        {HTTP_METHOD_POST, "/parked/{}/{}/{}/retry", on_retry_parked, a, 0},
        {HTTP_METHOD_GET, "/subscriptions", on_get_subscriptions, a, 0},
        {HTTP_METHOD_GET, "/subscriptions/{}/{}", on_get_subscriptions, a, 0},
        {HTTP_METHOD_GET, "/subscriptions/{}/{}/{}", on_get_subscriptions, a, 0},
    };

    a->control = control;
    a->park = park;
    a->plane = plane;
    a->home = home;
    a->token = config->fanout.put_token;
    a->is_local = config->admin_listen.host.n == 0 || value_is_loopback(config->admin_listen.host);
    memcpy(a->routes, routes, sizeof routes);
    return a;
}

void fanout_admin_free(struct fanout_admin *admin)
{
    mem_free(MEM_HTTP, admin);
}

const struct http_route *fanout_admin_routes(const struct fanout_admin *admin, size_t *out_n)
{
    *out_n = ROUTES;
    return admin->routes;
}
