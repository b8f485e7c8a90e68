/* fanout_plane: one worker's part of the fan-out: its HTTP server and client, the snapshot that holds, and everything that is under way.
 * Nothing here is shared with another worker but the snapshots. Internal to fanout/; one thread, that of the worker. */
#pragma once

#include <stdatomic.h>

#include "base/slab.h"
#include "fanout/fanout.h"
#include "fanout/fanout_memory.h"
#include "fanout/fanout_park_disk.h"
#include "fanout/fanout_view.h"
#include "http/http_client.h"
#include "http/http_server.h"
#include "loop/resolver.h"

enum { FANOUT_PLANE_ROUTES = 2 };

struct fanout_plane {
    struct fanout *fanout;
    struct worker *worker;
    struct http_server server;
    struct http_server_options server_options;
    struct http_route routes[FANOUT_PLANE_ROUTES];
    struct http_client client;
    struct fanout_view *view; /* of the snapshot that holds; NULL before the start */
    struct fanout_snapshot *next;
    struct list views;
    struct map lanes, endpoints;
    struct map queues; /* of events in sequence, whose home is here; and the same as a list */
    struct list queue_list;
    struct fanout_memory memory, seen;            /* who has had an event; which ones came at all */
    struct list jobs;                             /* that run on this worker */
    struct list idle_jobs, idle_intakes;          /* to use again, with their buffers */
    unsigned n_jobs, n_idle_jobs, n_idle_intakes; /* n_jobs: that began here and are not finished */
    struct slab legs;
    struct arena scratch; /* of filters */
    uint64_t random;
    struct mail start, apply, drain, other_tls;
    _Atomic(struct tls *) next_tls; /* NULL: none is under way here */
    atomic_bool is_drain_posted;
    struct timer grace_timer, limit_timer;
    struct task done_task;
    bool is_draining; /* accepts nothing more */
    bool is_ending;   /* the time is over: what is under way is given up, and nothing new begins */
    bool is_done;
};

/* Of the process. */
struct fanout {
    struct fanout_settings settings;
    struct fanout_stateless *stateless; /* NULL: requests may not bring channels of their own */
    struct fanout_plane *planes;
    unsigned n_planes;
    struct http1_limits limits, response_limits;
    struct http_client_options client_options;
    struct resolver resolver;
    atomic_uint n_unstarted, n_unapplied, n_undrained;
    struct mail *started, *applied, *drained;
    struct mailbox *started_home, *applied_home, *drained_home;
    atomic_uint grace_ms, limit_ms;
    struct fanout_park_carrier carrier;
};

/* Sets up a worker's part, whose server is not bound; and takes it down after the threads have stopped. */
void fanout_plane_init(struct fanout_plane *plane, struct fanout *f, struct worker *w);
void fanout_plane_fini(struct fanout_plane *plane);

/* Forgets subscriptions and endpoints of earlier generations, and of channels that requests brought with them, once there are many. */
void fanout_plane_forget(struct fanout_plane *plane);

/* New connections of the client have this TLS; a reference is taken. Any thread. */
void fanout_plane_use_tls(struct fanout_plane *plane, struct tls *tls);

/* A job that began here is finished: perhaps the last one that a drain waits for. */
void fanout_plane_finish_job(struct fanout_plane *plane);

/* After the threads have stopped: ends all that is under way; the rest happens in turns of the loop. */
void fanout_plane_close(struct fanout_plane *plane);

/* Tells it that the fan-out's grace_ms or limit_ms have been set, or were made shorter. Any thread. */
void fanout_plane_drain(struct fanout_plane *plane);

/* The next of a sequence without pattern; not for secrets. */
static inline uint64_t fanout_plane_random(struct fanout_plane *plane)
{
    uint64_t z = plane->random += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
