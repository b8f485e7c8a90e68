/* ocsp_source: asks the responders of CAs whether certificates are revoked (docs/DEVICES.md): one question for all who show the same certificate, its answer
 * remembered as long as it holds, within a bound. Any thread; only for this folder. */
#pragma once

#include "authority/outcome_cache.h"

struct authority_clients;

struct ocsp_source {
    struct outcome_cache cache;
    struct authority_clients *clients;
};

void ocsp_source_init(struct ocsp_source *o, struct authority_clients *clients);

/* After authority_client_close(). */
void ocsp_source_fini(struct ocsp_source *o);

/* As authority.check_certificate. */
enum authority_verdict ocsp_source_check(struct ocsp_source *o, const struct config *config,
                                         const struct authority_certificate *c, struct registry_wait *wait);
