#include "fanout/fanout_route.h"

enum { MAX_WAIT_S = 24 * 3600 };

/* "/ns/name" as "ns/name"; empty when it is not of that form. */
static struct str key_of(struct str path)
{
    struct str key = str_from_offset(path, 1), rest = key, ns, name;
    bool has_more;

    if (key.n && key.p[key.n - 1] == '/')
        key.n = rest.n = key.n - 1;
    ns = str_take(&rest, '/', &has_more);
    name = has_more ? str_take(&rest, '/', &has_more) : (struct str){0};
    return ns.n && name.n && !has_more ? key : (struct str){0};
}

uint16_t fanout_route_find(const struct fanout_snapshot *snapshot, const struct http_request *request,
                           const struct fanout_channel **out_channel)
{
    struct str key = key_of(request->path);
    bool is_by_host = str_equal(request->path, STR("/"));

    if (!is_by_host && !key.n)
        return 400;
    if (is_by_host && !fanout_snapshot_find_host(snapshot, request->authority, out_channel))
        return 400;
    if (!is_by_host)
        *out_channel = fanout_snapshot_find_key(snapshot, key);
    if (*out_channel)
        return 0;
    return (is_by_host ? fanout_snapshot_lacks_host(snapshot, request->authority) : fanout_snapshot_lacks_key(snapshot, key))
               ? 503
               : 404;
}

/* The seconds of one header's `wait`. False: it has none. */
static bool find_wait(struct str value, uint64_t *out_s)
{
    bool has_more = true;

    while (has_more) {
        struct str rest = str_take(&value, ',', &has_more), name;
        bool has_value;

        name = str_trim(str_take(&rest, '=', &has_value));
        if (has_value && str_equal_nocase(name, STR("wait")))
            return str_to_u64(str_trim(rest), MAX_WAIT_S, out_s);
    }
    return false;
}

uint64_t fanout_route_wait_ms(const struct http_request *request, uint64_t limit_ms)
{
    uint64_t wait_s;

    for (size_t i = 0; i < request->n_headers; i++)
        if (str_equal_nocase(request->headers[i].name, STR("prefer")) && find_wait(request->headers[i].value, &wait_s) &&
            wait_s > 0 && wait_s * 1000 < limit_ms)
            return wait_s * 1000;
    return limit_ms;
}
