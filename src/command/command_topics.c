#include "command/command_topics.h"

#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "command/command_topics_private.h"

static const char prefix[] = "hono.command_internal.";

err command_topics_name(struct str instance, char out[COMMAND_TOPICS_NAME_BYTES])
{
    int n = snprintf(out, COMMAND_TOPICS_NAME_BYTES, "%s%.*s", prefix, STR_ARG(instance));

    return n < COMMAND_TOPICS_NAME_BYTES ? E_OK : E_INVAL;
}

static struct command_topics *topics_of(struct command_transport *transport)
{
    return CONTAINER_OF(transport, struct command_topics, transport);
}

struct record_header *command_topics_make_room(struct command_topics_room *room, size_t n)
{
    struct record_header *headers;

    if (n <= room->n)
        return room->headers;
    headers = mem_try_realloc(MEM_COMMAND, room->headers, n * sizeof *headers);
    if (!headers)
        return NULL;
    *room = (struct command_topics_room){headers, n};
    return headers;
}

/* --- the reader: the topic of this instance --- */

/* There is only this one thing to want. */
static void *ref_wants(void *wants)
{
    return wants;
}

static void unref_wants(void *wants)
{
    (void)wants;
}

static struct str name(void *wants, int which)
{
    struct command_topics *t = wants;

    return which == 0 ? str_from(t->own) : (struct str){0};
}

static int interest(void *wants, struct str topic)
{
    return str_equal(topic, name(wants, 0)) ? 0 : -1;
}

static bool begins_at_end(void *wants, int which)
{
    (void)wants;
    (void)which;
    return true;
}

static struct mailbox *home(void *context, struct str topic, int32_t partition)
{
    struct command_topics *t = context;

    (void)topic;
    (void)partition;
    return &t->workers[0].worker->loop.mailbox;
}

static void on_full(void *context, struct source_partition *partition)
{
    (void)context;
    LOG_WARN(LOG_COMMAND, "commands.paused", F_STR("topic", partition->topic), F_INT("partition", partition->number));
}

static void tell(struct command_topics *t, struct command_envelope *envelope)
{
    const struct command_transport_user *user = &t->settings.user;

    if (envelope->is_result) {
        envelope->result.to.instance = str_from(t->instance);
        user->on_result(user->plane, &envelope->result);
    } else {
        envelope->request.to.instance = str_from(t->instance);
        user->on_request(user->plane, &envelope->request);
    }
}

static void take(struct command_topics_worker *tw, struct source_record *r)
{
    const struct record record = {.key = r->key, .value = r->value, .headers = r->headers, .n_headers = r->n_headers};
    struct record_header *room = command_topics_make_room(&tw->read, r->n_headers);
    struct command_envelope envelope;

    if (room && command_envelope_read(&record, room, &envelope) == E_OK) {
        tell(tw->topics, &envelope);
    } else {
        command_topics_count(COMMAND_TOPICS_COUNT_MALFORMED, 1);
        LOG_DEBUG(LOG_COMMAND, "topics.malformed", F_INT("offset", r->offset));
    }
    source_settle(tw->topics->source, r);
}

/* On the worker of the record's tenant. */
static void on_handed(struct mail *m)
{
    struct source_record *r = CONTAINER_OF(m, struct source_record, mail);
    struct command_topics *t = r->partition->reader->context;
    unsigned worker = t->settings.worker_of(t->settings.context, command_envelope_tenant(r->headers, r->n_headers));

    take(&t->workers[worker], r);
}

/* On worker 0. Mail keeps its order for each sender, and so for each worker. */
static void on_record(struct mail *m)
{
    struct source_record *r = CONTAINER_OF(m, struct source_record, mail);
    struct command_topics *t = r->partition->reader->context;
    unsigned worker = t->settings.worker_of(t->settings.context, command_envelope_tenant(r->headers, r->n_headers));

    command_topics_count(COMMAND_TOPICS_COUNT_RECEIVED, 1);
    if (worker == 0) {
        take(&t->workers[0], r);
        return;
    }
    m->on_mail = on_handed;
    mailbox_post(&t->workers[worker].worker->loop.mailbox, m);
}

