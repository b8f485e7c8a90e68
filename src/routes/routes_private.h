/* routes_private: what routes.h hides. A replica belongs to its worker, but for what its lock is for; the keeper to worker 0. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/map.h"
#include "loop/worker.h"
#include "routes/routes.h"
#include "routes/routes_done.h"
#include "routes/routes_metrics.h"
#include "routes/routes_record.h"
#include "table/table.h"

#define ROUTES_PARTITION_KEY STR("routes")

enum { ROUTES_ITEMS_MAX = 200 /* of a request with a list */ };

/* --- names (routes_names.c): what begins everything that belongs to a device --- */

struct routes_names {
    uint16_t tenant_n, device_n, gateway_n;
    uint8_t text_at; /* from here on */
    uint8_t flags;
};

static inline const char *routes_names_text(const struct routes_names *names)
{
    return (const char *)names + names->text_at;
}

static inline struct str routes_names_tenant(const struct routes_names *names)
{
    return (struct str){routes_names_text(names), names->tenant_n};
}

static inline struct str routes_names_device(const struct routes_names *names)
{
    return (struct str){routes_names_text(names) + names->tenant_n, names->device_n};
}

static inline struct str routes_names_gateway(const struct routes_names *names)
{
    return (struct str){routes_names_text(names) + names->tenant_n + names->device_n, names->gateway_n};
}

/* An object of `object_bytes` that begins with a struct routes_names, zeroed, with the texts behind it. Freed with mem_free(). */
void *routes_names_new(size_t object_bytes, struct str tenant, struct str device, struct str gateway);

void *routes_names_find(const struct map *map, struct str tenant, struct str device);
void routes_names_add(struct map *map, struct routes_names *names);
void routes_names_remove(struct map *map, struct routes_names *names); /* which lives on */
void routes_names_clear(struct map *map);                              /* and frees all */

/* --- a replica --- */

/* An incarnation that lives, or still has routes. */
struct routes_holder {
    struct list link;
    struct routes_instance instance;
    uint64_t number, lease_ms;
    bool is_living;
    struct list routes;
    /* The keeper's, on worker 0: the renewal that was seen last, and when. */
    uint64_t watched_number, watched_ms;
    uint64_t since_ms; /* that it lives, by this replica */
    char *address;
    char name[];
};

struct routes_entry {
    struct routes_names names;
    struct list link; /* of its holder's */
    struct routes_holder *holder;
    uint64_t epoch;
};

struct routes_heard {
    struct routes_names names;
    uint64_t at_ms;
};

/* A change that some living instance may not have seen. */
struct routes_change {
    struct routes_names names;
    struct list link; /* by offset */
    uint64_t offset;
};

/* How many commands wait for a device. */
struct routes_queue {
    struct routes_names names;
    uint64_t count;
};

/* What is done of a partition; `gateway` of the names is unused, `tenant` is the topic, `device` the partition in decimal. */
struct routes_topic {
    struct routes_names names;
    struct routes_done done;
    int32_t partition;
};

/* A request with a list of devices, one at a time (routes_orphans.c, routes_gateways.c). */
struct routes_sweep {
    struct table_write write;
    struct buf request;
    struct routes_names *items[ROUTES_ITEMS_MAX];
    size_t n;
    bool is_out;
    bool is_own;       /* of ours; they are not told of */
    bool is_uncertain; /* it is asked again: it may have been done */
};

struct routes_replica {
    struct routes *routes;
    struct worker *worker;
    struct routes_events events;

    /* The state. */
    struct list holders;
    struct routes_holder *self; /* under the present lease */
    struct map entries, heard, changes, queues, topics;
    struct list changes_by_age;
    uint64_t all_recent_to; /* every change before it counts as recent as long as somebody has not seen it */
    uint64_t least_seen;    /* of the other living instances */
    uint64_t at_offset;     /* of the change that is applied */
    struct list holds;
    bool has_instances_changed, has_seen_changed, has_orphans; /* in this batch */
    uint64_t instances_offset;                                 /* of the first such change of the batch */
    unsigned n_leases;                                         /* that it has seen this process have */

    /* From the table's thread, under `lock`. */
    pthread_mutex_t lock;
    struct buf news;
    uint64_t news_offset;
    bool is_told, is_reset;
    struct map marks; /* what has been done and not been published */
    struct mail news_mail, resumed_mail;
    atomic_bool is_resumed_posted;
    atomic_uint_fast64_t applied, seen; /* read by the keeper */

