#include "fanout/fanout_park_list.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/jsonw.h"
#include "fanout/fanout_park_record.h"

static err put_member(struct buf *out, const char *name, struct str value)
{
    err e = buf_printf(out, MEM_FANOUT, ",\"%s\":", name);

    return e == E_OK ? jsonw_string(out, MEM_FANOUT, value) : e;
}

static err put_record(struct buf *out, const struct fanout_park_record *record)
{
    const struct {
        const char *name;
        struct str value;
    } members[] = {
        {"channel", record->channel},     {"subscription", record->uid}, {"id", record->event.id},
        {"source", record->event.source}, {"type", record->event.type},
    };
    err e = buf_printf(out, MEM_FANOUT, ",\"parked_at_ms\":%" PRIu64, record->parked_at_ms);

    for (size_t i = 0; i < ARRAY_LEN(members) && e == E_OK; i++)
        e = put_member(out, members[i].name, members[i].value);
    if (e == E_OK)
        e = buf_append(out, MEM_FANOUT, STR(",\"why\":{"));
    for (size_t i = 0; i < record->extras.n && e == E_OK; i++) {
        e = buf_append(out, MEM_FANOUT, i ? STR(",\"") : STR("\""));
        if (e == E_OK)
            e = buf_append(out, MEM_FANOUT, record->extras.attributes[i].name);
        if (e == E_OK)
            e = buf_append(out, MEM_FANOUT, STR("\":"));
        if (e == E_OK)
            e = jsonw_string(out, MEM_FANOUT, record->extras.attributes[i].value);
    }
    return e == E_OK ? buf_append(out, MEM_FANOUT, STR("}")) : e;
}

static err put_event(struct buf *out, struct fanout_park_walk *walk, bool is_first)
{
    struct fanout_park_record record;
    struct arena arena = {0};
    struct str value;
    err e = fanout_park_index_read(walk, &value);

    if (e != E_OK)
        return e;
    e = buf_printf(out, MEM_FANOUT, "%s{\"number\":%" PRIu64 ",\"attempts\":%" PRIu32 ",\"due_ms\":%" PRIu64 ",\"bytes\":%zu",
                   is_first ? "" : ",", walk->number, walk->state.attempts, walk->state.due_ms, value.n);
    if (e == E_OK && fanout_park_record_read(&arena, value, &record) == E_OK)
        e = put_record(out, &record);
    arena_free(&arena, MEM_FANOUT);
    return e == E_OK ? buf_append(out, MEM_FANOUT, STR("}")) : e;
}

static err put_events(struct buf *out, struct fanout_park_index *index, struct store_txn *reader, size_t max)
{
    struct fanout_park_walk walk;
    err e = fanout_park_index_walk(index, reader, false, &walk);
    size_t i = 0;

    if (e != E_OK)
        return e;
    while (i < max && (e = fanout_park_index_next(&walk)) == E_OK) {
        e = put_event(out, &walk, i++ == 0);
        if (e != E_OK)
            break;
    }
    fanout_park_index_end(&walk);
    return e == E_NOTFOUND ? E_OK : e;
}

err fanout_park_list_write(struct fanout_park_index *index, size_t max, struct buf *out)
{
    struct store_txn reader;
    err e = store_reader_open(index->store, &reader);

    if (e != E_OK)
        return E_IO;
    e = buf_printf(out, MEM_FANOUT, "{\"events\":%" PRIu64 ",\"max_bytes\":%" PRIu64 ",\"parked\":[",
                   store_count(&reader, index->states), index->max_bytes);
    if (e == E_OK)
        e = put_events(out, index, &reader, max);
    store_reader_close(&reader);
    return e == E_OK ? buf_append(out, MEM_FANOUT, STR("]}\n")) : e;
}
