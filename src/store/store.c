#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lmdb.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/store_file.h"
#include "store/store_private.h"

static_assert(sizeof(MDB_dbi) == sizeof(unsigned), "struct store_db holds LMDB's number");

struct code_row {
    int code;
    err result;
};

/* Codes that are not listed are the operating system's. */
static const struct code_row codes[] = {
    {MDB_SUCCESS, E_OK},          {MDB_NOTFOUND, E_NOTFOUND}, {MDB_MAP_FULL, E_LIMIT},         {MDB_TXN_FULL, E_LIMIT},
    {MDB_READERS_FULL, E_LIMIT},  {MDB_BAD_VALSIZE, E_LIMIT}, {MDB_DBS_FULL, E_LIMIT},         {MDB_CORRUPTED, E_PROTO},
    {MDB_PAGE_NOTFOUND, E_PROTO}, {MDB_INVALID, E_PROTO},     {MDB_VERSION_MISMATCH, E_PROTO}, {MDB_INCOMPATIBLE, E_PROTO},
};

static err error_of(int code)
{
    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (codes[i].code == code)
            return codes[i].result;
    return E_IO;
}

static err fail(const struct store *s, int code, struct errinfo *ei)
{
    err e = error_of(code);

    if (code == MDB_MAP_FULL)
        return errinfo_set(ei, e, "%s is full: its bound is %llu bytes", s->path, (unsigned long long)s->max_bytes);
    if (e == E_PROTO)
        return errinfo_set(ei, e, "%s/%s is damaged: %s", s->path, STORE_FILE_DATA, mdb_strerror(code));
    return errinfo_set(ei, e, "%s/%s: %s", s->path, STORE_FILE_DATA, mdb_strerror(code));
}

/* --- the directory --- */

static err lock_directory(struct store *s, struct errinfo *ei)
{
    char path[STORE_PATH_BYTES], holder[24] = "";
    ssize_t n;

    if (mkdir(s->path, 0700) && errno != EEXIST)
        return errinfo_set(ei, E_IO, "%s cannot be made: %s", s->path, strerror(errno));
    (void)store_file_path(path, s->path, STORE_FILE_OWNER);
    s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock_fd < 0)
        return errinfo_set(ei, E_IO, "%s: %s", path, strerror(errno));
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK)
            return errinfo_set(ei, E_IO, "%s cannot be locked: %s", path, strerror(errno));
        n = pread(s->lock_fd, holder, sizeof holder - 1, 0);
        holder[strcspn(holder, "\n")] = 0;
        return errinfo_set(ei, E_BUSY, "%s is in use by another process (%s); two cannot share a data directory", s->path,
                           n > 0 ? holder : "unknown");
    }
    n = snprintf(holder, sizeof holder, "%ld\n", (long)getpid());
    if (ftruncate(s->lock_fd, 0) || pwrite(s->lock_fd, holder, (size_t)n, 0) != n)
        return errinfo_set(ei, E_IO, "%s: %s", path, strerror(errno));
    return E_OK;
}

static err open_environment(struct store *s, enum store_durability durability, struct errinfo *ei)
{
    const unsigned flags = MDB_NOTLS | (durability == STORE_REBUILDABLE ? MDB_NOMETASYNC : 0);
    int code = mdb_env_create(&s->env);

    if (!code)
        code = mdb_env_set_mapsize(s->env, s->max_bytes);
    if (!code)
        code = mdb_env_set_maxdbs(s->env, STORE_DATABASES);
    if (!code)
        code = mdb_env_set_maxreaders(s->env, STORE_READERS);
    if (!code)
        code = mdb_env_open(s->env, s->path, flags, 0600);
    return code ? fail(s, code, ei) : E_OK;
}

static err open_file(struct store *s, enum store_durability durability, struct errinfo *ei)
{
    err e = store_file_examine(s->path, ei);

    if (e == E_OK)
        e = open_environment(s, durability, ei);
    s->is_open = e == E_OK;
    return e;
}

/* Begins with nothing, where that is allowed; what was wrong is kept for whoever asks. */
static err replace_file(struct store *s, struct errinfo *ei)
{
    err e;

    s->damage = mem_copy_text(MEM_STORE, ei->text, strlen(ei->text));
    if (s->env)
        mdb_env_close(s->env);
    s->env = NULL;
    e = store_file_erase(s->path, ei);
    return e == E_OK ? open_file(s, STORE_REBUILDABLE, ei) : e;
}

