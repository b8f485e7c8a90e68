/* The keeper of this process's lease, on worker 0: takes it, renews it, and finds out when it is lost; watches those of others. What
 * it says is in routes_publish.c. */
#include "routes/routes_keeper.h"
#include "base/log.h"

enum {
    LOOKS = 12, /* in the time of a lease */
    LOOK_MIN_MS = 10,
    LOOK_MAX_MS = 1000,
    CATCH_UP_MS = 5000,
    LEAVE_MS = 1800,
};

static const struct routes_settings *settings_of(const struct routes_keeper *k)
{
    return &k->routes->settings;
}

static struct routes_replica *replica_of(const struct routes_keeper *k)
{
    return &k->routes->replicas[k->worker->id];
}

static uint64_t now_ms(const struct routes_keeper *k)
{
    return k->routes->clock_ms();
}

static void log_state(const struct routes_keeper *k, const char *event, const char *why)
{
    LOG_WARN(LOG_COMMAND, event, F_STR("instance", settings_of(k)->instance), F_TEXT("why", why));
}

/* --- requests --- */

bool routes_keeper_is_out(const struct routes_keeper *k, enum routes_keeper_slot slot)
{
    return k->requests[slot].is_out;
}

struct routes_keeper_request *routes_keeper_send(struct routes_keeper *k, enum routes_keeper_slot slot,
                                                 const struct routes_record *record)
{
    struct routes_keeper_request *req = &k->requests[slot];

    ASSERT(!req->is_out);
    buf_free(&req->body, MEM_ROUTES);
    buf_free(&req->write.reply, MEM_TABLE);
    routes_record_write(&req->body, record);
    req->is_out = true;
    req->incarnation = record->incarnation;
    req->number = record->number;
    req->seen = record->seen;
    req->sent_ms = now_ms(k);
    req->write.request = buf_str(&req->body);
    table_write(k->routes->table, &req->write);
    return req;
}

/* Begins a record about this process's lease, which it renews. */
struct routes_record routes_keeper_record(struct routes_keeper *k, enum routes_kind kind)
{
    return (struct routes_record){.kind = kind,
                                  .instance = settings_of(k)->instance,
                                  .incarnation = atomic_load(&k->routes->incarnation),
                                  .number = ++k->number};
}

/* --- the lease --- */

static void on_caught_up(struct mail *m);

static void catch_up(struct routes_keeper *k)
{
    k->state = ROUTES_KEEPER_CATCHING_UP;
    if (k->is_barrier_out)
        return;
    k->is_barrier_out = true;
    k->barrier = (struct table_barrier){.mail = {.on_mail = on_caught_up}, .home = &k->worker->loop.mailbox};
    table_catch_up(k->routes->table, ROUTES_PARTITION_KEY, CATCH_UP_MS, &k->barrier);
}

static void take(struct routes_keeper *k)
{
    struct routes *routes = k->routes;
    struct routes_record record;
    uint64_t sent_ms = now_ms(k);

    if (atomic_load(&routes->n_unfilled) > 0 || k->is_leaving) {
        k->state = ROUTES_KEEPER_FILLING;
        return;
    }
    k->state = ROUTES_KEEPER_TAKING;
    if (k->requests[ROUTES_SLOT_LEASE].is_out)
        return; /* its answer comes first */
    /* Nobody acts by this before its replica has seen the lease; then it counts from before it was asked for. */
    atomic_store(&routes->leased_to_ms, settings_of(k)->is_alone ? UINT64_MAX : sent_ms + settings_of(k)->lease_ms);
    atomic_store(&routes->incarnation, routes->process | (++routes->n_incarnations & 0xffffff));
    record = routes_keeper_record(k, ROUTES_LEASE);
    record.seen = k->published_seen = routes_keeper_seen(k);
    record.lease_ms = settings_of(k)->lease_ms;
    record.roles = settings_of(k)->roles;
    record.address = settings_of(k)->address;
    routes_keeper_send(k, ROUTES_SLOT_LEASE, &record);
}

