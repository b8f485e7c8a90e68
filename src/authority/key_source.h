/* key_source: the keys of an identity provider, fetched from its URL in intervals and when a token names one that is not there, and kept for a while when they
 * cannot be had; and what they say about tokens (docs/REGISTRY.md). One for the process. Only for this folder. */
#pragma once

#include <pthread.h>

#include "config/config.h"
#include "loop/worker.h"
#include "registry/authority.h"

struct authority_clients;
struct key_set;

struct key_source {
    struct authority_clients *clients;
    struct worker *worker; /* whose timer fetches in intervals */
    struct timer timer;
    struct mail follow; /* tells the worker of another configuration */
    bool is_posted;
    struct config *config; /* what holds, for the timer */
    pthread_mutex_t lock;  /* of that and what follows; held for a look */
    struct key_set *set;   /* the last that was fetched; NULL: none was */
    char *url;             /* where from */
    uint64_t fetched_ms, tried_ms;
    bool has_failed; /* the last attempt */
    bool is_fetching;
    struct list waits; /* for the end of it */
};

/* After authority_client_init(). Main thread, as all but key_source_judge(). */
void key_source_init(struct key_source *ks, struct authority_clients *clients, struct worker *worker);

/* What the timer goes by from now on. A reference is taken. */
void key_source_use(struct key_source *ks, struct config *config);

/* After authority_client_close(). */
void key_source_close(struct key_source *ks);
void key_source_fini(struct key_source *ks);

/* As authority.judge_token. */
enum authority_verdict key_source_judge(struct key_source *ks, const struct config *config, const struct registry_login *login,
                                        struct authority_answer *out);
