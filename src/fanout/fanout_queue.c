#include "fanout/fanout_queue.h"

#include "base/check.h"
#include "base/siphash.h"
#include "fanout/fanout_metrics.h"

struct fanout_queue {
    struct fanout_plane *plane;
    struct list link; /* in the plane's list */
    struct list waiting;
    uint64_t hash;
    uint32_t n_running; /* one, but at the end */
    bool is_pumping;    /* the loop that runs one after the other is below us on the stack */
    size_t n_channel, n_key;
    char text[]; /* both */
};

struct key {
    struct str channel, key;
};

static bool is_of(const void *entry, const void *key)
{
    const struct fanout_queue *queue = entry;
    const struct key *wanted = key;

    return str_equal((struct str){queue->text, queue->n_channel}, wanted->channel) &&
           str_equal((struct str){queue->text + queue->n_channel, queue->n_key}, wanted->key);
}

bool fanout_queue_key(const struct fanout_job *job, struct str *out_key, uint64_t *out_hash)
{
    const struct fanout_channel *channel = job->channel;

    *out_key = (struct str){0};
    if (channel->order == FANOUT_ORDER_NONE ||
        (channel->order == FANOUT_ORDER_KEY && !cloudevent_find(&job->event.ce, channel->order_key, out_key)))
        return false;
    *out_hash = siphash_pair(channel->key, *out_key);
    return true;
}

static struct fanout_queue *queue_for(struct fanout_plane *plane, struct str channel, struct str text, uint64_t hash)
{
    const struct key key = {channel, text};
    struct fanout_queue *queue = map_find(&plane->queues, hash, &key, is_of);

    if (queue)
        return queue;
    queue = mem_alloc_zero(MEM_FANOUT, sizeof *queue + channel.n + text.n);
    queue->plane = plane;
    queue->hash = hash;
    list_init(&queue->waiting);
    queue->n_channel = channel.n;
    queue->n_key = text.n;
    memcpy(queue->text, channel.p, channel.n);
    if (text.n)
        memcpy(queue->text + channel.n, text.p, text.n);
    map_add(&plane->queues, MEM_FANOUT, hash, queue);
    list_push(&plane->queue_list, &queue->link);
    return queue;
}

static void drop(struct fanout_queue *queue)
{
    ASSERT(map_remove(&queue->plane->queues, queue->hash, queue));
    list_remove(&queue->link);
    mem_free(MEM_FANOUT, queue);
}

static void run(struct fanout_queue *queue, struct fanout_job *job)
{
    wheel_stop(&job->turn_timer);
    queue->n_running++;
    fanout_job_run(job);
}

/* What runs may be finished when it has begun: this loop goes on then, not a deeper one. At the end of the plane nobody waits any more, even if
 * what runs is held up. */
static void pump(struct fanout_queue *queue)
{
    struct list *link;

    if (queue->is_pumping)
        return;
    queue->is_pumping = true;
    while ((queue->n_running == 0 || queue->plane->is_ending) && (link = list_pop(&queue->waiting)) != NULL) {
        run(queue, CONTAINER_OF(link, struct fanout_job, link));
    }
    queue->is_pumping = false;
    if (queue->n_running == 0)
        drop(queue);
}

/* Its deadline has come before its turn: it runs, which is no more than to fail, since there is no time for an attempt. */
static void on_deadline(struct timer *t)
{
    struct fanout_job *job = CONTAINER_OF(t, struct fanout_job, turn_timer);

    list_remove(&job->link);
    run(job->queue, job);
}

static void wait_for_turn(struct fanout_job *job)
{
    struct loop *l = &job->home->worker->loop;

    fanout_metrics_add(FANOUT_EVENTS_QUEUED, 1);
    job->turn_timer.on_timer = on_deadline;
    wheel_start(&l->wheel, &job->turn_timer, job->deadline_ms > l->now_ms ? job->deadline_ms - l->now_ms : 0);
}

void fanout_queue_enter(struct fanout_job *job)
{
    struct str text;
    uint64_t hash;

    if (!fanout_queue_key(job, &text, &hash)) {
        fanout_job_run(job);
        return;
    }
    job->queue = queue_for(job->home, job->channel->key, text, hash);
    if (job->queue->n_running || job->queue->is_pumping)
        wait_for_turn(job);
    list_push(&job->queue->waiting, &job->link);
    pump(job->queue);
}

void fanout_queue_leave(struct fanout_queue *queue)
{
    if (!queue)
        return;
    queue->n_running--;
    pump(queue);
}

static struct fanout_queue *find_waiting(const struct fanout_plane *plane)
{
    for (struct list *link = plane->queue_list.next; link != &plane->queue_list; link = link->next) {
        struct fanout_queue *queue = CONTAINER_OF(link, struct fanout_queue, link);

        if (!list_is_empty(&queue->waiting) && !queue->is_pumping)
            return queue;
    }
    return NULL;
}

void fanout_queue_flush(struct fanout_plane *plane)
{
    struct fanout_queue *queue;

    while ((queue = find_waiting(plane)) != NULL)
        pump(queue);
}
