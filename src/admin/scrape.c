#include "admin/scrape.h"

#include "base/check.h"
#include "base/mem.h"
#include "obs/metrics.h"

/* A worker's part: the mail that asks, and comes back as the answer. */
struct request {
    struct mail mail;
    struct scrape *scrape;
};

struct scrape {
    struct loop *loop;
    struct workers *workers;
    struct http_exchange **waiting; /* owned array */
    size_t n_waiting, capacity;
    unsigned n_out; /* mails that have not come back */
    bool is_closed;
    struct request requests[];
};

struct scrape *scrape_new(struct loop *l, struct workers *workers)
{
    unsigned n = workers ? workers->n : 0;
    struct scrape *s = mem_alloc_zero(MEM_HTTP, sizeof *s + n * sizeof *s->requests);

    s->loop = l;
    s->workers = workers;
    return s;
}

static void respond(struct http_exchange *x, err e, const struct buf *text)
{
    if (e == E_OK)
        http_exchange_respond(x, &(struct http_response){.status = 200,
                                                         .content_type = STR("text/plain; version=0.0.4; charset=utf-8"),
                                                         .body = buf_str(text)});
    else
        http_exchange_respond_error(x, 503, STR("no memory for the metrics"));
}

static void respond_all(struct scrape *s)
{
    struct buf text = {0};
    err e = metrics_write(&text);

    for (size_t i = 0; i < s->n_waiting; i++)
        respond(s->waiting[i], e, &text);
    s->n_waiting = 0;
    buf_free(&text, MEM_OBS);
}

static void finish(struct scrape *s)
{
    mem_free(MEM_HTTP, s->waiting);
    mem_free(MEM_HTTP, s);
}

/* On the port's thread again. */
static void on_noted(struct mail *m)
{
    struct scrape *s = CONTAINER_OF(m, struct request, mail)->scrape;

    if (--s->n_out > 0)
        return;
    if (s->is_closed)
        finish(s);
    else
        respond_all(s);
}

/* On a worker. */
static void on_note(struct mail *m)
{
    struct request *r = CONTAINER_OF(m, struct request, mail);

    metrics_note_thread();
    m->on_mail = on_noted;
    mailbox_post(&r->scrape->loop->mailbox, m);
}

static void ask(struct scrape *s)
{
    s->n_out = s->workers->n;
    for (unsigned i = 0; i < s->workers->n; i++) {
        s->requests[i] = (struct request){.mail = {.on_mail = on_note}, .scrape = s};
        mailbox_post(&s->workers->list[i].loop.mailbox, &s->requests[i].mail);
    }
}

static bool add_waiting(struct scrape *s, struct http_exchange *x)
{
    if (s->n_waiting == s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : 4;
        void *p = mem_try_realloc(MEM_HTTP, s->waiting, capacity * sizeof *s->waiting);

        if (!p)
            return false;
        s->waiting = p;
        s->capacity = capacity;
    }
    s->waiting[s->n_waiting++] = x;
    return true;
}

void scrape_answer(struct scrape *s, struct http_exchange *x)
{
    if (!add_waiting(s, x))
        http_exchange_respond_error(x, 503, STR("no memory for the metrics"));
    else if (!s->workers)
        respond_all(s);
    else if (s->n_out == 0)
        ask(s);
}

void scrape_close(struct scrape *s)
{
    if (!s)
        return;
    s->is_closed = true;
    for (size_t i = 0; i < s->n_waiting; i++)
        http_exchange_respond_error(s->waiting[i], 503, STR("the server stops"));
    s->n_waiting = 0;
    if (s->n_out == 0)
        finish(s);
}