/* --- the transport --- */

static err send_request(struct command_transport *transport, unsigned worker, const struct command_request *request)
{
    return command_topics_out_send_request(&topics_of(transport)->workers[worker], request);
}

static err send_result(struct command_transport *transport, unsigned worker, const struct command_result_message *result)
{
    return command_topics_out_send_result(&topics_of(transport)->workers[worker], result);
}

static void on_instances(struct command_transport *transport)
{
    struct command_topics *t = topics_of(transport);

    t->settings.ensure(t->settings.context);
    for (unsigned i = 0; i < t->settings.workers->n; i++)
        if (!atomic_exchange(&t->workers[i].is_look_due, true))
            mailbox_post(&t->workers[i].worker->loop.mailbox, &t->workers[i].look);
}

static void start(struct command_transport *transport, struct mail *ready, struct mailbox *home_of_ready)
{
    struct command_topics *t = topics_of(transport);

    t->settings.begin(t->settings.context, ready, home_of_ready);
}

static void free_topics(struct command_transport *transport)
{
    struct command_topics *t = topics_of(transport);

    for (unsigned i = 0; i < t->settings.workers->n; i++) {
        command_topics_out_fini(&t->workers[i]);
        mem_free(MEM_COMMAND, t->workers[i].read.headers);
        mem_free(MEM_COMMAND, t->workers[i].write.headers);
    }
    mem_free(MEM_COMMAND, t->workers);
    mem_free(MEM_COMMAND, t);
}

static const struct command_transport_ops ops = {.send_request = send_request,
                                                 .send_result = send_result,
                                                 .on_instances = on_instances,
                                                 .start = start,
                                                 .free = free_topics};

/* --- life --- */

static bool set_names(struct command_topics *t, struct str instance)
{
    if (command_topics_name(instance, t->own) != E_OK || !sink_find_topic(t->settings.sink, str_from(t->own)))
        return false;
    snprintf(t->instance, sizeof t->instance, "%.*s", STR_ARG(instance));
    t->settings.instance = str_from(t->instance);
    return true;
}

struct command_transport *command_topics_new(const struct command_topics_settings *settings)
{
    struct command_topics *t = mem_alloc_zero(MEM_COMMAND, sizeof *t);

    metrics_register(command_topics_metrics, COMMAND_TOPICS_COUNTS);
    t->transport.ops = &ops;
    t->settings = *settings;
    if (!set_names(t, settings->instance)) {
        mem_free(MEM_COMMAND, t);
        return NULL;
    }
    t->reader = (struct source_reader){.context = t,
                                       .ref = ref_wants,
                                       .unref = unref_wants,
                                       .interest = interest,
                                       .name = name,
                                       .begins_at_end = begins_at_end,
                                       .home = home,
                                       .on_record = on_record,
                                       .on_full = on_full};
    t->workers = mem_alloc_zero(MEM_COMMAND, settings->workers->n * sizeof *t->workers);
    for (unsigned i = 0; i < settings->workers->n; i++) {
        t->workers[i].topics = t;
        t->workers[i].worker = &settings->workers->list[i];
        command_topics_out_init(&t->workers[i]);
    }
    return &t->transport;
}

void command_topics_set_user(struct command_transport *transport, const struct command_transport_user *user)
{
    topics_of(transport)->settings.user = *user;
}

const struct source_reader *command_topics_reader(struct command_transport *transport)
{
    return &topics_of(transport)->reader;
}

void *command_topics_wants(struct command_transport *transport)
{
    return topics_of(transport);
}

void command_topics_attach(struct command_transport *transport, struct source *source)
{
    topics_of(transport)->source = source;
}

struct str command_topics_own(struct command_transport *transport)
{
    return str_from(topics_of(transport)->own);
}