/* Without one from now on. */
static void drop(struct routes_keeper *k, const char *why)
{
    if (k->state == ROUTES_KEEPER_HOLDING) {
        routes_count(ROUTES_COUNT_LEASES_LOST, 1);
        log_state(k, "routes.lease_lost", why);
    }
    atomic_store(&k->routes->incarnation, 0);
    atomic_store(&k->routes->leased_to_ms, 0);
    k->state = ROUTES_KEEPER_FILLING;
}

static void lose(struct routes_keeper *k, const char *why)
{
    if (k->state != ROUTES_KEEPER_HOLDING && k->state != ROUTES_KEEPER_TAKING)
        return;
    drop(k, why);
    take(k);
}

static void on_leased(struct routes_keeper *k, struct routes_keeper_request *req, enum routes_reason reason)
{
    if (k->state != ROUTES_KEEPER_TAKING)
        return;
    if (req->incarnation != atomic_load(&k->routes->incarnation)) {
        take(k);
        return;
    }
    if (req->write.result != E_OK) {
        LOG_ERROR(LOG_COMMAND, "routes.no_lease", F_STR("instance", settings_of(k)->instance),
                  F_TEXT("error", err_name(req->write.result)), F_INT("reason", reason));
        atomic_store(&k->routes->incarnation, 0); /* the next look tries again */
        return;
    }
    k->state = ROUTES_KEEPER_HOLDING;
    k->renewed_ms = req->sent_ms;
    k->is_refused = k->is_late = false;
    routes_count(ROUTES_COUNT_LEASES, 1);
    LOG_INFO(LOG_COMMAND, "routes.leased", F_STR("instance", settings_of(k)->instance), F_INT("incarnation", req->incarnation));
    routes_keeper_want_publication(k);
}

static bool is_expired(const struct routes_keeper *k)
{
    return now_ms(k) >= atomic_load(&k->routes->leased_to_ms);
}

/* Nobody answered for as long as the lease lasts: the owner of the table is gone, say. Whoever is leased is so no more, and may be fenced. */
static void note_late(struct routes_keeper *k)
{
    if (k->is_late || !is_expired(k))
        return;
    k->is_late = true;
    routes_count(ROUTES_COUNT_LEASES_LATE, 1);
    log_state(k, "routes.lease_late", "it was not renewed in time");
}

/* It was renewed all the same: nobody has fenced it, so that the lease is the same as before. Others have been as late. */
static void resume(struct routes_keeper *k)
{
    struct routes_replica *r = replica_of(k);

    k->is_late = false;
    for (struct list *l = r->holders.next; l != &r->holders; l = l->next)
        CONTAINER_OF(l, struct routes_holder, link)->watched_ms = now_ms(k);
    for (unsigned i = 0; i < settings_of(k)->workers->n; i++)
        routes_feed_tell_resumed(&k->routes->replicas[i]);
}

void routes_keeper_extend(struct routes_keeper *k, const struct routes_keeper_request *req, enum routes_reason reason)
{
    uint64_t to_ms = req->sent_ms + settings_of(k)->lease_ms;

    if (k->state != ROUTES_KEEPER_HOLDING || req->incarnation != atomic_load(&k->routes->incarnation))
        return;
    if (reason == ROUTES_NOT_LEASED) {
        lose(k, "another instance has fenced this one");
        return;
    }
    if (req->write.result != E_OK || settings_of(k)->is_alone)
        return;
    routes_count(ROUTES_COUNT_RENEWALS, 1);
    k->renewed_ms = req->sent_ms > k->renewed_ms ? req->sent_ms : k->renewed_ms;
    if (to_ms > atomic_load(&k->routes->leased_to_ms))
        atomic_store(&k->routes->leased_to_ms, to_ms);
    if (k->is_late && !is_expired(k))
        resume(k);
}

