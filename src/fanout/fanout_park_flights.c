#include "fanout/fanout_park_flights.h"

#include "base/check.h"
#include "base/log.h"
#include "fanout/fanout_park_metrics.h"
#include "loop/loop.h"

enum {
    FLYING_MAX = 32,             /* attempts at once */
    LANE_FLYING_MAX = 4,         /* of one subscription */
    FLYING_BYTES_MAX = 32 << 20, /* of all; one goes whatever its size */
    FAILURES_MAX = 4, /* of a subscription in a row; then it rests, and one attempt at a time says whether it is well again */
    LOOK_AGAIN_MS = 60 * 1000, /* at the latest: the wall clock may be set */
    PAUSE_AFTER_FAULT_MS = 5 * 1000,
};

/* What is known of one subscription. */
struct fanout_park_lane {
    uint64_t id;
    uint64_t rests_until_ms; /* of the loop's clock */
    uint32_t failures;       /* in a row */
    uint32_t n_flying;
};

/* ---- lanes ---- */

static bool is_of(const void *entry, const void *key)
{
    return ((const struct fanout_park_lane *)entry)->id == *(const uint64_t *)key;
}

static struct fanout_park_lane *find_lane(const struct fanout_park_flights *flights, uint64_t id)
{
    return map_find(&flights->lanes, id, &id, is_of);
}

static struct fanout_park_lane *take_lane(struct fanout_park_flights *flights, uint64_t id)
{
    struct fanout_park_lane *lane = find_lane(flights, id);

    if (lane)
        return lane;
    lane = mem_alloc_zero(MEM_FANOUT, sizeof *lane);
    lane->id = id;
    map_add(&flights->lanes, MEM_FANOUT, id, lane);
    return lane;
}

/* What has nothing to say is not kept. */
static void give_lane(struct fanout_park_flights *flights, struct fanout_park_lane *lane)
{
    lane->n_flying--;
    if (lane->n_flying || lane->failures)
        return;
    ASSERT(map_remove(&flights->lanes, lane->id, lane));
    mem_free(MEM_FANOUT, lane);
}

uint64_t fanout_park_flights_delay(const struct fanout_park_flights *flights, uint32_t failures, uint64_t salt)
{
    uint64_t delay = flights->delay_ms, spread = (salt * 0x9e3779b97f4a7c15u) >> 44; /* 20 bits */

    for (uint32_t i = 0; i < failures && delay < flights->delay_max_ms; i++)
        delay *= 2;
    if (delay > flights->delay_max_ms)
        delay = flights->delay_max_ms;
    return delay / 2 + (delay / 2 * spread >> 20);
}

static void judge(const struct fanout_park_flights *flights, struct fanout_park_lane *lane, err result)
{
    if (result == E_AGAIN)
        return;
    if (result == E_OK) {
        lane->failures = 0;
        return;
    }
    if (++lane->failures >= FAILURES_MAX)
        lane->rests_until_ms = loop_clock_ms() + fanout_park_flights_delay(flights, lane->failures - FAILURES_MAX, lane->id);
}

/* ---- landing ---- */

static void on_back(struct mail *m)
{
    struct fanout_park_flight *flight = CONTAINER_OF(m, struct fanout_park_flight, back);
    struct fanout_park_flights *flights = flight->flights;

    list_remove(&flight->link);
    list_push(&flights->landed, &flight->link);
    judge(flights, flight->lane, flight->attempt.result);
    flights->on_landed(flights);
}

void fanout_park_disk_answer(struct fanout_park_attempt *attempt)
{
    struct fanout_park_flight *flight = CONTAINER_OF(attempt, struct fanout_park_flight, attempt);

    mailbox_post(flight->flights->home, &flight->back);
}

void fanout_park_flights_drop(struct fanout_park_flight *flight)
{
    struct fanout_park_flights *flights = flight->flights;

    list_remove(&flight->link);
    flights->n_flying--;
    flights->flying_bytes -= flight->n_value;
    give_lane(flights, flight->lane);
    arena_free(&flight->arena, MEM_FANOUT);
    mem_free(MEM_FANOUT, flight);
}

/* ---- launching ---- */

static bool has_number(struct list *list, uint64_t number)
{
    for (struct list *node = list->next; node != list; node = node->next)
        if (CONTAINER_OF(node, struct fanout_park_flight, link)->number == number)
            return true;
    return false;
}

bool fanout_park_flights_has(struct fanout_park_flights *flights, uint64_t number)
{
    return has_number(&flights->flying, number) || has_number(&flights->landed, number);
}

void fanout_park_flights_wake(struct fanout_park_flights *flights, uint64_t id)
{
    struct fanout_park_lane *lane = find_lane(flights, id);

    if (lane)
        lane->rests_until_ms = 0;
}

static struct fanout_park_flight *flight_new(struct fanout_park_flights *flights, const struct fanout_park_walk *walk,
                                             struct str value)
{
    struct fanout_park_flight *flight = mem_try_alloc(MEM_FANOUT, sizeof *flight + value.n);

    if (!flight)
        return NULL;
    *flight = (struct fanout_park_flight){
        .flights = flights,
        .back = {.on_mail = on_back},
        .attempt = {.record = &flight->record},
        .lane = take_lane(flights, walk->state.lane),
        .number = walk->number,
        .attempts = walk->state.attempts,
        .n_value = value.n,
    };
    memcpy(flight->value, value.p, value.n);
    list_push(&flights->flying, &flight->link);
    flight->lane->n_flying++;
    flights->n_flying++;
    flights->flying_bytes += value.n;
    return flight;
}

