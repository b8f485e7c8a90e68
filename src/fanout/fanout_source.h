/* fanout_source: where configurations of the fan-out come from, behind one interface. fanout_control asks its sources in their
 * order and takes the first that has something. The main thread; may block on the disk. */
#pragma once

#include "base/buf.h"
#include "config/config.h"
#include "loop/loop.h"

struct fanout_source;

/* What a source has. */
struct fanout_text {
    struct buf bytes;    /* of MEM_CONFIG, owned by whoever asked */
    const char *name;    /* for messages; lives as long as the source */
    uint64_t generation; /* 0: the text may say it, else it is counted */
};

struct fanout_source_kind {
    struct str name;
    /* What there is now. E_NOTFOUND: nothing; `out_text->name` says where it would be. E_*: the reason is in `ei`. */
    err (*read)(struct fanout_source *source, struct fanout_text *out_text, struct errinfo *ei);
    /* Begins to call on_change when there is something else; NULL: it tells its changes in another way. */
    void (*watch)(struct fanout_source *source, struct loop *l);
    void (*free)(struct fanout_source *source);
};

/* The beginning of every source. */
struct fanout_source {
    const struct fanout_source_kind *kind;
    void (*on_change)(struct fanout_source *source);
    void *owner;
};

/* A folder, which is watched, with the file `channels.yaml`, or else `multiChannelFanoutConfig`. Both are copied. Never NULL. */
struct fanout_source *fanout_source_file_new(struct str folder);

/* What was last put, kept below the data folder, which is made if need be. Never NULL. */
struct fanout_source *fanout_source_put_new(struct str data_folder);

/* Keeps a text in place of what was put before, for a restart as well. E_IO: it is not kept; the reason is in `ei`. */
MUST_USE err fanout_source_put_store(struct fanout_source *source, struct str text, uint64_t generation, struct errinfo *ei);

/* Forgets what was put, but not its generation. E_IO as above. */
MUST_USE err fanout_source_put_forget(struct fanout_source *source, struct errinfo *ei);

/* The generation of what was last put; 0: nothing ever was. */
uint64_t fanout_source_put_generation(const struct fanout_source *source);

/* The name of the file in the folder that counts now: channels.yaml when it is there, else Knative's. */
const char *fanout_source_file_choose(const char *folder);

#define FANOUT_SOURCE_FILE_OURS    "channels.yaml"
#define FANOUT_SOURCE_FILE_KNATIVE "multiChannelFanoutConfig"
