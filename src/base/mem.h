/* mem: every allocation of the process, counted by subsystem. Any thread. Counts are exported as metrics. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Who an allocation belongs to. Names for the metric label are in mem.c. */
enum mem_sub {
    MEM_BASE,
    MEM_LOOP,
    MEM_CONFIG,
    MEM_OBS,
    MEM_PROTO,
    MEM_HTTP,
    MEM_KAFKA,
    MEM_REGISTRY,
    MEM_MESSAGE,
    MEM_BROKER,
    MEM_ADAPTER,
    MEM_FANOUT,
    MEM_STORE,
    MEM_TABLE,
    MEM_COMMAND,
    MEM_ROUTES,
    MEM_TEST,
    MEM_SUBS,
};

/* Allocates `n` bytes, zeroed by the _zero form. Never returns NULL: when the system has no memory, prints what was asked
 * and aborts. For sizes we choose. The caller owns the result and gives it to mem_free() with the same `sub`. */
void *mem_alloc(enum mem_sub sub, size_t n) __attribute__((malloc, alloc_size(2), returns_nonnull));
void *mem_alloc_zero(enum mem_sub sub, size_t n) __attribute__((malloc, alloc_size(2), returns_nonnull));

/* As mem_alloc(), but returns NULL when there is no memory. For sizes that a peer chose, after the limit check. */
void *mem_try_alloc(enum mem_sub sub, size_t n) __attribute__((malloc, alloc_size(2), warn_unused_result));

/* Grows or shrinks an owned block; `p` may be NULL. NULL and the old block kept when there is no memory. */
void *mem_try_realloc(enum mem_sub sub, void *p, size_t n) __attribute__((alloc_size(3), warn_unused_result));

/* Copies `n` bytes into a new block and ends them with a NUL that is not counted. Never NULL. */
char *mem_copy_text(enum mem_sub sub, const char *p, size_t n) __attribute__((malloc, returns_nonnull));

/* Gives a block back. NULL is a no-op. */
void mem_free(enum mem_sub sub, void *p);

/* Bytes held now by a subsystem, as malloc_usable_size() counts them, and its name for the metric's label. */
int64_t mem_used(enum mem_sub sub);
const char *mem_sub_name(enum mem_sub sub);

/* Makes the allocation number `nth` from now (1 is the next one) of the _try_ forms fail, once; 0 switches it off.
 * For fault injection in tests. */
void mem_fail_after(unsigned nth);