/* The event that the walk is at. False: there is no room for more. */
static bool launch(struct fanout_park_flights *flights, struct fanout_park_walk *walk)
{
    struct fanout_park_flight *flight;
    struct str value;

    if (flights->n_flying == FLYING_MAX || fanout_park_index_read(walk, &value) != E_OK ||
        (flights->n_flying > 0 && flights->flying_bytes + value.n > FLYING_BYTES_MAX))
        return false;
    flight = flight_new(flights, walk, value);
    if (!flight)
        return false;
    fanout_park_metrics_add(FANOUT_PARK_ATTEMPTS, 1);
    if (fanout_park_record_read(&flight->arena, (struct str){flight->value, value.n}, &flight->record) == E_OK) {
        flights->carrier->carry(flights->carrier, &flight->attempt);
        return true;
    }
    LOG_ERROR(LOG_FANOUT, "fanout.park.unreadable", F_INT("number", flight->number));
    flight->attempt.result = E_PROTO;
    fanout_park_disk_answer(&flight->attempt);
    return true;
}

struct look {
    uint64_t now_ms, wall_ms, wait_ms;
};

static void wait_at_most(struct look *look, uint64_t ms)
{
    if (ms < look->wait_ms)
        look->wait_ms = ms;
}

static bool is_full(const struct fanout_park_flights *flights, uint64_t id)
{
    const struct fanout_park_lane *lane = find_lane(flights, id);

    return lane && lane->n_flying >= (lane->failures < FAILURES_MAX ? LANE_FLYING_MAX : 1);
}

/* The lane whose first event the walk is at. False: there is no room for more, of any lane. */
static bool launch_lane(struct fanout_park_flights *flights, struct fanout_park_walk *walk, struct look *look)
{
    uint64_t id = walk->state.lane, latest_ms = look->wall_ms + flights->delay_max_ms;
    const struct fanout_park_lane *lane = find_lane(flights, id);

    if (lane && lane->failures >= FAILURES_MAX && lane->rests_until_ms > look->now_ms) {
        wait_at_most(look, lane->rests_until_ms - look->now_ms);
        return true;
    }
    do {
        uint64_t due_ms = walk->state.due_ms;

        /* Further away than any delay: the wall clock was set back. */
        if (due_ms > look->wall_ms && due_ms <= latest_ms) {
            wait_at_most(look, due_ms - look->wall_ms);
            return true;
        }
        if (fanout_park_flights_has(flights, walk->number))
            continue;
        if (is_full(flights, id))
            return true; /* one of them will land, and be followed by a look */
        if (!launch(flights, walk))
            return false;
    } while (fanout_park_index_next(walk) == E_OK && walk->state.lane == id);
    return true;
}

/* All lanes once, beginning with the one whose turn it is. */
static err launch_all(struct fanout_park_flights *flights, struct fanout_park_walk *walk, struct look *look)
{
    uint64_t first = flights->next_lane, lane = first;
    bool is_second_half = false;
    err e;

    for (;;) {
        e = fanout_park_index_seek(walk, lane);
        if (e != E_OK && e != E_NOTFOUND)
            return e;
        if (e == E_NOTFOUND) {
            if (is_second_half || first == 0)
                return E_OK;
            is_second_half = true;
            lane = 0;
            continue;
        }
        lane = walk->state.lane;
        if (is_second_half && lane >= first)
            return E_OK;
        if (!launch_lane(flights, walk, look)) {
            flights->next_lane = lane;
            return E_OK;
        }
        if (++lane == 0)
            return E_OK;
    }
}

uint64_t fanout_park_flights_launch(struct fanout_park_flights *flights, uint64_t now_ms, uint64_t wall_ms)
{
    struct look look = {.now_ms = now_ms, .wall_ms = wall_ms, .wait_ms = LOOK_AGAIN_MS};
    struct fanout_park_walk walk;
    err e;

    if (!flights->carrier)
        return LOOK_AGAIN_MS;
    e = store_reader_renew(&flights->reader);
    if (e == E_OK)
        e = fanout_park_index_walk(flights->index, &flights->reader, true, &walk);
    if (e == E_OK) {
        e = launch_all(flights, &walk, &look);
        fanout_park_index_end(&walk);
    }
    store_reader_rest(&flights->reader);
    return e == E_OK ? look.wait_ms : PAUSE_AFTER_FAULT_MS;
}

/* ---- life ---- */

err fanout_park_flights_init(struct fanout_park_flights *flights)
{
    err e = store_reader_open(flights->index->store, &flights->reader);

    list_init(&flights->flying);
    list_init(&flights->landed);
    if (e == E_OK)
        store_reader_rest(&flights->reader);
    return e;
}

void fanout_park_flights_fini(struct fanout_park_flights *flights)
{
    uint32_t cursor = 0;
    struct fanout_park_lane *lane;

    while (!list_is_empty(&flights->flying))
        fanout_park_flights_drop(CONTAINER_OF(flights->flying.next, struct fanout_park_flight, link));
    while ((lane = map_next(&flights->lanes, &cursor)) != NULL)
        mem_free(MEM_FANOUT, lane);
    map_free(&flights->lanes, MEM_FANOUT);
    store_reader_close(&flights->reader);
}
