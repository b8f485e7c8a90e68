/* table_fixture: a small table for tests. Its requests are texts:
 *   put KEY VALUE       create KEY VALUE (refused if it is there)    remove KEY (refused if it is not)
 *   add KEY             adds one to a number
 *   both KEY KEY VALUE  puts the first, then creates the second: all or nothing
 *   list PREFIX         changes nothing; the reply has the keys, each with a space behind it
 * The partition key is what stands before the first '/' of the first key. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "loop/loop.h"
#include "store/store.h"
#include "table/table.h"
#include "table/table_log_local.h"

enum { FIXTURE_PARTITIONS = 3, FIXTURE_WAIT_MS = 60 * 1000 };

struct table_fixture {
    char path[64], view_path[80], log_path[80];
    struct store *view_store, *log_store;
    struct table_log *log;
    struct table *t;
    struct loop loop;
    struct mail opened;
    bool is_opened, has_loop;
    unsigned n_applied; /* written by the table's thread while nobody looks */
    unsigned n_rebuilt;
};

struct fixture_write {
    struct table_write write;
    char text[1200];
    bool is_done;
};

struct fixture_words {
    struct str verb, a, b, c;
};

static inline struct fixture_words fixture_split(struct str text)
{
    struct fixture_words w;
    bool more;

    w.verb = str_take(&text, ' ', &more);
    w.a = str_take(&text, ' ', &more);
    w.b = str_take(&text, ' ', &more);
    w.c = text;
    return w;
}

static inline bool fixture_list(struct table_txn *txn, struct str prefix, struct buf *out)
{
    struct table_item item = {.offset = 0};

    while (table_txn_next(txn, prefix, item.key, &item)) {
        ASSERT(buf_append(out, MEM_TABLE, item.key) == E_OK);
        ASSERT(buf_append(out, MEM_TABLE, STR(" ")) == E_OK);
    }
    return true;
}

static inline bool fixture_add(struct table_txn *txn, struct str key)
{
    struct str value;
    uint64_t n = 0;
    char text[24];

    if (table_txn_get(txn, key, &value) && !str_to_u64(value, UINT32_MAX, &n))
        return false;
    n = (uint64_t)snprintf(text, sizeof text, "%llu", (unsigned long long)n + 1);
    return table_txn_put(txn, key, (struct str){text, (size_t)n}) == E_OK;
}

static inline enum table_verdict fixture_decide(void *context, struct table_txn *txn, struct str request, struct buf *out_reply)
{
    struct fixture_words w = fixture_split(request);
    struct str value;
    bool is_there = table_txn_get(txn, w.a, &value), ok = false;

    (void)context;
    if (str_equal(w.verb, STR("put")))
        ok = table_txn_put(txn, w.a, w.b) == E_OK;
    else if (str_equal(w.verb, STR("create")))
        ok = !is_there && table_txn_put(txn, w.a, w.b) == E_OK;
    else if (str_equal(w.verb, STR("remove")))
        ok = is_there && table_txn_remove(txn, w.a) == E_OK;
    else if (str_equal(w.verb, STR("add")))
        ok = fixture_add(txn, w.a);
    else if (str_equal(w.verb, STR("both")))
        ok = table_txn_put(txn, w.a, w.c) == E_OK && !table_txn_get(txn, w.b, &value) && table_txn_put(txn, w.b, w.c) == E_OK;
    else if (str_equal(w.verb, STR("list")))
        ok = fixture_list(txn, w.a, out_reply);
    else
        ASSERT(buf_append(out_reply, MEM_TABLE, STR("what?")) == E_OK);
    return ok ? TABLE_ACCEPTED : TABLE_REFUSED;
}

static inline void fixture_on_applied(void *context, const struct table_change *change)
{
    struct table_fixture *f = context;

    assert_true(change->key.n > 0);
    f->n_applied++;
}

static inline void fixture_on_rebuild(void *context, unsigned partition)
{
    struct table_fixture *f = context;

    (void)partition;
    f->n_rebuilt++;
}

static inline void fixture_on_opened(struct mail *m)
{
    CONTAINER_OF(m, struct table_fixture, opened)->is_opened = true;
}

static inline void fixture_turn(struct table_fixture *f, uint64_t since_ms, const char *what)
{
    if (loop_clock_ms() - since_ms > FIXTURE_WAIT_MS)
        fail_msg("waited in vain for %s", what);
    loop_turn(&f->loop, 20);
}

static inline void fixture_wait(struct table_fixture *f, const bool *is_done, const char *what)
{
    uint64_t since_ms = loop_clock_ms();

    while (!*is_done)
        fixture_turn(f, since_ms, what);
}

static const struct table_ops fixture_ops = {
    .decide = fixture_decide, .on_applied = fixture_on_applied, .on_rebuild = fixture_on_rebuild};

static inline struct store *fixture_store(const char *path, enum store_durability durability)
{
    const struct store_options options = {.path = path, .durability = durability};
    struct store *s = NULL;
    struct errinfo ei = {0};

    if (store_open(&options, &s, &ei) != E_OK)
        fail_msg("%s", ei.text);
    return s;
}

