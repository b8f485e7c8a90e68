/* reload: from a changed configuration to the next generation, or to log lines that say why not.
 *
 *   SIGHUP, or the file or one that TLS is made of changed --> read, check, compare with what holds
 *       invalid                          --> nothing changes; every error is logged with file and line
 *       an option that needs a restart   --> nothing changes; each such option is logged with file and line
 *       no difference                    --> nothing to do
 *       else: make missing topics in Kafka --> give the generation to the workers --> it holds
 *
 * While topics are waited for (Kafka may be away) another reload may come; it takes the place of the waiting one, and one that
 * needs no topics passes at once. One that fails leaves the waiting one alone. While the workers change over, a reload waits until
 * they have. Main thread only. */
#pragma once

#include "config/config.h"
#include "loop/file_watch.h"
#include "main/cli.h"
#include "main/server_kafka.h"
#include "main/tls_watch.h"

struct generation;
struct server;

struct reload {
    struct server *s;
    const struct cli *cli;
    struct file_watch watch;
    struct tls_watch tls_watch;
    struct server_topics *asked;     /* requests that Kafka has not answered, the newest first */
    struct server_topics *awaited;   /* the one that `next` waits for */
    struct generation *next;         /* waits for topics, or for the workers */
    struct generation *const *holds; /* s->now, for the metrics */
    struct mail in_http, in_mqtt, in_command, in_use;
    bool is_ready;    /* the server serves */
    bool is_changing; /* the workers change over */
    bool is_wanted;   /* as soon as that is possible */
    uint64_t good_ms; /* wall clock, when the file was last found to be what holds, or came to hold */
    bool was_good;    /* the last reload */
};

/* Reads the configuration that the command line asks for, rules and certificates included: generation `number`, the one after `before`
 * (NULL: the first). The caller owns one reference to `*out_generation`, written only on success. E_*: everything that is wrong is in
 * `errors`. Blocks on the disk. */
MUST_USE err reload_load(const struct cli *cli, uint64_t number, const struct generation *before,
                         struct generation **out_generation, struct config_errors *errors);

/* Sets the level of each part of the program. */
void reload_apply_log_levels(const struct config *config);

/* Begins to watch the file, if there is one; `before` is its stamp from before it was read for the first time, all-zero if not. Registers metrics:
 * before threads start. `cli` is borrowed. Nothing is reloaded before reload_begin(). */
void reload_init(struct reload *r, struct server *s, const struct cli *cli, const struct file_watch_stamp *before);

/* The server is ready: reloads may happen, and one that was asked for before does. */
void reload_begin(struct reload *r);

/* Reloads, now or as soon as possible. */
void reload_ask(struct reload *r);

/* No more reloads from now on: the server drains. */
void reload_end(struct reload *r);

/* Releases what is left, after Kafka has been stopped. A no-op on what is all-zero. */
void reload_fini(struct reload *r);
