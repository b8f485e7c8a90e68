#include "registry/password_check.h"

#include <pthread.h>
#include <string.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/moment.h"
#include "loop/loop.h"
#include "registry/credentials_document.h"
#include "registry/hash_pool.h"
#include "registry/keyed_digest.h"
#include "registry/registry_wait.h"
#include "registry/secret_hash.h"

enum {
    RIGHT_MS = 60 * 1000, /* how long a password that was right need not be hashed again */
    WRONG_MS = 2 * 1000,
    MAX_REMEMBERED = 65536,
};

/* What a hash of nobody is compared with: the cost of ours. */
static const char nobody[] = "$2a$10$CCCCCCCCCCCCCCCCCCCCC.7uG0VCzI2bS7j6ymqJi9CdcdxiRTWNy";

/* A hash that takes its time. */
struct slow_hash {
    enum secret_hash_function function;
    int64_t end_ms; /* when it holds no more, by the wall clock */
    char text[SECRET_HASH_TEXT_BYTES];
};

/* One password for one account, by a keyed hash of both and the version of the credentials: being computed, or known. */
struct run {
    unsigned char token[REGISTRY_TOKEN_BYTES];
    struct password_check *checks;
    bool is_done, is_right;
    uint64_t until_ms; /* once it is done */
    struct list waits; /* until it is done */
    struct hash_job job;
    struct mailbox *home;
    char *password; /* this and the hashes until it is done */
    size_t password_n;
    struct slow_hash *hashes;
    size_t n_hashes;
    int64_t end_ms; /* of the one that fits */
};

struct password_check {
    struct hash_pool *pool;
    struct keyed_digest digest;
    pthread_mutex_t lock;
    struct map runs;
};

struct password_check *password_check_new(struct hash_pool *pool)
{
    struct password_check *checks = mem_alloc_zero(MEM_REGISTRY, sizeof *checks);

    checks->pool = pool;
    pthread_mutex_init(&checks->lock, NULL);
    keyed_digest_init(&checks->digest);
    return checks;
}

/* What nobody needs once the result is known. */
static void free_secrets(struct run *run)
{
    if (run->password)
        explicit_bzero(run->password, run->password_n);
    mem_free(MEM_REGISTRY, run->password);
    mem_free(MEM_REGISTRY, run->hashes);
    run->password = NULL;
    run->hashes = NULL;
}

static void free_run(struct run *run)
{
    free_secrets(run);
    mem_free(MEM_REGISTRY, run);
}

void password_check_free(struct password_check *checks)
{
    uint32_t cursor = 0;
    struct run *run;

    if (!checks)
        return;
    while ((run = map_next(&checks->runs, &cursor)))
        free_run(run);
    map_free(&checks->runs, MEM_REGISTRY);
    pthread_mutex_destroy(&checks->lock);
    keyed_digest_wipe(&checks->digest);
    mem_free(MEM_REGISTRY, checks);
}

/* --- what is computed --- */

static void compute(struct hash_job *job)
{
    struct run *run = CONTAINER_OF(job, struct run, job);
    struct str password = {run->password, run->password_n};
    bool has_bcrypt = false;

    for (size_t i = 0; i < run->n_hashes && !run->is_right; i++) {
        const struct slow_hash *hash = &run->hashes[i];

        run->is_right = secret_hash_matches(hash->function, (struct str){0}, str_from(hash->text), password);
        run->end_ms = hash->end_ms;
        has_bcrypt |= hash->function == SECRET_HASH_BCRYPT;
    }
    if (!run->is_right && !has_bcrypt)
        (void)secret_hash_matches(SECRET_HASH_BCRYPT, (struct str){0}, str_from(nobody), password); /* for the time it takes */
}

static uint64_t hash_of(const unsigned char *token)
{
    uint64_t hash;

    memcpy(&hash, token, sizeof hash); /* it is one already */
    return hash;
}

