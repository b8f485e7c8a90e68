/* authority_plane: all who are asked outside the process, for the workers. Made, told of reloads and taken down by the main thread; what the registry asks
 * (registry/authority.h) is on the workers. */
#pragma once

#include "authority/authority_client.h"
#include "authority/key_source.h"
#include "authority/ocsp_source.h"
#include "authority/webhook.h"
#include "registry/authority.h"

struct authority_plane {
    struct authority port; /* for registry_use_authority() */
    struct authority_clients clients;
    struct webhook webhook;
    struct key_source keys;
    struct ocsp_source ocsp;
};

/* After workers_init(). Never fails; must not move. */
void authority_plane_init(struct authority_plane *p, struct workers *workers);

/* What holds from now on: a configuration, and the TLS of https (NULL: there is none). References are taken. */
void authority_plane_use(struct authority_plane *p, struct config *config, struct tls *tls);

/* After the workers have stopped, before those who wait are taken down: what was asked is answered as unavailable. A no-op on what is all-zero. */
void authority_plane_close(struct authority_plane *p);

/* After authority_plane_close() and two turns of each worker's loop, when nobody asks any more. A no-op on what is all-zero. */
void authority_plane_fini(struct authority_plane *p);
