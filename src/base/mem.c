#include "base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cache line each, so that two subsystems' threads do not slow each other down. */
static struct {
    _Alignas(64) atomic_int_fast64_t bytes;
} counters[MEM_SUBS];

static atomic_uint fail_after;

static const char *const names[MEM_SUBS] = {
    [MEM_BASE] = "base",       [MEM_LOOP] = "loop",     [MEM_CONFIG] = "config",   [MEM_OBS] = "obs",
    [MEM_PROTO] = "proto",     [MEM_HTTP] = "http",     [MEM_KAFKA] = "kafka",     [MEM_REGISTRY] = "registry",
    [MEM_MESSAGE] = "message", [MEM_BROKER] = "broker", [MEM_ADAPTER] = "adapter", [MEM_FANOUT] = "fanout",
    [MEM_STORE] = "store",     [MEM_TABLE] = "table",   [MEM_COMMAND] = "command", [MEM_ROUTES] = "routes",
    [MEM_TEST] = "test",
};

static void count(enum mem_sub sub, int64_t bytes)
{
    atomic_fetch_add_explicit(&counters[sub].bytes, bytes, memory_order_relaxed);
}

static void *counted(enum mem_sub sub, void *p)
{
    if (p)
        count(sub, (int64_t)malloc_usable_size(p));
    return p;
}

static void *or_abort(void *p, size_t n)
{
    if (p)
        return p;
    fprintf(stderr, "out of memory: %zu bytes\n", n);
    abort();
}

static bool must_fail(void)
{
    unsigned left = atomic_load_explicit(&fail_after, memory_order_relaxed);

    if (left == 0)
        return false;
    atomic_store_explicit(&fail_after, left - 1, memory_order_relaxed);
    return left == 1;
}

void *mem_alloc(enum mem_sub sub, size_t n)
{
    return or_abort(counted(sub, malloc(n ? n : 1)), n);
}

void *mem_alloc_zero(enum mem_sub sub, size_t n)
{
    return or_abort(counted(sub, calloc(1, n ? n : 1)), n);
}

void *mem_try_alloc(enum mem_sub sub, size_t n)
{
    return must_fail() ? NULL : counted(sub, malloc(n ? n : 1));
}

void *mem_try_realloc(enum mem_sub sub, void *p, size_t n)
{
    int64_t before = p ? (int64_t)malloc_usable_size(p) : 0;

    if (must_fail())
        return NULL;
    p = realloc(p, n ? n : 1);
    if (p)
        count(sub, (int64_t)malloc_usable_size(p) - before);
    return p;
}

char *mem_copy_text(enum mem_sub sub, const char *p, size_t n)
{
    char *copy = mem_alloc(sub, n + 1);

    if (n)
        memcpy(copy, p, n);
    copy[n] = '\0';
    return copy;
}

void mem_free(enum mem_sub sub, void *p)
{
    if (!p)
        return;
    count(sub, -(int64_t)malloc_usable_size(p));
    free(p);
}

int64_t mem_used(enum mem_sub sub)
{
    return atomic_load_explicit(&counters[sub].bytes, memory_order_relaxed);
}

const char *mem_sub_name(enum mem_sub sub)
{
    return (size_t)sub < MEM_SUBS ? names[sub] : "?";
}

void mem_fail_after(unsigned nth)
{
    atomic_store_explicit(&fail_after, nth, memory_order_relaxed);
}
