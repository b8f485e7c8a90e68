/* webhook: asks a server whether somebody may connect (docs/REGISTRY.md): one question for all who bring the same, its answer remembered for a while. Any
 * thread; only for this folder. */
#pragma once

#include "authority/outcome_cache.h"

struct authority_clients;

struct webhook {
    struct outcome_cache cache;
    struct authority_clients *clients;
};

void webhook_init(struct webhook *w, struct authority_clients *clients);

/* After authority_client_close(). */
void webhook_fini(struct webhook *w);

/* As authority.ask_webhook. */
enum authority_verdict webhook_ask(struct webhook *w, const struct config *config, const struct registry_login *login,
                                   struct authority_answer *out);