const char *store_damage(const struct store *s)
{
    return s->damage;
}

err store_open(const struct store_options *options, struct store **out_store, struct errinfo *ei)
{
    struct store *s;
    err e;

    if (strlen(options->path) >= STORE_PATH_BYTES - 32)
        return errinfo_set(ei, E_IO, "%s: the name is too long", options->path);
    s = mem_alloc_zero(MEM_STORE, sizeof *s);
    s->path = mem_copy_text(MEM_STORE, options->path, strlen(options->path));
    s->max_bytes = options->max_bytes ? options->max_bytes : STORE_DEFAULT_MAX_BYTES;
    e = lock_directory(s, ei);
    if (e == E_OK)
        e = open_file(s, options->durability, ei);
    if (e == E_PROTO && options->durability == STORE_REBUILDABLE)
        e = replace_file(s, ei);
    if (e != E_OK) {
        store_close(s);
        return e;
    }
    *out_store = s;
    return E_OK;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    if (s->is_open && mdb_env_sync(s->env, 1))
        s->is_open = false; /* the next to open it looks at all of it */
    if (s->env)
        mdb_env_close(s->env);
    if (s->is_open)
        store_file_note_end(s->path);
    if (s->lock_fd > 0)
        close(s->lock_fd);
    mem_free(MEM_STORE, s->damage);
    mem_free(MEM_STORE, s->path);
    mem_free(MEM_STORE, s);
}

err store_erase(const char *path, struct errinfo *ei)
{
    struct store s = {.path = (char *)(uintptr_t)path};
    err e = lock_directory(&s, ei);

    if (e == E_OK)
        e = store_file_erase(path, ei);
    if (s.lock_fd > 0)
        close(s.lock_fd);
    return e;
}

uint64_t store_used_bytes(const struct store *s)
{
    MDB_envinfo info;
    MDB_stat stat;

    if (mdb_env_info(s->env, &info) || mdb_env_stat(s->env, &stat))
        return 0;
    return (uint64_t)(info.me_last_pgno + 1) * stat.ms_psize;
}

uint64_t store_max_bytes(const struct store *s)
{
    return s->max_bytes;
}

err store_db_open(struct store *s, const char *name, struct store_db *out_db, struct errinfo *ei)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(s->env, NULL, 0, &txn);

    if (code)
        return fail(s, code, ei);
    code = mdb_dbi_open(txn, name, MDB_CREATE, &out_db->id);
    if (!code)
        code = mdb_txn_commit(txn);
    else
        mdb_txn_abort(txn);
    return code ? fail(s, code, ei) : E_OK;
}

/* --- transactions --- */

static err begin(struct store *s, struct store_txn *txn, unsigned flags)
{
    MDB_txn *lmdb;
    int code = mdb_txn_begin(s->env, NULL, flags, &lmdb);

    *txn = (struct store_txn){.store = s, .lmdb = code ? NULL : lmdb, .failed = code, .is_reader = flags != 0};
    return error_of(code);
}

err store_begin(struct store *s, struct store_txn *txn)
{
    return begin(s, txn, 0);
}

err store_commit(struct store_txn *txn, struct errinfo *ei)
{
    const struct store *s = txn->store;
    int code = txn->failed;

    ASSERT(txn->lmdb && !txn->is_reader);
    if (code)
        mdb_txn_abort(txn->lmdb);
    else
        code = mdb_txn_commit(txn->lmdb);
    *txn = (struct store_txn){0};
    return code ? fail(s, code, ei) : E_OK;
}

void store_abort(struct store_txn *txn)
{
    if (txn->lmdb)
        mdb_txn_abort(txn->lmdb);
    *txn = (struct store_txn){0};
}

err store_reader_open(struct store *s, struct store_txn *txn)
{
    return begin(s, txn, MDB_RDONLY);
}

err store_reader_renew(struct store_txn *txn)
{
    int code;

    if (!txn->lmdb)
        return E_IO;
    if (!txn->is_idle)
        mdb_txn_reset(txn->lmdb);
    code = mdb_txn_renew(txn->lmdb);
    txn->is_idle = code != 0;
    txn->failed = code;
    return error_of(code);
}

