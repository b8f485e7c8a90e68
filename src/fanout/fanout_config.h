/* fanout_config: reads the text of a fan-out configuration, in our own form or in that of Knative's first sidecar (all of its field
 * names), and builds a snapshot. docs/FANOUT.md has both forms. Blocks on nothing; any thread but a worker's, since it takes long. */
#pragma once

#include "config/config.h"
#include "fanout/fanout_snapshot.h"

/* What the process can do, for what a configuration may ask. */
struct fanout_abilities {
    bool has_kafka; /* a subscriber may be `kafka:` */
    bool has_disk;  /* on_exhausted may be `park` */
};

/* Builds a snapshot with one reference. `name` is what messages call the text. E_INVAL, with entries in `errors` (file, line, and the
 * nearest valid name of a wrong one): nothing was built. */
MUST_USE err fanout_config_build(struct str text, const char *name, uint64_t generation,
                                 const struct fanout_abilities *abilities, struct fanout_snapshot **out_snapshot,
                                 struct config_errors *errors);

/* The same, but a channel that is wrong does not keep the others from going live: it is as in `before` (NULL: there was nothing), or left out
 * when that does not have it; `isolated` of the snapshot lists such. E_OK: `errors` says what is wrong with them. E_INVAL: it says what is
 * wrong with the text as a whole. The snapshot may hold a reference to `before`, or to where a channel of that comes from. */
MUST_USE err fanout_config_build_isolated(struct str text, const char *name, uint64_t generation,
                                          const struct fanout_abilities *abilities, struct fanout_snapshot *before,
                                          struct fanout_snapshot **out_snapshot, struct config_errors *errors);

/* fanout_config_build() of the text of one channel, whose name may be left out. */
MUST_USE err fanout_config_build_channel(struct str text, const char *name, const struct fanout_abilities *abilities,
                                         struct fanout_snapshot **out_snapshot, struct config_errors *errors);
