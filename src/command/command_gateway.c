/* Gateways that devices were heard through. The routes have them, a little later; what was heard here counts here at once, where it does not matter
 * that the other instances do not know: among gateways that are all connected to this one. */
#include "base/check.h"
#include "base/siphash.h"
#include "command/command_router.h"
#include "loop/loop.h"

enum { FRESH_MAX = 10000, FRESH_MS = 2000 };

/* Heard, and on its way to the routes. */
struct command_heard {
    struct mail mail;
    struct command_router *router;
    struct list by_age;
    uint64_t at_ms, hash;
    struct str tenant, device, gateway;
    char text[];
};

static bool is_heard_of(const void *entry, const void *key)
{
    const struct command_heard *heard = entry;

    return command_pair_is(key, heard->tenant, heard->device);
}

static struct command_heard *find(struct command_router *r, struct str tenant, struct str device)
{
    struct command_pair pair = {tenant, device};

    return r->heard.n_entries ? map_find(&r->heard, siphash_pair(tenant, device), &pair, is_heard_of) : NULL;
}

static void drop(struct command_heard *heard)
{
    list_remove(&heard->by_age);
    ASSERT(map_remove(&heard->router->heard, heard->hash, heard));
    mem_free(MEM_COMMAND, heard);
}

struct str command_gateway_heard(struct command_router *r, struct str tenant, struct str device)
{
    struct command_heard *heard = find(r, tenant, device);

    return heard ? heard->gateway : (struct str){0};
}

static void drop_old(struct command_router *r)
{
    uint64_t now_ms = r->worker->loop.now_ms;

    while (!list_is_empty(&r->heard_by_age)) {
        struct command_heard *oldest = CONTAINER_OF(r->heard_by_age.next, struct command_heard, by_age);

        if (oldest->at_ms + FRESH_MS > now_ms && r->heard.n_entries < FRESH_MAX)
            return;
        drop(oldest);
    }
}

static void on_heard(struct mail *m)
{
    struct command_heard *heard = CONTAINER_OF(m, struct command_heard, mail);
    struct command_router *r = heard->router;
    struct command_heard *before = find(r, heard->tenant, heard->device);
    struct str known = before ? before->gateway : routes_last_gateway(r->replica, heard->tenant, heard->device);

    if (str_equal(known, heard->gateway)) {
        mem_free(MEM_COMMAND, heard);
        return;
    }
    if (before)
        drop(before);
    drop_old(r);
    heard->at_ms = r->worker->loop.now_ms;
    map_add(&r->heard, MEM_COMMAND, heard->hash, heard);
    list_push(&r->heard_by_age, &heard->by_age);
    routes_note_gateway(r->replica, heard->tenant, heard->device, heard->gateway);
}

void command_gateway_on_route(struct command_router *r, struct str tenant, struct str device)
{
    struct command_heard *heard = find(r, tenant, device);

    if (heard && str_equal(routes_last_gateway(r->replica, tenant, device), heard->gateway))
        drop(heard);
}

void command_note_gateway(struct command_plane *plane, struct str tenant, struct str device, struct str gateway)
{
    struct command_heard *heard = mem_alloc(MEM_COMMAND, sizeof *heard + tenant.n + device.n + gateway.n);
    char *at = heard->text;

    *heard = (struct command_heard){
        .mail = {.on_mail = on_heard}, .router = command_router_of(plane, tenant), .hash = siphash_pair(tenant, device)};
    heard->tenant = str_put(&at, tenant);
    heard->device = str_put(&at, device);
    heard->gateway = str_put(&at, gateway);
    mailbox_post(&heard->router->worker->loop.mailbox, &heard->mail);
}

void command_gateway_fini(struct command_router *r)
{
    while (!list_is_empty(&r->heard_by_age))
        drop(CONTAINER_OF(r->heard_by_age.next, struct command_heard, by_age));
    map_free(&r->heard, MEM_COMMAND);
}
