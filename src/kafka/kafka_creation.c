#include "kafka/kafka_creation.h"

#include "base/check.h"
#include "base/mem.h"
#include "kafka/kafka_private.h"

/* A request for one topic, on its way to the admin thread and back. */
struct creation {
    struct kafka_topics topics;
    struct sink_creation *wanted;
};

static void on_topics(struct mail *m)
{
    struct creation *c = CONTAINER_OF(m, struct creation, topics.mail);
    struct sink_creation *wanted = c->wanted;

    wanted->result = c->topics.result.code;
    mem_free(MEM_KAFKA, c);
    wanted->mail.on_mail(&wanted->mail);
}

void kafka_creation_begin(struct sink *sink, struct sink_creation *creation)
{
    struct kafka_sink *ks = CONTAINER_OF(sink, struct kafka_sink, sink);
    struct kafka *k = CONTAINER_OF(ks, struct kafka, sink);
    struct creation *c = mem_alloc_zero(MEM_KAFKA, sizeof *c);

    c->wanted = creation;
    c->topics =
        (struct kafka_topics){.mail = {.on_mail = on_topics}, .home = creation->home, .names = &creation->name, .n_names = 1};
    kafka_ensure_topics(k, &c->topics);
}