/* Opens view and table over a log. */
static inline void fixture_open_table(struct table_fixture *f, struct table_log *log)
{
    const struct table_options options = {.name = "things",
                                          .ops = &fixture_ops,
                                          .context = f,
                                          .store = f->view_store,
                                          .log = log,
                                          .n_partitions = FIXTURE_PARTITIONS};
    struct errinfo ei = {0};

    f->is_opened = false;
    f->n_applied = f->n_rebuilt = 0;
    f->opened.on_mail = fixture_on_opened;
    if (table_open(&options, &f->opened, &f->loop.mailbox, &f->t, &ei) != E_OK)
        fail_msg("%s", ei.text);
}

static inline void fixture_open(struct table_fixture *f)
{
    struct errinfo ei = {0};

    f->view_store = fixture_store(f->view_path, STORE_REBUILDABLE);
    f->log_store = fixture_store(f->log_path, STORE_DURABLE);
    if (table_log_local_open(f->log_store, "things", FIXTURE_PARTITIONS, &f->log, &ei) != E_OK)
        fail_msg("%s", ei.text);
    fixture_open_table(f, f->log);
    fixture_wait(f, &f->is_opened, "the table to open");
}

static inline void fixture_close(struct table_fixture *f)
{
    table_close(f->t);
    table_log_local_close(f->log);
    store_close(f->log_store);
    store_close(f->view_store);
    f->t = NULL;
    f->log = NULL;
    f->log_store = f->view_store = NULL;
}

static inline void fixture_init(struct table_fixture *f)
{
    struct errinfo ei = {0};

    snprintf(f->path, sizeof f->path, "/tmp/table-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    snprintf(f->view_path, sizeof f->view_path, "%s/view", f->path);
    snprintf(f->log_path, sizeof f->log_path, "%s/log", f->path);
    assert_int_equal(loop_init(&f->loop, 0, &ei), E_OK);
}

static inline void fixture_fini(struct table_fixture *f)
{
    const char *const stores[] = {f->view_path, f->log_path};
    struct errinfo ei;
    char path[96];

    fixture_close(f);
    for (size_t i = 0; i < ARRAY_LEN(stores); i++) {
        if (access(stores[i], F_OK) == 0)
            assert_int_equal(store_erase(stores[i], &ei), E_OK);
        snprintf(path, sizeof path, "%s/owner", stores[i]);
        unlink(path);
        rmdir(stores[i]);
    }
    assert_int_equal(rmdir(f->path), 0);
    loop_fini(&f->loop);
    assert_int_equal(mem_used(MEM_TABLE), 0);
    assert_int_equal(mem_used(MEM_STORE), 0);
    assert_int_equal(mem_used(MEM_TEST), 0);
}

static inline void fixture_on_written(struct mail *m)
{
    CONTAINER_OF(CONTAINER_OF(m, struct table_write, mail), struct fixture_write, write)->is_done = true;
}

static inline struct str fixture_partition_key(struct str request)
{
    struct str key = fixture_split(request).a;
    bool found;

    return str_take(&key, '/', &found);
}

/* Asks; `w` is left alone until it is done. */
static inline void fixture_ask(struct table_fixture *f, struct fixture_write *w, const char *text)
{
    snprintf(w->text, sizeof w->text, "%s", text);
    w->is_done = false;
    w->write = (struct table_write){.mail = {.on_mail = fixture_on_written}, .home = &f->loop.mailbox};
    w->write.request = str_from(w->text);
    w->write.partition_key = fixture_partition_key(w->write.request);
    table_write(f->t, &w->write);
}

static inline err fixture_answer(struct table_fixture *f, struct fixture_write *w)
{
    fixture_wait(f, &w->is_done, w->text);
    return w->write.result;
}

static inline void fixture_forget(struct fixture_write *w)
{
    buf_free(&w->write.reply, MEM_TABLE);
}

/* Asks and waits. */
static inline err fixture_do(struct table_fixture *f, const char *text)
{
    struct fixture_write *w = calloc(1, sizeof *w);
    err e;

    fixture_ask(f, w, text);
    e = fixture_answer(f, w);
    fixture_forget(w);
    free(w);
    return e;
}

/* Whether the view has the value now; NULL: whether it has none. */
static inline bool fixture_has(struct table_fixture *f, const char *key, const char *value)
{
    struct table_reader r;
    struct table_item item;
    struct str head = str_from(key);
    bool found, is_there;

    assert_int_equal(table_reader_open(f->t, &r), E_OK);
    is_there = table_reader_get(&r, str_take(&head, '/', &found), str_from(key), &item);
    found = value ? is_there && str_equal(item.value, str_from(value)) : !is_there;
    table_reader_close(&r);
    return found;
}

/* Everything in the view, as text; the caller frees it. */
static inline char *fixture_dump(struct table_fixture *f)
{
    struct buf out = {0};
    struct table_reader r;
    char *text;

    assert_int_equal(table_reader_open(f->t, &r), E_OK);
    for (unsigned p = 0; p < table_partitions(f->t); p++) {
        struct table_item item = {.offset = 0};

        while (table_reader_next_in(&r, p, STR(""), item.key, &item))
            assert_int_equal(buf_printf(&out, MEM_TEST, "%u %.*s=%.*s @%llu\n", p, STR_ARG(item.key), STR_ARG(item.value),
                                        (unsigned long long)item.offset),
                             E_OK);
    }
    table_reader_close(&r);
    text = strndup(buf_size(&out) ? buf_str(&out).p : "", buf_size(&out));
    buf_free(&out, MEM_TEST);
    return text;
}
