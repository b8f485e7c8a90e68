/* The channels of a fan-out. The first byte says as what they are read: a whole configuration, by a process that can do everything or
 * nothing, or the one channel that a request brings;
 * or as a configuration whose channels are isolated when they are wrong, after one that is the same up to a zero byte. What is accepted is walked through and found again. */
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/mem.h"
#include "fanout/fanout_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_target(const struct fanout_target *target)
{
    ASSERT((target->kind == FANOUT_TARGET_NONE) == (target->text.n == 0));
    ASSERT((target->kind == FANOUT_TARGET_HTTP) == (target->url.host.n > 0));
    ASSERT((target->kind == FANOUT_TARGET_KAFKA) == (target->topic.n > 0));
    ASSERT(target->text.n == 0 || target->text.p[target->text.n] == '\0');
}

static void check_subscription(const struct fanout_subscription *s, const struct fanout_abilities *abilities)
{
    check_target(&s->subscriber);
    check_target(&s->reply);
    check_target(&s->dead_letter);
    ASSERT(s->uid.n > 0);
    ASSERT(s->retry.attempt_timeout_ms > 0);
    ASSERT(s->on_exhausted != FANOUT_EXHAUSTED_DEAD_LETTER || s->dead_letter.kind != FANOUT_TARGET_NONE);
    ASSERT(s->on_exhausted != FANOUT_EXHAUSTED_PARK || abilities->has_disk);
    ASSERT(s->on_dead_letter_failed != FANOUT_EXHAUSTED_PARK || abilities->has_disk);
    ASSERT(s->on_dead_letter_failed != FANOUT_EXHAUSTED_DEAD_LETTER);
    ASSERT(s->subscriber.kind != FANOUT_TARGET_KAFKA || abilities->has_kafka);
}

static void check_channel(const struct fanout_snapshot *snapshot, const struct fanout_channel *c,
                          const struct fanout_abilities *abilities)
{
    ASSERT(fanout_snapshot_find_key(snapshot, c->key) == c);
    for (size_t i = 0; i < c->n_hosts; i++) {
        const struct fanout_channel *found;

        ASSERT(fanout_snapshot_find_host(snapshot, c->hosts[i], &found) && found == c);
    }
    for (size_t i = 0; i < c->n_subscriptions; i++) {
        ASSERT(c->subscriptions[i].index == i);
        check_subscription(&c->subscriptions[i], abilities);
    }
    ASSERT(c->ack != FANOUT_ACK_QUORUM || (c->quorum > 0 && c->quorum <= c->n_subscriptions));
    ASSERT(c->timeout_ms > 0 && c->max_hops > 0 && c->max_body_bytes > 0);
}

/* The abilities may be others than what a kept channel was checked with, so these are all. */
static err build_isolated(struct str text, struct fanout_snapshot **out_snapshot, struct config_errors *errors)
{
    static const struct fanout_abilities all = {.has_kafka = true, .has_disk = true};
    const char *end = text.n ? memchr(text.p, '\0', text.n) : NULL;
    struct fanout_snapshot *before = NULL;
    err e = E_OK;

    if (end)
        e = fanout_config_build_isolated((struct str){text.p, (size_t)(end - text.p)}, "before", 1, &all, NULL, &before,
                                         errors);
    ASSERT((e == E_OK) == (before != NULL || !end));
    e = fanout_config_build_isolated(end ? str_from_offset(text, (size_t)(end - text.p) + 1) : text, "fuzz", 2, &all, before,
                                     out_snapshot, errors);
    fanout_snapshot_unref(before);
    ASSERT(e != E_OK || (errors->count == 0) == ((*out_snapshot)->n_isolated == 0));
    for (size_t i = 0; e == E_OK && i < (*out_snapshot)->n_isolated; i++) {
        const struct fanout_isolated *one = &(*out_snapshot)->isolated[i];

        ASSERT(one->why.n > 0);
        ASSERT(!one->kept || one->kept->donor);
    }
    return e;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config_errors errors;
    struct fanout_snapshot *snapshot = NULL;
    struct fanout_abilities abilities;
    char *copy;
    err e;

    if (size == 0)
        return 0;
    abilities = (struct fanout_abilities){.has_kafka = data[0] & 5, .has_disk = data[0] & 5};
    copy = mem_copy_text(MEM_TEST, (const char *)data + 1, size - 1);
    if (data[0] & 4)
        e = build_isolated((struct str){copy, size - 1}, &snapshot, &errors);
    else if (data[0] & 2)
        e = fanout_config_build_channel((struct str){copy, size - 1}, "fuzz", &abilities, &snapshot, &errors);
    else
        e = fanout_config_build((struct str){copy, size - 1}, "fuzz", 1, &abilities, &snapshot, &errors);
    mem_free(MEM_TEST, copy); /* nothing may be a view of it */
    ASSERT((e == E_OK) == (errors.count == 0) || (data[0] & 4));
    ASSERT((e == E_OK) == (snapshot != NULL));
    for (size_t i = 0; snapshot && i < snapshot->n_channels; i++)
        check_channel(snapshot, &snapshot->channels[i], &abilities);
    fanout_snapshot_unref(snapshot);
    ASSERT(mem_used(MEM_CONFIG) == 0);
    return 0;
}