    /* Filling. */
    bool is_filling;
    struct mail fill_mail;
    struct task fill_task;
    struct timer fill_timer; /* to try again */
    struct table_reader reader;
    unsigned fill_kind;
    struct routes_key fill_after;
    uint64_t fill_offset;

    /* Writes under way; and those that wait for the first lease. */
    struct list writes, held;
    struct table_reader waiting_reader;

    struct routes_sweep orphans;
    struct timer orphans_timer;
    struct mail leave_mail;
    bool is_leaving, has_left;

    struct map notes;
    struct timer notes_timer, clean_timer;
    struct routes_sweep noting, cleaning;
    uint32_t clean_cursor;
};

/* --- routes_names.c --- */
struct routes_topic *routes_topic_find(const struct map *topics, struct str topic, int32_t partition);
struct routes_topic *routes_topic_add(struct map *topics, struct str topic, int32_t partition); /* that was not found */
void routes_topic_clear(struct map *topics);

/* --- routes_holder.c --- */
struct routes_holder *routes_holder_find_living(const struct routes_replica *r, struct str name);
struct routes_holder *routes_holder_find(const struct routes_replica *r, struct str name, uint64_t incarnation);
/* Finds it, or makes one that does not live. */
struct routes_holder *routes_holder_make(struct routes_replica *r, struct str name, uint64_t incarnation);
/* It has lost a route: gone with the last one, if it does not live. */
void routes_holder_release(struct routes_replica *r, struct routes_holder *h);
void routes_holder_clear(struct routes_replica *r);
/* A state of a lease; `value` NULL: it is gone. */
void routes_holder_apply(struct routes_replica *r, const struct routes_record *key, const struct routes_record *value,
                         uint64_t offset);

/* --- the keeper (routes_keeper.c) --- */

enum routes_keeper_state {
    ROUTES_KEEPER_OFF,
    ROUTES_KEEPER_FILLING,     /* replicas are */
    ROUTES_KEEPER_CATCHING_UP, /* with the end of the log */
    ROUTES_KEEPER_TAKING,      /* a lease */
    ROUTES_KEEPER_HOLDING,
    ROUTES_KEEPER_STANDING_BY, /* another process has the name */
};

enum routes_keeper_slot {
    ROUTES_SLOT_LEASE,
    ROUTES_SLOT_PUBLISH,
    ROUTES_SLOT_RENEW,
    ROUTES_SLOT_RENEW_TOO, /* while the first one is not answered */
    ROUTES_SLOT_FENCE,
    ROUTES_SLOT_LEAVE,
    ROUTES_SLOTS
};

struct routes_keeper_request {
    struct routes_keeper *keeper;
    struct table_write write;
    struct buf body;
    uint64_t incarnation, number, sent_ms, seen;
    bool is_out;
};

struct routes_keeper {
    struct routes *routes;
    struct worker *worker;
    enum routes_keeper_state state;
    uint64_t number;         /* of the last request that renews */
    uint64_t renewed_ms;     /* when the last one was sent that was accepted, or was asked for nothing else */
    uint64_t published_seen; /* accepted, under this lease */
    struct routes_keeper_request requests[ROUTES_SLOTS];
    struct map marks; /* collected from the replicas, not known to be published */
    size_t n_encoded; /* ranges of them that the publication under way has */
    bool has_marks;   /* replicas may have some */
    bool is_refused;  /* the last publication was, or not all of it was kept */
    bool is_late;     /* the lease has run out, and is not known to be lost */
    bool is_urgent;   /* the publication that the timer waits for */
    bool is_leaving, has_left;
    struct timer look_timer, publish_timer, leave_timer;
    struct table_barrier barrier;
    bool is_barrier_out;
    struct mail filled_mail, poke_mail, leave_mail;
    atomic_bool is_filled_posted, is_poked;
};

/* --- reports (routes_report.c) --- */

struct routes_reports {
    struct worker *worker; /* 0 */
    routes_on_report *on_report;
    void *context;

    pthread_mutex_t lock;
    struct map waiting; /* as names: the key is the tenant, what it says the gateway */
    atomic_bool is_posted;
    struct mail mail;

    /* Worker 0's. */
    struct timer timer;
    struct table_write write;
    struct buf body;
    struct routes_names *out[ROUTES_ITEMS_MAX];
    size_t n_out;
    bool is_out;
};

/* --- all --- */

