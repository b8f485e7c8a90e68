#include "routes/routes_done.h"

#include <string.h>

#include "base/mem.h"
#include "routes/routes_record.h"

enum { FIRST_ROOM = 8 };

/* The place of the first range that ends at or behind `offset`: the only one that may have it, or touch what begins there. */
static size_t place_of(const struct routes_done *done, uint64_t offset)
{
    size_t low = 0, high = done->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (done->ranges[middle].to < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool routes_done_has(const struct routes_done *done, uint64_t offset)
{
    size_t at;

    if (offset < done->watermark)
        return true;
    at = place_of(done, offset + 1); /* offsets are those of Kafka, below 2^63 */
    return at < done->n && done->ranges[at].from <= offset;
}

static void remove_ranges(struct routes_done *done, size_t at, size_t n)
{
    if (n == 0)
        return;
    memmove(&done->ranges[at], &done->ranges[at + n], (done->n - at - n) * sizeof *done->ranges);
    done->n -= n;
}

void routes_done_pass(struct routes_done *done, uint64_t offset)
{
    size_t n = 0;

    if (offset > done->watermark)
        done->watermark = offset;
    while (n < done->n && done->ranges[n].from <= done->watermark) {
        if (done->ranges[n].to > done->watermark)
            done->watermark = done->ranges[n].to;
        n++;
    }
    remove_ranges(done, 0, n);
}

static void make_room(struct routes_done *done)
{
    size_t room = done->room ? 2 * done->room : FIRST_ROOM;
    struct routes_range *ranges;

    if (done->n < done->room)
        return;
    ranges = mem_alloc(MEM_ROUTES, room * sizeof *ranges);
    if (done->n)
        memcpy(ranges, done->ranges, done->n * sizeof *ranges);
    mem_free(MEM_ROUTES, done->ranges);
    done->ranges = ranges;
    done->room = room;
}

static bool insert(struct routes_done *done, size_t at, uint64_t from, uint64_t to)
{
    if (done->n >= ROUTES_DONE_RANGES_MAX)
        return false;
    make_room(done);
    memmove(&done->ranges[at + 1], &done->ranges[at], (done->n - at) * sizeof *done->ranges);
    done->ranges[at] = (struct routes_range){from, to};
    done->n++;
    return true;
}

bool routes_done_add(struct routes_done *done, uint64_t from, uint64_t to)
{
    size_t at, n = 0;

    if (to <= from || to <= done->watermark)
        return true;
    if (from <= done->watermark) {
        routes_done_pass(done, to);
        return true;
    }
    at = place_of(done, from);
    while (at + n < done->n && done->ranges[at + n].from <= to)
        n++;
    if (n == 0)
        return insert(done, at, from, to);
    if (done->ranges[at].from < from)
        from = done->ranges[at].from;
    if (done->ranges[at + n - 1].to > to)
        to = done->ranges[at + n - 1].to;
    done->ranges[at] = (struct routes_range){from, to};
    remove_ranges(done, at + 1, n - 1);
    return true;
}

void routes_done_write(const struct routes_done *done, struct buf *out)
{
    routes_record_put_number(out, done->watermark, 8);
    for (size_t i = 0; i < done->n; i++) {
        routes_record_put_number(out, done->ranges[i].from, 8);
        routes_record_put_number(out, done->ranges[i].to, 8);
    }
}

err routes_done_read(struct str bytes, struct routes_done *out_done)
{
    struct routes_in in = {.rest = bytes};

    *out_done = (struct routes_done){.watermark = routes_record_take_number(&in, 8)};
    while (!in.has_failed && in.rest.n > 0) {
        uint64_t from = routes_record_take_number(&in, 8), to = routes_record_take_number(&in, 8);
        uint64_t behind = out_done->n ? out_done->ranges[out_done->n - 1].to : out_done->watermark;

        if (in.has_failed || from <= behind || to <= from || to > INT64_MAX || !insert(out_done, out_done->n, from, to))
            in.has_failed = true;
    }
    if (!in.has_failed && out_done->watermark <= INT64_MAX)
        return E_OK;
    routes_done_free(out_done);
    return E_INVAL;
}

void routes_done_free(struct routes_done *done)
{
    mem_free(MEM_ROUTES, done->ranges);
    *done = (struct routes_done){.n = 0};
}
