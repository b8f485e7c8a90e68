#include "kafka/kafka_consumer_window.h"

#include "base/check.h"
#include "base/mem.h"

enum { DIGIT_BITS = 5, MORE = 1 << DIGIT_BITS, NUMBER_MAX_DIGITS = 13, UNDONE_MAX = 1 << 20 };

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const struct str version = STR_INIT("1:");

static struct source_record *record_at(struct list *link)
{
    return CONTAINER_OF(link, struct source_record, link);
}

/* --- reading metadata --- */

/* Takes the next number. False at the end, or when there is none. */
static bool take_number(struct str *rest, uint64_t *out)
{
    uint64_t value = 0;

    for (unsigned digits = 0; rest->n > 0 && digits < NUMBER_MAX_DIGITS; digits++) {
        const char *at = memchr(alphabet, rest->p[0], sizeof alphabet - 1);
        unsigned digit = at ? (unsigned)(at - alphabet) : 0;

        if (!at)
            return false;
        *rest = str_from_offset(*rest, 1);
        value |= (uint64_t)(digit & (MORE - 1)) << (DIGIT_BITS * digits);
        if (!(digit & MORE)) {
            *out = value;
            return value > 0 && value <= INT32_MAX;
        }
    }
    return false;
}

/* Adds `n` offsets from `from` on. False: there are too many for metadata of ours. */
static bool add_undone(struct kafka_window *w, size_t *capacity, int64_t from, uint64_t n)
{
    if (w->n_undone + n > UNDONE_MAX)
        return false;
    while (w->n_undone + n > *capacity) {
        *capacity = *capacity ? *capacity * 2 : 64;
        w->undone = mem_try_realloc(MEM_KAFKA, w->undone, *capacity * sizeof *w->undone);
        ASSERT(w->undone); /* at most 8 MiB */
    }
    for (uint64_t i = 0; i < n; i++)
        w->undone[w->n_undone++] = from + (int64_t)i;
    return true;
}

/* Runs come in pairs, so that the last one tells of something done. */
static bool read_runs(struct kafka_window *w, int64_t offset, struct str rest)
{
    size_t capacity = 0;
    uint64_t undone, done;

    while (rest.n > 0) {
        if (!take_number(&rest, &undone) || !take_number(&rest, &done) || !add_undone(w, &capacity, offset, undone))
            return false;
        offset += (int64_t)(undone + done);
    }
    w->done_end = offset;
    return true;
}

static void forget_earlier_run(struct kafka_window *w)
{
    mem_free(MEM_KAFKA, w->undone);
    w->undone = NULL;
    w->n_undone = w->next_undone = 0;
    w->done_end = 0;
}

void kafka_window_start(struct kafka_window *w, int64_t offset, struct str metadata)
{
    *w = (struct kafka_window){.next_offset = offset};
    list_init(&w->unsettled);
    if (!str_starts_with(metadata, version) || !read_runs(w, offset, str_from_offset(metadata, version.n)))
        forget_earlier_run(w);
}

/* --- records --- */

bool kafka_window_wants(struct kafka_window *w, int64_t offset)
{
    if (offset < w->next_offset)
        return false;
    w->next_offset = offset;
    if (offset >= w->done_end) {
        forget_earlier_run(w);
        return true;
    }
    while (w->next_undone < w->n_undone && w->undone[w->next_undone] < offset)
        w->next_undone++;
    if (w->next_undone < w->n_undone && w->undone[w->next_undone] == offset)
        return true;
    w->next_offset = offset + 1;
    return false;
}

void kafka_window_add(struct kafka_window *w, struct source_record *record)
{
    w->next_offset = record->offset + 1;
    list_push(&w->unsettled, &record->link);
    w->n_unsettled++;
    w->unsettled_bytes += record->bytes;
}

void kafka_window_settle(struct kafka_window *w, struct source_record *record)
{
    list_remove(&record->link);
    w->n_unsettled--;
    w->unsettled_bytes -= record->bytes;
}

void kafka_window_clear(struct kafka_window *w, struct list *stale)
{
    struct list *link;

    while ((link = list_pop(&w->unsettled))) {
        record_at(link)->is_stale = true;
        list_push(stale, link);
    }
    w->n_unsettled = 0;
    w->unsettled_bytes = 0;
    forget_earlier_run(w);
}

/* --- committing --- */

/* Everything not done, in order: what is out, then what an earlier run left and has not come yet. */
struct walk {
    const struct kafka_window *w;
    struct list *link;
    size_t undone;
};

static struct walk walk_begin(const struct kafka_window *w)
{
    struct walk walk = {w, w->unsettled.next, w->next_undone};

    while (walk.undone < w->n_undone && w->undone[walk.undone] < w->next_offset)
        walk.undone++;
    return walk;
}

static bool walk_next(struct walk *walk, int64_t *out_offset)
{
    const struct kafka_window *w = walk->w;

    if (walk->link != &w->unsettled) {
        *out_offset = record_at(walk->link)->offset;
        walk->link = walk->link->next;
        return true;
    }
    if (walk->undone < w->n_undone) {
        *out_offset = w->undone[walk->undone++];
        return true;
    }
    return false;
}

/* Behind it nothing is known to be done. */
static int64_t end_of(const struct kafka_window *w)
{
    return w->next_offset > w->done_end ? w->next_offset : w->done_end;
}

int64_t kafka_window_commit_point(const struct kafka_window *w)
{
    struct walk walk = walk_begin(w);
    int64_t offset;

    return walk_next(&walk, &offset) ? offset : end_of(w);
}

static size_t put_number(char *out, uint64_t value)
{
    size_t n = 0;

    do {
        unsigned digit = (unsigned)value & (MORE - 1);

        value >>= DIGIT_BITS;
        out[n++] = alphabet[digit | (value ? MORE : 0)];
    } while (value);
    return n;
}

struct writer {
    char *out;
    size_t n, size;
};

/* A pair of runs, whole or not at all. */
static bool put_pair(struct writer *to, int64_t undone, int64_t done)
{
    char text[2 * NUMBER_MAX_DIGITS];
    size_t n = put_number(text, (uint64_t)undone);

    n += put_number(text + n, (uint64_t)done);
    if (undone > INT32_MAX || done > INT32_MAX || to->n + n > to->size)
        return false;
    memcpy(to->out + to->n, text, n);
    to->n += n;
    return true;
}

size_t kafka_window_format(const struct kafka_window *w, char *out, size_t size)
{
    struct walk walk = walk_begin(w);
    struct writer to = {.out = out, .size = size};
    int64_t offset, first, last;

    if (size < version.n || !walk_next(&walk, &first))
        return 0;
    memcpy(out, version.p, version.n);
    to.n = version.n;
    last = first;
    while (walk_next(&walk, &offset)) {
        if (offset != last + 1) {
            if (!put_pair(&to, last + 1 - first, offset - last - 1))
                return to.n > version.n ? to.n : 0;
            first = offset;
        }
        last = offset;
    }
    if (last + 1 < end_of(w))
        (void)put_pair(&to, last + 1 - first, end_of(w) - last - 1); /* what does not fit comes again */
    return to.n > version.n ? to.n : 0;
}