static void renew(struct routes_keeper *k)
{
    enum routes_keeper_slot slot = routes_keeper_is_out(k, ROUTES_SLOT_RENEW) ? ROUTES_SLOT_RENEW_TOO : ROUTES_SLOT_RENEW;
    struct routes_record record;

    if (routes_keeper_is_out(k, slot))
        return;
    k->renewed_ms = now_ms(k);
    record = routes_keeper_record(k, ROUTES_PUBLISH);
    routes_keeper_send(k, slot, &record);
}

/* --- others --- */

static void fence(struct routes_keeper *k, const struct routes_holder *h)
{
    const struct routes_record record = {
        .kind = ROUTES_FENCE, .instance = h->instance.name, .incarnation = h->instance.incarnation, .number = h->number};

    if (!routes_keeper_is_out(k, ROUTES_SLOT_FENCE))
        routes_keeper_send(k, ROUTES_SLOT_FENCE, &record);
}

/* Refused: it has renewed its lease, which is seen soon; or somebody else was faster. */
static void on_fenced(struct routes_keeper *k, struct routes_keeper_request *req, enum routes_reason reason)
{
    struct routes_record asked;

    (void)reason;
    if (req->write.result != E_OK || routes_record_read(buf_str(&req->body), &asked) != E_OK)
        return;
    routes_count(ROUTES_COUNT_FENCED, 1);
    LOG_WARN(LOG_COMMAND, "routes.fenced", F_STR("instance", asked.instance), F_INT("incarnation", asked.incarnation));
    if (settings_of(k)->on_fenced)
        settings_of(k)->on_fenced(settings_of(k)->context, asked.instance);
}

static void watch(struct routes_keeper *k)
{
    struct routes_replica *r = replica_of(k);
    uint64_t now = now_ms(k);

    for (struct list *l = r->holders.next; l != &r->holders; l = l->next) {
        struct routes_holder *h = CONTAINER_OF(l, struct routes_holder, link);

        if (!h->is_living || h == r->self)
            continue;
        if (h->watched_number != h->number) {
            h->watched_number = h->number;
            h->watched_ms = now;
        }
        if (settings_of(k)->is_alone || now - h->watched_ms >= h->lease_ms)
            fence(k, h);
    }
}

/* Another process under our name. */
static bool has_double(const struct routes_keeper *k)
{
    const struct routes_replica *r = replica_of(k);

    for (struct list *l = r->holders.next; l != &r->holders; l = l->next) {
        const struct routes_holder *h = CONTAINER_OF(l, struct routes_holder, link);

        if (h->is_living && str_equal(h->instance.name, settings_of(k)->instance) &&
            !routes_is_ours(k->routes, h->instance.incarnation))
            return true;
    }
    return false;
}

/* The table says whether we have a lease. */
static void check(struct routes_keeper *k)
{
    if (k->state != ROUTES_KEEPER_HOLDING || k->is_leaving || routes_self(replica_of(k)))
        return;
    if (!has_double(k)) {
        lose(k, "another instance has fenced this one");
        return;
    }
    drop(k, "another process has the same name");
    LOG_ERROR(LOG_COMMAND, "routes.name_taken", F_STR("instance", settings_of(k)->instance));
    k->state = ROUTES_KEEPER_STANDING_BY;
}

static void look(struct routes_keeper *k)
{
    if (k->state == ROUTES_KEEPER_CATCHING_UP && !k->is_barrier_out)
        catch_up(k);
    if (k->state == ROUTES_KEEPER_FILLING && !k->is_leaving && atomic_load(&k->routes->n_unfilled) == 0)
        catch_up(k);
    if (k->state == ROUTES_KEEPER_TAKING && !routes_keeper_is_out(k, ROUTES_SLOT_LEASE))
        take(k);
    if (k->state == ROUTES_KEEPER_STANDING_BY && !has_double(k))
        take(k);
    if (k->state == ROUTES_KEEPER_HOLDING)
        note_late(k);
    if (k->state == ROUTES_KEEPER_HOLDING && !settings_of(k)->is_alone &&
        now_ms(k) - k->renewed_ms >= settings_of(k)->lease_ms / 3)
        renew(k);
    if ((k->state == ROUTES_KEEPER_HOLDING && !k->is_late) || k->state == ROUTES_KEEPER_STANDING_BY)
        watch(k); /* who gets no answers does not see those of others either */
}