/* How long the result is believed: what is right no longer than the secret holds. */
static uint64_t remembered_ms(const struct run *run)
{
    int64_t left_ms = run->end_ms - (int64_t)loop_wall_ms();

    if (!run->is_right)
        return WRONG_MS;
    return left_ms < 0 ? 0 : left_ms < RIGHT_MS ? (uint64_t)left_ms : RIGHT_MS;
}

/* On the thread of the one who asked first. Everybody is told; who is on another thread gets his mail there. */
static void on_computed(struct mail *m)
{
    struct run *run = CONTAINER_OF(m, struct run, job.mail);
    struct password_check *checks = run->checks;
    struct list *link, waits;
    bool is_dropped = run->job.is_dropped;

    list_init(&waits);
    pthread_mutex_lock(&checks->lock);
    list_move(&waits, &run->waits);
    run->is_done = true;
    run->until_ms = loop_clock_ms() + remembered_ms(run);
    free_secrets(run);
    while ((link = list_pop(&waits))) {
        struct registry_wait *wait = CONTAINER_OF(link, struct registry_wait, link);

        wait->is_done = true;
        wait->is_right = run->is_right;
        wait->is_dropped = is_dropped;
        mailbox_post(wait->home, &wait->mail);
    }
    if (is_dropped) {
        (void)map_remove(&checks->runs, hash_of(run->token), run); /* it is there */
        free_run(run);
    }
    pthread_mutex_unlock(&checks->lock);
}

static bool has_token(const void *entry, const void *key)
{
    return memcmp(((const struct run *)entry)->token, key, REGISTRY_TOKEN_BYTES) == 0;
}

/* Those whose time is over; when there are very many, all that are known. */
static void forget(struct password_check *checks)
{
    uint64_t now = loop_clock_ms();
    struct map kept = {0};
    uint32_t cursor = 0;
    struct run *run;

    for (int pass = 0; pass < 2 && checks->runs.n_entries >= MAX_REMEMBERED / 2; pass++) {
        cursor = 0;
        kept = (struct map){0};
        while ((run = map_next(&checks->runs, &cursor)))
            if (run->is_done && (run->until_ms <= now || pass == 1))
                free_run(run);
            else
                map_add(&kept, MEM_REGISTRY, hash_of(run->token), run);
        map_free(&checks->runs, MEM_REGISTRY);
        checks->runs = kept;
        if (kept.n_entries < MAX_REMEMBERED / 2)
            break;
    }
}

static void make_token(const struct password_check *checks, struct str version, struct str auth_id, struct str password,
                       unsigned char token[REGISTRY_TOKEN_BYTES])
{
    const struct str parts[] = {version, auth_id, password};

    keyed_digest_make(&checks->digest, parts, ARRAY_LEN(parts), token);
}

static struct run *new_run(struct password_check *checks, const json_t *credentials, int64_t now_ms, struct str password,
                           const unsigned char *token)
{
    struct run *run = mem_alloc_zero(MEM_REGISTRY, sizeof *run);
    const json_t *secrets = json_object_get(credentials, "secrets");

    memcpy(run->token, token, REGISTRY_TOKEN_BYTES);
    run->checks = checks;
    list_init(&run->waits);
    run->password = mem_copy_text(MEM_REGISTRY, password.n ? password.p : "", password.n);
    run->password_n = password.n;
    run->hashes = mem_alloc_zero(MEM_REGISTRY, (json_array_size(secrets) + 1) * sizeof *run->hashes);
    for (size_t i = 0; i < json_array_size(secrets); i++) {
        const json_t *secret = json_array_get(secrets, i);
        enum secret_hash_function function = secret_hash_find(document_get_text(secret, "hash-function"));
        struct str text = document_get_text(secret, "pwd-hash");
        struct slow_hash *hash = &run->hashes[run->n_hashes];

        if (function < SECRET_HASH_BCRYPT || function == SECRET_HASH_FUNCTIONS || text.n >= sizeof hash->text ||
            !credentials_document_is_valid(secret, now_ms))
            continue;
        hash->function = function;
        if (moment_parse(document_get_text(secret, "not-after"), &hash->end_ms) != E_OK)
            hash->end_ms = INT64_MAX;
        memcpy(hash->text, text.p, text.n);
        run->n_hashes++;
    }
    return run;
}