void store_reader_rest(struct store_txn *txn)
{
    if (txn->lmdb && !txn->is_idle)
        mdb_txn_reset(txn->lmdb);
    txn->is_idle = true;
}

void store_reader_close(struct store_txn *txn)
{
    store_abort(txn);
}

/* --- keys and values --- */

static MDB_val val_of(struct str s)
{
    return (MDB_val){.mv_size = s.n, .mv_data = (char *)(uintptr_t)s.p};
}

static struct str str_of(MDB_val v)
{
    return (struct str){v.mv_data, v.mv_size};
}

/* The first failure of a transaction is its result; that something is not there is none, nor a key that nobody can store. */
static err note(struct store_txn *txn, int code)
{
    if (code && code != MDB_NOTFOUND && code != MDB_BAD_VALSIZE && !txn->failed)
        txn->failed = code;
    return error_of(code);
}

err store_get(struct store_txn *txn, struct store_db db, struct str key, struct str *out_value)
{
    MDB_val k = val_of(key), v;
    int code;

    if (!txn->lmdb || txn->is_idle)
        return E_IO;
    if (key.n == 0 || key.n > STORE_KEY_MAX)
        return E_NOTFOUND;
    code = mdb_get(txn->lmdb, db.id, &k, &v);
    if (!code)
        *out_value = str_of(v);
    return note(txn, code);
}

err store_put(struct store_txn *txn, struct store_db db, struct str key, struct str value)
{
    MDB_val k = val_of(key), v = val_of(value);

    if (txn->failed)
        return error_of(txn->failed);
    if (key.n == 0 || key.n > STORE_KEY_MAX)
        return E_LIMIT;
    return note(txn, mdb_put(txn->lmdb, db.id, &k, &v, 0));
}

err store_remove(struct store_txn *txn, struct store_db db, struct str key)
{
    MDB_val k = val_of(key);

    if (txn->failed)
        return error_of(txn->failed);
    if (key.n == 0 || key.n > STORE_KEY_MAX)
        return E_NOTFOUND;
    return note(txn, mdb_del(txn->lmdb, db.id, &k, NULL));
}

err store_clear(struct store_txn *txn, struct store_db db)
{
    if (txn->failed)
        return error_of(txn->failed);
    return note(txn, mdb_drop(txn->lmdb, db.id, 0));
}

uint64_t store_count(struct store_txn *txn, struct store_db db)
{
    MDB_stat stat;

    if (!txn->lmdb || txn->is_idle || note(txn, mdb_stat(txn->lmdb, db.id, &stat)) != E_OK)
        return 0;
    return stat.ms_entries;
}

/* --- cursors --- */

err store_cursor_open(struct store_txn *txn, struct store_db db, struct store_cursor *c)
{
    MDB_cursor *lmdb;
    int code;

    *c = (struct store_cursor){.txn = txn};
    if (!txn->lmdb || txn->is_idle)
        return E_IO;
    code = mdb_cursor_open(txn->lmdb, db.id, &lmdb);
    if (!code)
        c->lmdb = lmdb;
    return note(txn, code);
}

void store_cursor_close(struct store_cursor *c)
{
    if (c->lmdb)
        mdb_cursor_close(c->lmdb);
    *c = (struct store_cursor){0};
}

static err move(struct store_cursor *c, struct str key, MDB_cursor_op op)
{
    MDB_val k = val_of(key), v = {0};
    int code = mdb_cursor_get(c->lmdb, &k, &v, op);

    c->key = code ? (struct str){0} : str_of(k);
    c->value = code ? (struct str){0} : str_of(v);
    return note(c->txn, code);
}

err store_cursor_seek(struct store_cursor *c, struct str key)
{
    /* LMDB compares with keys of any length, but copies none that is longer than it can store. */
    return move(c, key, key.n ? MDB_SET_RANGE : MDB_FIRST);
}

err store_cursor_next(struct store_cursor *c)
{
    return move(c, (struct str){0}, MDB_NEXT);
}

err store_cursor_last(struct store_cursor *c)
{
    return move(c, (struct str){0}, MDB_LAST);
}

err store_cursor_remove(struct store_cursor *c)
{
    return note(c->txn, mdb_cursor_del(c->lmdb, 0));
}
