#include "fanout/fanout_view.h"

#include "base/check.h"
#include "fanout/fanout_plane.h"

struct fanout_view *fanout_view_take(struct fanout_plane *plane, struct fanout_snapshot *snapshot)
{
    struct fanout_view *view;
    size_t n = 0;

    for (struct list *link = plane->views.prev; link != &plane->views; link = link->prev) {
        view = CONTAINER_OF(link, struct fanout_view, link);
        if (view->snapshot == snapshot)
            return fanout_view_ref(view);
    }
    view = mem_alloc_zero(MEM_FANOUT, sizeof *view);
    view->plane = plane;
    view->snapshot = fanout_snapshot_ref(snapshot);
    view->references = 1;
    view->slots = mem_alloc_zero(MEM_FANOUT, (snapshot->n_subscriptions + 1) * sizeof *view->slots);
    view->strands = mem_alloc_zero(MEM_FANOUT, (snapshot->n_channels + 1) * sizeof *view->strands);
    for (size_t i = 0; i < snapshot->n_channels; i++) {
        view->strands[i].slots = view->slots + n;
        n += snapshot->channels[i].n_subscriptions;
    }
    ASSERT(n <= snapshot->n_subscriptions);
    list_push(&plane->views, &view->link);
    return view;
}

static void free_slot(const struct fanout_slot *slot, uint64_t now_ms)
{
    fanout_lane_give(slot->lane, now_ms);
    for (int role = 0; role < FANOUT_ROLES; role++)
        fanout_endpoint_give(slot->endpoints[role], now_ms);
}

void fanout_view_unref(struct fanout_view *view)
{
    if (!view || --view->references > 0)
        return;
    for (size_t i = 0; i < view->snapshot->n_subscriptions; i++)
        free_slot(&view->slots[i], view->plane->worker->loop.now_ms);
    list_remove(&view->link);
    fanout_snapshot_unref(view->snapshot);
    mem_free(MEM_FANOUT, view->slots);
    mem_free(MEM_FANOUT, view->strands);
    mem_free(MEM_FANOUT, view);
}

struct fanout_slot *fanout_view_slot(struct fanout_view *view, const struct fanout_channel *channel,
                                     const struct fanout_subscription *subscription)
{
    struct fanout_slot *slot = &fanout_view_strand(view, channel)->slots[subscription->index];

    if (!slot->lane)
        slot->lane = fanout_lane_take(&view->plane->lanes, channel->key, subscription->uid);
    return slot;
}

struct fanout_endpoint *fanout_view_endpoint(struct fanout_view *view, struct fanout_slot *slot, enum fanout_role role,
                                             const struct fanout_target *target)
{
    if (!slot->endpoints[role])
        slot->endpoints[role] = fanout_endpoint_take(&view->plane->endpoints, target->text, view->plane->worker->loop.now_ms);
    return slot->endpoints[role];
}