void routes_keeper_look(struct routes_keeper *k)
{
    look(k);
    if (k->is_leaving)
        routes_keeper_leave(k);
}

static void on_look(struct timer *timer)
{
    struct routes_keeper *k = CONTAINER_OF(timer, struct routes_keeper, look_timer);
    uint64_t delay_ms = settings_of(k)->lease_ms / LOOKS;

    routes_keeper_look(k);
    delay_ms = delay_ms < LOOK_MIN_MS ? LOOK_MIN_MS : delay_ms > LOOK_MAX_MS ? LOOK_MAX_MS : delay_ms;
    wheel_start(&k->worker->loop.wheel, timer, delay_ms);
}

/* --- what happens --- */

static void on_filled(struct mail *m)
{
    struct routes_keeper *k = CONTAINER_OF(m, struct routes_keeper, filled_mail);

    atomic_store(&k->is_filled_posted, false);
    if (k->state == ROUTES_KEEPER_HOLDING || k->state == ROUTES_KEEPER_TAKING)
        drop(k, "its view of the routes was built anew");
    if (!wheel_is_set(&k->look_timer))
        wheel_start(&k->worker->loop.wheel, &k->look_timer, LOOK_MIN_MS);
    catch_up(k);
}

static void on_caught_up(struct mail *m)
{
    struct table_barrier *barrier = CONTAINER_OF(m, struct table_barrier, mail);
    struct routes_keeper *k = CONTAINER_OF(barrier, struct routes_keeper, barrier);

    k->is_barrier_out = false;
    if (k->state == ROUTES_KEEPER_CATCHING_UP && barrier->result == E_OK && atomic_load(&k->routes->n_unfilled) == 0)
        take(k);
}

static void on_poke(struct mail *m)
{
    struct routes_keeper *k = CONTAINER_OF(m, struct routes_keeper, poke_mail);

    atomic_store(&k->is_poked, false);
    if (atomic_load(&k->routes->incarnation) == 0 && k->state == ROUTES_KEEPER_HOLDING)
        lose(k, "its view of the routes was built anew");
    k->has_marks = true;
    routes_keeper_want_publication(k);
    if (k->is_leaving)
        routes_keeper_leave(k);
}

void routes_keeper_tell_filled(struct routes_keeper *k)
{
    if (!atomic_exchange(&k->is_filled_posted, true))
        mailbox_post(&k->worker->loop.mailbox, &k->filled_mail);
}

void routes_keeper_poke(struct routes_keeper *k)
{
    if (!atomic_exchange(&k->is_poked, true))
        mailbox_post(&k->worker->loop.mailbox, &k->poke_mail);
}

void routes_keeper_forfeit(struct routes_keeper *k)
{
    atomic_store(&k->routes->incarnation, 0);
    atomic_store(&k->routes->leased_to_ms, 0);
    routes_keeper_poke(k);
}

void routes_keeper_on_news(struct routes_keeper *k)
{
    check(k);
    routes_keeper_want_publication(k);
}

/* --- the end --- */

static void finish(struct routes_keeper *k)
{
    if (k->has_left)
        return;
    k->has_left = true;
    wheel_stop(&k->leave_timer);
    wheel_stop(&k->look_timer);
    wheel_stop(&k->publish_timer);
    atomic_store(&k->routes->incarnation, 0);
    mailbox_post(k->routes->left_home, k->routes->left);
}

