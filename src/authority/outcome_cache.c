#include "authority/outcome_cache.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "loop/loop.h"
#include "registry/registry_wait.h"

/* How long whoever has waited may take to come back for the answer. */
enum { KEPT_MS = 60 * 1000 };

struct outcome_entry {
    unsigned char token[KEYED_DIGEST_BYTES];
    struct list link;  /* in `known`, once it is */
    struct list waits; /* until it is known */
    bool is_known;
    uint8_t verdict;
    uint64_t until_ms;      /* for everybody, */
    uint64_t kept_until_ms; /* and for those who have waited for it */
    int64_t expires_at_s;
    uint16_t tenant_n, device_n;
    char *names; /* the tenant's, then the device's */
};

void outcome_cache_init(struct outcome_cache *c)
{
    *c = (struct outcome_cache){0};
    pthread_mutex_init(&c->lock, NULL);
    keyed_digest_init(&c->digest);
    list_init(&c->known);
}

static uint64_t hash_of(const unsigned char *token)
{
    uint64_t hash;

    memcpy(&hash, token, sizeof hash); /* it is one already */
    return hash;
}

static void drop(struct outcome_cache *c, struct outcome_entry *o)
{
    (void)map_remove(&c->outcomes, hash_of(o->token), o); /* it is there */
    list_remove(&o->link);
    mem_free(MEM_REGISTRY, o->names);
    mem_free(MEM_REGISTRY, o);
}

void outcome_cache_fini(struct outcome_cache *c)
{
    if (!c->known.next)
        return;
    ASSERT(c->n_unanswered == 0);
    while (!list_is_empty(&c->known))
        drop(c, CONTAINER_OF(c->known.next, struct outcome_entry, link));
    map_free(&c->outcomes, MEM_REGISTRY);
    keyed_digest_wipe(&c->digest);
    pthread_mutex_destroy(&c->lock);
}

static bool has_token(const void *entry, const void *key)
{
    return memcmp(((const struct outcome_entry *)entry)->token, key, KEYED_DIGEST_BYTES) == 0;
}

/* Has he waited for this? */
static bool is_his(const struct registry_wait *wait, const unsigned char *token)
{
    return wait && wait->has_asked && memcmp(wait->asked, token, KEYED_DIGEST_BYTES) == 0;
}

static void take(const struct outcome_entry *o, enum authority_verdict *out_verdict, struct authority_answer *out)
{
    *out_verdict = (enum authority_verdict)o->verdict;
    *out = (struct authority_answer){.tenant_n = o->tenant_n, .device_n = o->device_n, .expires_at_s = o->expires_at_s};
    if (!o->names)
        return;
    memcpy(out->tenant, o->names, o->tenant_n);
    memcpy(out->device, o->names + o->tenant_n, o->device_n);
}

static void join(struct outcome_entry *o, struct registry_wait *wait)
{
    memcpy(wait->asked, o->token, sizeof wait->asked);
    wait->has_asked = true;
    list_push(&o->waits, &wait->link);
}

static struct outcome_entry *begin(struct outcome_cache *c, const struct outcome_limits *limits, const unsigned char *token)
{
    struct outcome_entry *o = mem_alloc_zero(MEM_REGISTRY, sizeof *o);

    while (c->outcomes.n_entries - c->n_unanswered >= limits->max_known && !list_is_empty(&c->known))
        drop(c, CONTAINER_OF(c->known.next, struct outcome_entry, link));
    memcpy(o->token, token, sizeof o->token);
    list_init(&o->waits);
    map_add(&c->outcomes, MEM_REGISTRY, hash_of(token), o);
    c->n_unanswered++;
    return o;
}

/* With the lock. */
static enum outcome_state ask(struct outcome_cache *c, const struct outcome_limits *limits, const unsigned char *token,
                              struct registry_wait *wait, struct outcome_entry **out_outcome)
{
    struct outcome_entry *o = map_find(&c->outcomes, hash_of(token), token, has_token);
    uint64_t now = loop_clock_ms();

    *out_outcome = o;
    if (o && o->is_known && now < (is_his(wait, token) ? o->kept_until_ms : o->until_ms))
        return OUTCOME_KNOWN;
    if (!wait)
        return OUTCOME_FULL;
    if (o && !o->is_known) {
        join(o, wait);
        return OUTCOME_JOINED;
    }
    if (c->n_unanswered >= limits->max_unanswered)
        return OUTCOME_FULL;
    if (o)
        drop(c, o); /* its time is over */
    *out_outcome = begin(c, limits, token);
    join(*out_outcome, wait);
    return OUTCOME_BEGUN;
}

enum outcome_state outcome_cache_ask(struct outcome_cache *c, const struct outcome_limits *limits,
                                     const unsigned char token[KEYED_DIGEST_BYTES], struct registry_wait *wait,
                                     enum authority_verdict *out_verdict, struct authority_answer *out_answer,
                                     struct outcome_entry **out_outcome)
{
    enum outcome_state state;

    pthread_mutex_lock(&c->lock);
    state = ask(c, limits, token, wait, out_outcome);
    if (state == OUTCOME_KNOWN)
        take(*out_outcome, out_verdict, out_answer);
    pthread_mutex_unlock(&c->lock);
    return state;
}

static void fill(struct outcome_entry *o, const struct authority_answer *answer)
{
    size_t n = answer ? (size_t)answer->tenant_n + answer->device_n : 0;

    if (!n)
        return;
    o->names = mem_alloc(MEM_REGISTRY, n);
    memcpy(o->names, answer->tenant, answer->tenant_n);
    memcpy(o->names + answer->tenant_n, answer->device, answer->device_n);
    o->tenant_n = answer->tenant_n;
    o->device_n = answer->device_n;
    o->expires_at_s = answer->expires_at_s;
}

void outcome_cache_finish(struct outcome_cache *c, struct outcome_entry *o, enum authority_verdict verdict,
                          const struct authority_answer *answer, uint64_t remembered_ms)
{
    struct list *link;
    uint64_t now = loop_clock_ms();

    pthread_mutex_lock(&c->lock);
    o->verdict = (uint8_t)verdict;
    o->until_ms = now + remembered_ms;
    o->kept_until_ms = now + (remembered_ms > KEPT_MS ? remembered_ms : KEPT_MS);
    fill(o, answer);
    o->is_known = true;
    list_push(&c->known, &o->link);
    c->n_unanswered--;
    while ((link = list_pop(&o->waits))) {
        struct registry_wait *wait = CONTAINER_OF(link, struct registry_wait, link);

        mailbox_post(wait->home, &wait->mail);
    }
    pthread_mutex_unlock(&c->lock);
}
