#include "registry/trust_cache.h"

#include <pthread.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"

struct verdict {
    unsigned char token[KEYED_DIGEST_BYTES];
    struct list link; /* the oldest first */
    int64_t from_s, until_s;
    int ca;
};

struct trust_cache {
    pthread_mutex_t lock;
    struct keyed_digest digest;
    struct map verdicts;
    struct list by_age;
};

struct trust_cache *trust_cache_new(void)
{
    struct trust_cache *c = mem_alloc_zero(MEM_REGISTRY, sizeof *c);

    pthread_mutex_init(&c->lock, NULL);
    keyed_digest_init(&c->digest);
    list_init(&c->by_age);
    return c;
}

static uint64_t hash_of(const unsigned char *token)
{
    uint64_t hash;

    memcpy(&hash, token, sizeof hash); /* it is one already */
    return hash;
}

static void drop(struct trust_cache *c, struct verdict *v)
{
    (void)map_remove(&c->verdicts, hash_of(v->token), v); /* it is there */
    list_remove(&v->link);
    mem_free(MEM_REGISTRY, v);
}

void trust_cache_free(struct trust_cache *c)
{
    if (!c)
        return;
    while (!list_is_empty(&c->by_age))
        drop(c, CONTAINER_OF(c->by_age.next, struct verdict, link));
    map_free(&c->verdicts, MEM_REGISTRY);
    keyed_digest_wipe(&c->digest);
    pthread_mutex_destroy(&c->lock);
    mem_free(MEM_REGISTRY, c);
}

void trust_cache_token(const struct trust_cache *c, const struct str *parts, size_t n_parts,
                       unsigned char token[KEYED_DIGEST_BYTES])
{
    keyed_digest_make(&c->digest, parts, n_parts, token);
}

static bool has_token(const void *entry, const void *key)
{
    return memcmp(((const struct verdict *)entry)->token, key, KEYED_DIGEST_BYTES) == 0;
}

bool trust_cache_find(struct trust_cache *c, const unsigned char token[KEYED_DIGEST_BYTES], int64_t now_s, int *out_ca)
{
    struct verdict *v;
    bool is_there;

    pthread_mutex_lock(&c->lock);
    v = map_find(&c->verdicts, hash_of(token), token, has_token);
    is_there = v && now_s >= v->from_s && now_s < v->until_s;
    if (is_there)
        *out_ca = v->ca;
    pthread_mutex_unlock(&c->lock);
    return is_there;
}

void trust_cache_keep(struct trust_cache *c, const unsigned char token[KEYED_DIGEST_BYTES], int64_t now_s, int64_t until_s,
                      int ca)
{
    struct verdict *v;

    pthread_mutex_lock(&c->lock);
    v = map_find(&c->verdicts, hash_of(token), token, has_token);
    if (v) {
        drop(c, v);
    } else if (c->verdicts.n_entries >= TRUST_CACHE_MAX) {
        drop(c, CONTAINER_OF(c->by_age.next, struct verdict, link));
    }
    v = mem_alloc_zero(MEM_REGISTRY, sizeof *v);
    memcpy(v->token, token, sizeof v->token);
    v->from_s = now_s;
    v->until_s = until_s < now_s + TRUST_CACHE_S ? until_s : now_s + TRUST_CACHE_S;
    v->ca = ca;
    map_add(&c->verdicts, MEM_REGISTRY, hash_of(token), v);
    list_push(&c->by_age, &v->link);
    pthread_mutex_unlock(&c->lock);
}