struct routes {
    struct routes_settings settings;
    struct table *table;
    struct routes_replica *replicas;
    struct routes_keeper keeper;
    struct routes_reports reports;
    char *texts[2];   /* of the settings */
    uint64_t process; /* the upper bits of all our incarnations */
    uint64_t n_incarnations;
    atomic_uint_fast64_t incarnation; /* that we have, or have asked for; 0: none */
    atomic_uint_fast64_t leased_to_ms;
    atomic_uint_fast64_t epoch;
    atomic_uint_fast64_t matter_offset; /* behind the last change that others wait for us to see */
    atomic_bool is_feeding;
    atomic_uint n_unfilled, n_unready, n_leaving;
    struct mail *ready, *left;
    struct mailbox *ready_home, *left_home;
    uint64_t (*clock_ms)(void); /* one that goes on while the system sleeps; tests have their own */
};

static inline uint64_t routes_process_of(uint64_t incarnation)
{
    return incarnation & ~(uint64_t)0xffffff;
}

static inline bool routes_is_ours(const struct routes *r, uint64_t incarnation)
{
    return routes_process_of(incarnation) == r->process;
}

/* --- routes_replica.c --- */
void routes_replica_init(struct routes_replica *replica, struct routes *routes, struct worker *w);
void routes_replica_fini(struct routes_replica *replica);
void routes_replica_clear(struct routes_replica *replica);
/* One state. Events are told unless it is being filled. */
void routes_replica_apply(struct routes_replica *replica, struct str key, struct str value, uint64_t offset);
/* After all of a batch. */
void routes_replica_settle(struct routes_replica *replica);
/* Who of the living is the first for a text; NULL: nobody lives. */
const struct routes_instance *routes_replica_first(const struct routes_replica *replica, unsigned roles, struct str a,
                                                   struct str b);

/* --- routes_feed.c --- */
void routes_feed_on_applied(void *context, const struct table_change *change);
void routes_feed_on_rebuild(void *context, unsigned partition);
void routes_feed_init(struct routes_replica *replica);
void routes_feed_fini(struct routes_replica *replica);
/* Its process may act again under the lease that it had. Any thread. */
void routes_feed_tell_resumed(struct routes_replica *replica);
/* Others wait for us to see what is before this offset. Any thread. */
void routes_feed_note_matter(struct routes *routes, uint64_t offset);

/* --- routes_keeper.c --- */
void routes_keeper_init(struct routes_keeper *k, struct routes *routes);
void routes_keeper_fini(struct routes_keeper *k);
/* All replicas are filled. Any worker. */
void routes_keeper_tell_filled(struct routes_keeper *k);
/* There is something to look at: done marks, a hold that has ended, a lease that was given up. Any worker. */
void routes_keeper_poke(struct routes_keeper *k);
/* Its replica has applied something. Worker 0. */
void routes_keeper_on_news(struct routes_keeper *k);
/* Looks after the time: renewals, others. Worker 0; a timer calls it. */
void routes_keeper_look(struct routes_keeper *k);
/* Publishes what there is, if nothing is under way. Worker 0. */
void routes_keeper_publish(struct routes_keeper *k);
/* The lease is not worth anything any more. Any worker. */
void routes_keeper_forfeit(struct routes_keeper *k);

/* --- routes_write.c --- */
/* Fills the request from the record and sends it. */
void routes_write_ask(struct routes_replica *replica, struct routes_write *write, const struct routes_record *request,
                      bool needs_lease);
/* The first lease is there. */
void routes_write_release(struct routes_replica *replica);
void routes_write_fini(struct routes_replica *replica);
/* The reason in the reply to a write. */
enum routes_reason routes_write_reason(const struct table_write *write, struct str *out_rest);

/* --- routes_orphans.c --- */
void routes_orphans_init(struct routes_replica *replica);
void routes_orphans_look(struct routes_replica *replica);
void routes_orphans_fini(struct routes_replica *replica);
void routes_sweep_clear(struct routes_sweep *sweep);

/* --- routes_gateways.c --- */
void routes_gateways_init(struct routes_replica *replica);
void routes_gateways_start(struct routes_replica *replica);
void routes_gateways_fini(struct routes_replica *replica);

/* --- routes_report.c --- */
void routes_reports_init(struct routes *r);
void routes_reports_fini(struct routes *r);
/* Sends some of what waits, unless something is under way. Worker 0; a timer calls it. */
void routes_reports_send(struct routes *r);
void routes_report_apply(struct routes_replica *replica, const struct routes_record *key, const struct routes_record *value,
                         uint64_t offset);