/* Joins who computes the same, or begins. With the lock. */
static enum password_check_result join(struct password_check *checks, const json_t *credentials, struct str password,
                                       struct registry_wait *wait)
{
    struct run *run = map_find(&checks->runs, hash_of(wait->token), wait->token, has_token);

    if (run && run->is_done && run->until_ms > loop_clock_ms())
        return run->is_right ? PASSWORD_CHECK_RIGHT : PASSWORD_CHECK_WRONG;
    if (run && !run->is_done) {
        list_push(&run->waits, &wait->link);
        return PASSWORD_CHECK_PENDING;
    }
    if (run) {
        (void)map_remove(&checks->runs, hash_of(run->token), run); /* its time is over */
        free_run(run);
    }
    forget(checks);
    run = new_run(checks, credentials, (int64_t)loop_wall_ms(), password, wait->token);
    run->job = (struct hash_job){.mail = {.on_mail = on_computed}, .home = wait->home, .run = compute};
    if (hash_pool_submit(checks->pool, &run->job) != E_OK) {
        free_run(run);
        return PASSWORD_CHECK_BUSY;
    }
    map_add(&checks->runs, MEM_REGISTRY, hash_of(run->token), run);
    list_push(&run->waits, &wait->link);
    return PASSWORD_CHECK_PENDING;
}

static bool matches_fast(const json_t *credentials, struct str password)
{
    const json_t *secrets = json_object_get(credentials, "secrets");
    char hash[BASE64_DECODED_BYTES(128)], salt[BASE64_DECODED_BYTES(256)];
    bool is_right = false;

    for (size_t i = 0; i < json_array_size(secrets); i++) {
        const json_t *secret = json_array_get(secrets, i);
        enum secret_hash_function function = secret_hash_find(document_get_text(secret, "hash-function"));
        struct str hash_text = document_get_text(secret, "pwd-hash"), salt_text = document_get_text(secret, "salt");
        size_t hash_n = 0, salt_n = 0;

        if (function >= SECRET_HASH_BCRYPT || hash_text.n > 128 || salt_text.n > 256 ||
            !base64_decode(hash_text, hash, &hash_n) || !base64_decode(salt_text, salt, &salt_n) ||
            !credentials_document_is_valid(secret, (int64_t)loop_wall_ms()))
            continue;
        if (secret_hash_matches(function, (struct str){salt, salt_n}, (struct str){hash, hash_n}, password))
            is_right = true;
    }
    return is_right;
}

enum password_check_result password_check_ask(struct password_check *checks, const json_t *credentials, struct str version,
                                              struct str auth_id, struct str password, struct registry_wait *wait)
{
    unsigned char token[REGISTRY_TOKEN_BYTES];
    enum password_check_result result;

    if (!document_get_bool(credentials, "enabled", true))
        credentials = NULL;
    if (matches_fast(credentials, password))
        return PASSWORD_CHECK_RIGHT;
    make_token(checks, version, auth_id, password, token);
    if (wait && wait->is_done && !wait->is_dropped && memcmp(token, wait->token, sizeof token) == 0)
        return wait->is_right ? PASSWORD_CHECK_RIGHT : PASSWORD_CHECK_WRONG;
    if (!wait || wait->is_dropped)
        return PASSWORD_CHECK_BUSY;
    memcpy(wait->token, token, sizeof token);
    wait->is_done = false;
    pthread_mutex_lock(&checks->lock);
    result = join(checks, credentials, password, wait);
    pthread_mutex_unlock(&checks->lock);
    return result;
}
