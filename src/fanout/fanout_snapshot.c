#include "fanout/fanout_snapshot.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/siphash.h"
#include "fanout/fanout_snapshot_private.h"

/* Where the Host of a channel continues behind its namespace: Kubernetes' services, and what the first sidecar's were called. */
static const struct str continuations[] = {STR_INIT("svc"), STR_INIT("channels")};

struct fanout_snapshot *fanout_snapshot_ref(struct fanout_snapshot *snapshot)
{
    atomic_fetch_add_explicit(&snapshot->references, 1, memory_order_relaxed);
    return snapshot;
}

void fanout_snapshot_unref(struct fanout_snapshot *snapshot)
{
    struct arena arena;

    if (!snapshot || atomic_fetch_sub_explicit(&snapshot->references, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < snapshot->n_channels; i++)
        fanout_snapshot_unref(snapshot->channels[i].donor);
    map_free(&snapshot->by_key, MEM_CONFIG);
    map_free(&snapshot->by_host, MEM_CONFIG);
    arena = snapshot->arena; /* in which the snapshot itself lies */
    arena_free(&arena, MEM_CONFIG);
}

static bool has_key(const void *entry, const void *key)
{
    return str_equal(((const struct fanout_channel *)entry)->key, *(const struct str *)key);
}

static bool has_host(const void *entry, const void *host)
{
    return str_equal(((const struct fanout_host *)entry)->host, *(const struct str *)host);
}

const struct fanout_channel *fanout_snapshot_find_key(const struct fanout_snapshot *snapshot, struct str key)
{
    return map_find(&snapshot->by_key, siphash(key), &key, has_key);
}

const struct fanout_host *fanout_snapshot_find_alias(const struct fanout_snapshot *snapshot, struct str host)
{
    return map_find(&snapshot->by_host, siphash(host), &host, has_host);
}

size_t fanout_host_normalize(struct str host, char to[FANOUT_HOST_BYTES])
{
    const char *colon = host.n ? memrchr(host.p, ':', host.n) : NULL;

    if (colon)
        host.n = (size_t)(colon - host.p);
    if (host.n && host.p[host.n - 1] == '.')
        host.n--;
    if (host.n > FANOUT_HOST_BYTES)
        return 0;
    for (size_t i = 0; i < host.n; i++)
        to[i] = host.p[i] >= 'A' && host.p[i] <= 'Z' ? (char)(host.p[i] - 'A' + 'a') : host.p[i];
    return host.n;
}

bool fanout_host_to_key(struct str host, char to[FANOUT_HOST_BYTES], size_t *out_n)
{
    static const struct str suffix = STR_INIT("-kn-channel");
    struct str rest = host, name, ns;
    bool has_more;

    *out_n = 0;
    name = str_take(&rest, '.', &has_more);
    if (!has_more)
        return false;
    ns = str_take(&rest, '.', &has_more);
    if (has_more) {
        struct str behind = str_take(&rest, '.', &has_more);
        bool is_known = false;

        for (size_t i = 0; i < ARRAY_LEN(continuations); i++)
            is_known = is_known || str_equal(behind, continuations[i]);
        if (!is_known)
            return true;
    }
    if (name.n > suffix.n && str_equal(str_from_offset(name, name.n - suffix.n), suffix))
        name.n -= suffix.n;
    memcpy(to, ns.p, ns.n);
    to[ns.n] = '/';
    memcpy(to + ns.n + 1, name.p, name.n);
    *out_n = ns.n + 1 + name.n;
    return true;
}

bool fanout_snapshot_find_host(const struct fanout_snapshot *snapshot, struct str host,
                               const struct fanout_channel **out_channel)
{
    char normal[FANOUT_HOST_BYTES], key[FANOUT_HOST_BYTES];
    size_t n = fanout_host_normalize(host, normal), n_key;
    const struct fanout_host *alias = fanout_snapshot_find_alias(snapshot, (struct str){normal, n});

    *out_channel = alias ? alias->channel : NULL;
    if (alias)
        return true;
    if (!fanout_host_to_key((struct str){normal, n}, key, &n_key))
        return false;
    *out_channel = n_key ? fanout_snapshot_find_key(snapshot, (struct str){key, n_key}) : NULL;
    return true;
}

bool fanout_snapshot_lacks_key(const struct fanout_snapshot *snapshot, struct str key)
{
    for (size_t i = 0; i < snapshot->n_isolated; i++)
        if (key.n && !snapshot->isolated[i].kept && str_equal(snapshot->isolated[i].key, key))
            return true;
    return false;
}

bool fanout_snapshot_lacks_host(const struct fanout_snapshot *snapshot, struct str host)
{
    char normal[FANOUT_HOST_BYTES], key[FANOUT_HOST_BYTES];
    size_t n = fanout_host_normalize(host, normal), n_key;

    return fanout_host_to_key((struct str){normal, n}, key, &n_key) &&
           fanout_snapshot_lacks_key(snapshot, (struct str){key, n_key});
}
