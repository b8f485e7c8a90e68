#include "command/command_choice.h"

#include "base/check.h"
#include "command/command_router.h"
#include "loop/loop.h"
#include "registry/usage.h"

struct question {
    struct command_router *router;
    struct str tenant;
    struct routes_route found; /* of the owner that was asked for last and has one */
};

static bool find_route(void *context, struct str device, struct command_route *out_route)
{
    struct question *q = context;
    struct routes_route route;

    if (!routes_find(q->router->replica, q->tenant, device, &route))
        return false;
    *out_route = (struct command_route){.instance = route.instance->name};
    return true;
}

static struct str find_last(void *context, struct str device)
{
    struct question *q = context;

    return routes_last_gateway(q->router->replica, q->tenant, device);
}

/* What was heard here just now, if it is no other instance's concern: whichever of its own gateways this one takes, it acts. */
static void prefer_heard(struct command_router *r, struct str tenant, struct str device, const struct config_strings *gateways,
                         struct command_choice *choice)
{
    struct str heard = command_gateway_heard(r, tenant, device);
    struct routes_route route;

    if (!heard.n || !choice->route.instance->is_self || !routes_find(r->replica, tenant, heard, &route) ||
        !route.instance->is_self)
        return;
    for (size_t i = 0; i < gateways->count; i++)
        if (str_equal(gateways->items[i], heard)) {
            choice->owner = gateways->items[i];
            choice->route = route;
        }
}

/* The device has no subscription of its own: those of its gateways count. */
static void choose_gateway(struct command_router *r, struct str tenant, struct str device,
                           const struct registry_device *registered, struct command_choice *choice)
{
    struct question q = {.router = r, .tenant = tenant};
    struct command_routes routes = {.context = &q, .find = find_route, .last_gateway = find_last};
    struct config_strings gateways;
    struct command_target target;

    arena_reset(&r->scratch, MEM_REGISTRY);
    gateways = registry_find_gateways(r->generation->registry, registered, &r->scratch);
    for (size_t i = 0; i < gateways.count; i++) {
        choice->is_recent = choice->is_recent || routes_is_recent(r->replica, tenant, gateways.items[i]);
        choice->is_coming = choice->is_coming || command_entry_is_coming(r, tenant, gateways.items[i]);
    }
    if (!command_target_choose(&routes, device, gateways.items, gateways.count, &target))
        return;
    ASSERT(target.gateway.n && routes_find(r->replica, tenant, target.gateway, &choice->route));
    choice->owner = target.gateway;
    prefer_heard(r, tenant, device, &gateways, choice);
    choice->has_way = choice->is_through_gateway = true;
}

void command_choice_make(struct command_router *r, struct str tenant, struct str device, struct command_choice *out_choice)
{
    struct command_choice *choice = out_choice;
    struct registration registration;

    *choice = (struct command_choice){.owner = device};
    choice->assertion = registry_assert(r->generation->registry, tenant, device, (struct str){0}, &registration);
    choice->is_recent = routes_is_recent(r->replica, tenant, device);
    choice->is_coming = command_entry_is_coming(r, tenant, device);
    if (routes_find(r->replica, tenant, device, &choice->route)) {
        choice->has_way = true;
        choice->is_through_gateway = choice->route.gateway.n > 0;
    } else if (choice->assertion == REGISTRY_ASSERTED && registration.device->has_gateways) {
        choice->has_gateways = true;
        choose_gateway(r, tenant, device, registration.device, choice);
    }
}

bool command_choice_is_ours(struct command_router *r, struct str tenant, struct str device, const struct command_choice *choice)
{
    const struct routes_instance *first;

    if (choice->has_way)
        return choice->route.instance->is_self;
    first = routes_first(r->replica, tenant, device);
    return first && first->is_self;
}

/* Whether the tenant's data volume (registry/usage.h) has room for it; a tenant that is gone is refused elsewhere. */
static bool has_volume(const struct command *c)
{
    const struct registry_tenant *ten = registry_find_tenant(c->router->generation->registry, c->tenant);

    return !ten || usage_admits(ten, c->record.value.n, (int64_t)loop_wall_ms());
}

/* How a record's fault is counted. */
static const enum command_metric faults[COMMAND_FAULTS] = {
    [COMMAND_FAULT_NO_DEVICE] = COMMAND_COUNT_DROPPED_NO_DEVICE,
    [COMMAND_FAULT_KEY] = COMMAND_COUNT_DROPPED_KEY,
    [COMMAND_FAULT_EXPIRED] = COMMAND_COUNT_DROPPED_EXPIRED,
    [COMMAND_FAULT_SUBJECT] = COMMAND_COUNT_REFUSED_SUBJECT,
    [COMMAND_FAULT_CORRELATION_ID] = COMMAND_COUNT_REFUSED_CORRELATION_ID,
};

static struct command_refusal refuse(enum command_metric what, int status, const char *text)
{
    return (struct command_refusal){.what = what, .status = status, .text = text, .is_refused = true};
}

struct command_refusal command_choice_judge(const struct command *c, const struct command_choice *choice)
{
    struct command_refusal absent = refuse(COMMAND_COUNT_REFUSED_NO_CONSUMER, 503, "no consumer available");
    struct registry *registry = c->router->generation->registry;
    struct registration registration;
    struct str gateway = choice->has_way ? choice->route.gateway : (struct str){0};

    absent.is_absent = true;
    if (c->fault != COMMAND_FAULT_NONE)
        return refuse(faults[c->fault], command_record_fault_status(c->fault), "malformed command message");
    if (c->record.has_ttl && c->record.expires_at_ms < (int64_t)loop_wall_ms())
        return refuse(COMMAND_COUNT_DROPPED_EXPIRED, 0, NULL);
    if (choice->assertion == REGISTRY_NO_TENANT)
        return refuse(COMMAND_COUNT_REFUSED_UNKNOWN_TENANT, 404, "tenant is unknown or disabled");
    if (choice->assertion != REGISTRY_ASSERTED)
        return refuse(COMMAND_COUNT_REFUSED_UNKNOWN_DEVICE, 404, "device is unknown or disabled");
    if (!choice->has_way)
        return absent;
    if (choice->is_through_gateway && !gateway.n && !choice->route.is_for_all)
        return refuse(COMMAND_COUNT_REFUSED_NO_CONSUMER, 503, "gateway takes commands for itself only");
    if (gateway.n && registry_assert(registry, c->tenant, c->record.device_id, gateway, &registration) != REGISTRY_ASSERTED)
        return refuse(COMMAND_COUNT_REFUSED_GATEWAY, 403, "gateway may not act for the device any more");
    if (!has_volume(c))
        return refuse(COMMAND_COUNT_REFUSED_DATA_VOLUME, 429, "data volume of the tenant is used up");
    return (struct command_refusal){0};
}
