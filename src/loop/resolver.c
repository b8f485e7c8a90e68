#include "loop/resolver.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "loop/mailbox.h"
#include "loop/thread.h"

static err error_of(int code)
{
    return code == EAI_NONAME || code == EAI_FAIL || code == EAI_NODATA ? E_NOTFOUND : E_AGAIN;
}

/* Blocks. */
static void look_up(struct resolver_query *q)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[8];
    int code;

    snprintf(port, sizeof port, "%u", q->port);
    code = getaddrinfo(q->name, port, &hints, &found);
    q->n_addresses = 0;
    for (struct addrinfo *a = code ? NULL : found; a && q->n_addresses < RESOLVER_ADDRESSES; a = a->ai_next)
        if (a->ai_addrlen <= sizeof q->addresses[0])
            memcpy(&q->addresses[q->n_addresses++], a->ai_addr, a->ai_addrlen);
    if (!code)
        freeaddrinfo(found);
    q->result = code ? error_of(code) : q->n_addresses ? E_OK : E_NOTFOUND;
}

static void *run(void *context)
{
    struct resolver *r = context;

    pthread_mutex_lock(&r->lock);
    while (!r->is_stopping) {
        struct list *link = list_pop(&r->queue);
        struct resolver_query *q;

        if (!link) {
            pthread_cond_wait(&r->wake, &r->lock);
            continue;
        }
        r->n_queued--;
        pthread_mutex_unlock(&r->lock);
        q = CONTAINER_OF(link, struct resolver_query, link);
        look_up(q);
        pthread_mutex_lock(&r->lock);
        if (!r->is_stopping)
            mailbox_post(q->home, &q->mail);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static bool start(struct resolver *r)
{
    r->has_thread = thread_start(&r->thread, "resolver", run, r, NULL) == E_OK;
    return r->has_thread;
}

void resolver_init(struct resolver *r)
{
    *r = (struct resolver){.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
    list_init(&r->queue);
}

err resolver_ask(struct resolver *r, struct resolver_query *query)
{
    err e = E_OK;

    pthread_mutex_lock(&r->lock);
    if (r->n_queued == RESOLVER_QUESTIONS)
        e = E_LIMIT;
    else if (r->is_stopping || (!r->has_thread && !start(r)))
        e = E_IO;
    if (e == E_OK) {
        list_push(&r->queue, &query->link);
        r->n_queued++;
        pthread_cond_signal(&r->wake);
    }
    pthread_mutex_unlock(&r->lock);
    return e;
}

void resolver_fini(struct resolver *r)
{
    bool has_thread;

    pthread_mutex_lock(&r->lock);
    r->is_stopping = true;
    while (list_pop(&r->queue))
        continue;
    has_thread = r->has_thread;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    if (has_thread)
        pthread_join(r->thread, NULL);
    r->has_thread = false;
}
