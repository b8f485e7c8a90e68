#include "kafka/kafka_producer.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "kafka/kafka_conf.h"

/* What librdkafka writes to the eventfd. */
static const uint64_t wake_value = 1;

err kafka_producer_new(const rd_kafka_conf_t *conf, int wake_fd, struct kafka_producer **out_producer, struct errinfo *ei)
{
    struct kafka_producer *p;
    rd_kafka_t *rk;
    err e = kafka_conf_open(conf, &rk, ei);

    if (e != E_OK)
        return e;
    p = aligned_alloc(_Alignof(struct kafka_producer), sizeof *p);
    ASSERT(p);
    *p = (struct kafka_producer){.rk = rk, .queue = rd_kafka_queue_get_main(rk)};
    rd_kafka_queue_io_event_enable(p->queue, wake_fd, &wake_value, sizeof wake_value);
    *out_producer = p;
    return E_OK;
}

struct kafka_handle *kafka_producer_add_topic(struct kafka_producer *p, const char *name, uint32_t limit_ms)
{
    rd_kafka_topic_t *rkt = kafka_conf_open_topic(p->rk, name, limit_ms);
    struct kafka_handle *h;

    if (!rkt)
        return NULL;
    h = mem_alloc(MEM_KAFKA, sizeof *h);
    *h = (struct kafka_handle){.rkt = rkt, .producer = p, .next = p->handles};
    p->handles = h;
    return h;
}

void kafka_producer_purge(struct kafka_producer *p)
{
    p->is_purged = true;
    (void)rd_kafka_purge(p->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

bool kafka_producer_is_idle(const struct kafka_producer *p)
{
    return atomic_load(&p->records) == 0 && atomic_load(&p->holds) == 0;
}

void kafka_producer_close(struct kafka_producer *p)
{
    if (!p->rk)
        return;
    for (struct kafka_handle *h = p->handles; h; h = h->next) {
        rd_kafka_topic_destroy(h->rkt);
        h->rkt = NULL;
    }
    rd_kafka_queue_io_event_enable(p->queue, -1, NULL, 0);
    rd_kafka_queue_destroy(p->queue);
    rd_kafka_destroy(p->rk);
    p->rk = NULL;
}

void kafka_producer_free(struct kafka_producer *p)
{
    if (!p)
        return;
    kafka_producer_close(p);
    while (p->handles) {
        struct kafka_handle *h = p->handles;

        p->handles = h->next;
        mem_free(MEM_KAFKA, h);
    }
    free(p);
}
