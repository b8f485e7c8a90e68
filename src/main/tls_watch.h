/* tls_watch: notices that a file which TLS is made of, or a revocation list, has changed. Certificates are renewed by many tools in as many ways, and a
 * listener has several files: so their stamps are looked at every other second, and a change is told once nothing has changed for
 * one look. Lives on the loop of the main thread; looks at the disk, so it may block; reads no file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "loop/loop.h"

struct tls_watch_file;

enum { TLS_WATCH_LOOK_MS = 2000 };

struct tls_watch {
    struct loop *loop;
    void (*on_change)(struct tls_watch *tw);
    struct timer look;
    struct tls_watch_file *files;
    size_t n_files;
    bool is_changed; /* since on_change() was last called */
};

/* Begins to watch the files that `config`, which was read from `file`, names. A change since then is told by on_change(). */
void tls_watch_open(struct tls_watch *tw, struct loop *l, const struct config *config, const char *file,
                    void (*on_change)(struct tls_watch *tw));

/* Watches what this configuration names from now on. Those it has in common with the one before keep what was seen of them. */
void tls_watch_use(struct tls_watch *tw, const struct config *config, const char *file);

/* Ends it; a no-op on what is all-zero. */
void tls_watch_close(struct tls_watch *tw);