/* One step after another: the routes have gone, what was done is published, then the lease goes. */
void routes_keeper_leave(struct routes_keeper *k)
{
    struct routes_record record;

    if (k->has_left || routes_keeper_is_out(k, ROUTES_SLOT_LEAVE))
        return;
    if (k->state != ROUTES_KEEPER_HOLDING) {
        finish(k);
        return;
    }
    if (atomic_load(&k->routes->n_leaving) > 0 || routes_keeper_is_out(k, ROUTES_SLOT_PUBLISH))
        return;
    if (routes_keeper_has_marks(k)) {
        routes_keeper_publish(k);
        return;
    }
    record = routes_keeper_record(k, ROUTES_LEAVE);
    routes_keeper_send(k, ROUTES_SLOT_LEAVE, &record);
}

static void on_left(struct routes_keeper *k, struct routes_keeper_request *req, enum routes_reason reason)
{
    (void)req;
    (void)reason;
    finish(k);
}

static void on_leave_timer(struct timer *timer)
{
    struct routes_keeper *k = CONTAINER_OF(timer, struct routes_keeper, leave_timer);

    log_state(k, "routes.leave_incomplete", "it takes too long");
    finish(k);
}

static void on_leave(struct mail *m)
{
    struct routes_keeper *k = CONTAINER_OF(m, struct routes_keeper, leave_mail);

    k->is_leaving = true;
    wheel_start(&k->worker->loop.wheel, &k->leave_timer, LEAVE_MS);
    routes_keeper_leave(k);
}

/* --- life --- */

static void (*const on_answers[ROUTES_SLOTS])(struct routes_keeper *k, struct routes_keeper_request *req,
                                              enum routes_reason reason) = {
    [ROUTES_SLOT_LEASE] = on_leased,
    [ROUTES_SLOT_PUBLISH] = routes_keeper_on_published,
    [ROUTES_SLOT_RENEW] = routes_keeper_on_renewed,
    [ROUTES_SLOT_RENEW_TOO] = routes_keeper_on_renewed,
    [ROUTES_SLOT_FENCE] = on_fenced,
    [ROUTES_SLOT_LEAVE] = on_left,
};

static void on_answer(struct mail *m)
{
    struct table_write *write = CONTAINER_OF(m, struct table_write, mail);
    struct routes_keeper_request *req = CONTAINER_OF(write, struct routes_keeper_request, write);
    struct routes_keeper *k = req->keeper;
    enum routes_reason reason = ROUTES_FINE;
    struct str rest;

    req->is_out = false;
    if (write->result == E_DENIED)
        reason = routes_write_reason(write, &rest);
    on_answers[req - k->requests](k, req, reason);
    if (k->is_leaving)
        routes_keeper_leave(k);
}

void routes_keeper_init(struct routes_keeper *k, struct routes *routes)
{
    k->routes = routes;
    k->worker = &routes->settings.workers->list[0];
    k->state = ROUTES_KEEPER_FILLING;
    k->look_timer.on_timer = on_look;
    k->leave_timer.on_timer = on_leave_timer;
    k->filled_mail.on_mail = on_filled;
    k->poke_mail.on_mail = on_poke;
    k->leave_mail.on_mail = on_leave;
    routes_keeper_init_publication(k);
    for (size_t i = 0; i < ROUTES_SLOTS; i++) {
        k->requests[i].keeper = k;
        k->requests[i].write = (struct table_write){
            .mail = {.on_mail = on_answer}, .home = &k->worker->loop.mailbox, .partition_key = ROUTES_PARTITION_KEY};
    }
}

void routes_keeper_fini(struct routes_keeper *k)
{
    wheel_stop(&k->look_timer);
    wheel_stop(&k->publish_timer);
    wheel_stop(&k->leave_timer);
    routes_topic_clear(&k->marks);
    for (size_t i = 0; i < ROUTES_SLOTS; i++) {
        buf_free(&k->requests[i].body, MEM_ROUTES);
        buf_free(&k->requests[i].write.reply, MEM_TABLE);
    }
}
