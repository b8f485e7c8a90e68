#include "fanout/fanout_park_order.h"

#include "base/check.h"

enum { CHOSEN_MAX = 10000 };

static void choose(struct fanout_park_chosen *chosen, uint64_t number)
{
    if (!chosen->numbers)
        chosen->numbers = mem_alloc(MEM_FANOUT, CHOSEN_MAX * sizeof *chosen->numbers);
    chosen->numbers[chosen->n++] = number;
}

/* Lanes are hashes: the record has the last word. */
static bool is_of(struct fanout_park_walk *walk, const struct fanout_park_order *order)
{
    struct fanout_park_record record;
    struct arena arena = {0};
    struct str value;
    bool is_its = fanout_park_index_read(walk, &value) == E_OK && fanout_park_record_read(&arena, value, &record) == E_OK &&
                  str_equal(record.channel, order->channel) && str_equal(record.uid, order->uid);

    arena_free(&arena, MEM_FANOUT);
    return is_its;
}

static err choose_all(struct fanout_park_order *order, struct fanout_park_flights *flights, struct fanout_park_walk *walk,
                      struct fanout_park_chosen *chosen)
{
    uint64_t lane = fanout_park_record_lane(order->channel, order->uid);
    err e;

    order->n_under_way = 0; /* as it is now */
    for (e = fanout_park_index_seek(walk, lane); e == E_OK && walk->state.lane == lane; e = fanout_park_index_next(walk)) {
        if (chosen->n == CHOSEN_MAX) {
            chosen->has_more = true;
            return E_OK;
        }
        if (fanout_park_flights_has(flights, walk->number))
            order->n_under_way++;
        else if ((order->action == FANOUT_PARK_DISCARD || walk->state.due_ms > order->wall_ms) && is_of(walk, order))
            choose(chosen, walk->number);
    }
    return e == E_NOTFOUND ? E_OK : e;
}

static err choose_one(const struct fanout_park_order *order, struct fanout_park_flights *flights, struct fanout_park_walk *walk,
                      struct fanout_park_chosen *chosen)
{
    err e = fanout_park_index_find(walk, order->number);

    if (e == E_OK && fanout_park_flights_has(flights, order->number))
        return E_BUSY;
    if (e == E_OK)
        choose(chosen, order->number);
    return e;
}

err fanout_park_order_choose(struct fanout_park_order *order, struct fanout_park_flights *flights,
                             struct fanout_park_chosen *out_chosen)
{
    struct fanout_park_walk walk;
    err e = store_reader_renew(&flights->reader);

    *out_chosen = (struct fanout_park_chosen){0};
    if (e == E_OK)
        e = fanout_park_index_walk(flights->index, &flights->reader, order->number == 0, &walk);
    if (e == E_OK) {
        e = order->number ? choose_one(order, flights, &walk, out_chosen) : choose_all(order, flights, &walk, out_chosen);
        if (e == E_OK && order->action == FANOUT_PARK_RETRY)
            fanout_park_flights_wake(flights,
                                     order->number ? walk.state.lane : fanout_park_record_lane(order->channel, order->uid));
        fanout_park_index_end(&walk);
    }
    store_reader_rest(&flights->reader);
    if (e != E_OK)
        fanout_park_order_drop(out_chosen);
    return e == E_OK || e == E_NOTFOUND || e == E_BUSY ? e : E_IO;
}

err fanout_park_order_obey(const struct fanout_park_order *order, const struct fanout_park_chosen *chosen,
                           struct fanout_park_change *change)
{
    err e = E_OK;

    for (size_t i = 0; i < chosen->n && e == E_OK; i++)
        e = order->action == FANOUT_PARK_DISCARD ? fanout_park_index_remove(change, chosen->numbers[i])
                                                 : fanout_park_index_hasten(change, chosen->numbers[i], order->wall_ms);
    return e;
}

void fanout_park_order_drop(struct fanout_park_chosen *chosen)
{
    mem_free(MEM_FANOUT, chosen->numbers);
    *chosen = (struct fanout_park_chosen){0};
}
