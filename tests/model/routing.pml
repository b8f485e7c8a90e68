/* Commands of one device between instances, with the routing `router`, `link` or `shared` (docs/adr/0021): routes in a log that everybody
 * applies at leisure, a member of the group that has the partition and sends commands to the instance of the route, results that
 * come back. The device moves, an instance is killed, one loses its lease without noticing, the partition changes hands.
 *
 *   N instances that devices connect to; two members that read commands. With SHARED each instance is a member as well, so that one
 *   death takes both. K commands, MOVES connections of the device after the first, and KILLS, STALLS, HANDOVERS of each at most one.
 *
 * Requests and results between two that live arrive in order and once: link.pml shows that of the link's own protocol.
 *
 * Checked in every state: what the device gets for the first time comes in order, unless an application was told before that it would not
 * come; nothing comes twice in a run without kills, stalls and handovers. Checked where nothing can happen any more: each command was got, or
 * its application told.
 *
 * WITHOUT_LANES, WITHOUT_TAKING_BACK, WITHOUT_WAITING, WITHOUT_OLDER_FIRST each leave out something that this depends on: then the check must fail. */
#ifndef K
#define K 2
#endif
#ifndef MOVES
#define MOVES 2
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef STALLS
#define STALLS 0
#endif
#ifndef HANDOVERS
#define HANDOVERS 0
#endif

#define N 2
#define WINDOW 2
#define NOBODY N
#define LOG 12

#ifdef SHARED
#define VIEWS N
#define VIEW(m) (m)
#define IS_DEAD(m) is_dead[m]
#else
#define VIEWS (N + 2)
#define VIEW(m) (N + (m))
#define IS_DEAD(m) false
#endif

mtype = { ROUTE, REMOVED, GONE };
mtype = { NEW, OUT, DONE };
mtype = { RECEIVED, RETURNED };

/* --- the table: its log, and the state behind all of it --- */

mtype log_what[LOG];
byte log_who[LOG], log_epoch[LOG], n_log;
byte now_who = NOBODY, now_epoch;
bool now_gone[N];

inline append(what, who, epoch)
{
    assert(n_log < LOG);
    log_what[n_log] = what;
    log_who[n_log] = who;
    log_epoch[n_log] = epoch;
    n_log++
}

/* A registration takes the place of what is there, if its instance has a lease. */
inline register(who, epoch)
{
    if
    :: !now_gone[who] ->
        now_who = who;
        now_epoch = epoch;
        append(ROUTE, who, epoch)
    :: else
    fi
}

/* Only if it is still that one. */
inline unregister(who, epoch)
{
    if
    :: now_who == who && now_epoch == epoch ->
        now_who = NOBODY;
        append(REMOVED, who, epoch)
    :: else
    fi
}

/* --- replicas --- */

byte applied[VIEWS], who_in[VIEWS], epoch_in[VIEWS];
bool gone_in[VIEWS * N];

#define HAS_ROUTE(v) (who_in[v] != NOBODY && !gone_in[(v) * N + who_in[v]])

inline apply_next(v)
{
    if
    :: log_what[applied[v]] == ROUTE ->
        who_in[v] = log_who[applied[v]];
        epoch_in[v] = log_epoch[applied[v]]
    :: log_what[applied[v]] == REMOVED ->
        who_in[v] = NOBODY
    :: log_what[applied[v]] == GONE ->
        gone_in[(v) * N + log_who[applied[v]]] = true
    fi;
    applied[v]++
}

/* --- the device --- */

byte device_at = NOBODY, device_epoch, n_epochs;
bool has_got[K], was_told[K]; /* the command; that it does not come */
byte n_got;                   /* of the first ones */
bool is_disturbed;            /* somebody was killed, or stalled, or the partition moved */

inline get(command)
{
    assert(has_got[command] || was_told[command] || command >= n_got);
    assert(!has_got[command] || is_disturbed);
    has_got[command] = true;
    if
    :: command >= n_got -> n_got = command + 1
    :: else
    fi
}

/* --- instances --- */

bool is_dead[N], has_lease[N];
byte entry[N];     /* the epoch of the device's connection, 0: none */
bool is_asking[N]; /* its registration is on its way */
byte asked_at[N];  /* where it stands in the log */
bool knows[N * K]; /* that the command was delivered here */

chan requests[2 * N] = [WINDOW] of { byte, byte, byte }; /* from member m to instance i: command, epoch, after */
chan results[2 * N] = [WINDOW + 1] of { byte, byte, mtype };

#define IS_LIVE(i) (device_at == i && device_epoch == entry[i])

chan way[N] = [2 * WINDOW] of { byte, byte }; /* to the device: command, epoch */
byte under_way[N * K];                        /* by which epoch; 0: not */
byte asker[N * K], asker_epoch[N * K];        /* who wants the result, the newest */

/* What is on its way by an older connection comes back first: nothing overtakes it, and nothing takes its result for its own. */
#ifdef WITHOUT_OLDER_FIRST
#define HAS_OLDER(i, e) false
#else
#define IS_OLDER(i, e, c) ((c) < K && under_way[(i) * K + (c) * ((c) < K)] != 0 && under_way[(i) * K + (c) * ((c) < K)] != e)
#define HAS_OLDER(i, e) (IS_OLDER(i, e, 0) || IS_OLDER(i, e, 1) || IS_OLDER(i, e, 2))
#endif

inline answer(m, e, result)
{
    if
    :: IS_DEAD(m) /* it vanishes */
    :: else -> results[i * 2 + m]!command, e, result
    fi
}

/* The oldest request of a member: whoever has not seen as much of the log as its sender first does. */
inline handle(m)
{
    requests[m * N + i]?<command, epoch, after>;
    if
    :: applied[i] < after -> apply_next(i)
    :: applied[i] >= after && HAS_OLDER(i, epoch) /* it waits */
    :: else ->
        requests[m * N + i]?command, epoch, after;
        if
        :: knows[i * K + command] -> answer(m, epoch, RECEIVED)
        :: !knows[i * K + command] && under_way[i * K + command] != 0 ->
            asker[i * K + command] = m;
            asker_epoch[i * K + command] = epoch
        :: !knows[i * K + command] && under_way[i * K + command] == 0 && entry[i] == epoch && has_lease[i] ->
            under_way[i * K + command] = epoch;
            asker[i * K + command] = m;
            asker_epoch[i * K + command] = epoch;
            way[i]!command, epoch
        :: else -> answer(m, epoch, RETURNED)
        fi
    fi;
    command = 0;
    epoch = 0;
    after = 0
}

proctype instance(byte i)
{
    byte command, epoch, after, m;

    do
    :: is_dead[i] -> break
    :: d_step { !is_dead[i] && applied[i] < n_log -> apply_next(i) }
    /* It was asked for before the connection ended, if it did. */
    :: d_step {
        !is_dead[i] && is_asking[i] ->
        register(i, entry[i]);
        is_asking[i] = false;
        asked_at[i] = n_log
    }
    /* The end of a connection is noticed at some time. */
    :: d_step {
        !is_dead[i] && entry[i] != 0 && !is_asking[i] && !IS_LIVE(i) ->
        unregister(i, entry[i]);
        entry[i] = 0
    }
    /* One that lives, and sees its place removed, or void, is registered again. */
    :: d_step {
        !is_dead[i] && has_lease[i] && entry[i] != 0 && !is_asking[i] && IS_LIVE(i) && applied[i] >= asked_at[i] &&
            !HAS_ROUTE(i) ->
        n_epochs++;
        entry[i] = n_epochs;
        device_epoch = n_epochs;
        is_asking[i] = true
    }
    :: atomic { !is_dead[i] && nempty(requests[i]) && nfull(way[i]) -> handle(0) }
    :: atomic { !is_dead[i] && nempty(requests[N + i]) && nfull(way[i]) -> handle(1) }
    /* A lease may be lost, an instance die, a device go, between the look at all that and the delivery. */
    :: atomic {
        !is_dead[i] && nempty(way[i]) ->
        way[i]?command, epoch;
        under_way[i * K + command] = 0;
        m = asker[i * K + command];
        if
        :: IS_LIVE(i) && entry[i] == epoch ->
            get(command);
            knows[i * K + command] = true;
            answer(m, asker_epoch[i * K + command], RECEIVED)
        :: else -> answer(m, asker_epoch[i * K + command], RETURNED)
        fi;
        asker[i * K + command] = 0;
        asker_epoch[i * K + command] = 0;
        command = 0;
        epoch = 0;
        m = 0
    }
    od
}

/* --- members --- */

byte owner;     /* of the partition, as the group decides */
byte committed; /* the commands before it are never read again */
mtype state[2 * K];
byte out_to[2], out_epoch[2], n_out[2];

#define IS_NEW(m, c) ((c) < K && state[(m) * K + (c)] == NEW)
#define FIRST_NEW(m) (IS_NEW(m, 0) -> 0 : (IS_NEW(m, 1) -> 1 : (IS_NEW(m, 2) -> 2 : K)))

/* A command goes where those that are out went, or waits for them. */
#ifdef WITHOUT_LANES
#define IS_ITS_TURN(m) true
#define IS_AWAITED(m, from, epoch) true
#else
#define IS_AWAITED(m, from, epoch) (out_to[m] == from && out_epoch[m] == epoch)
#define IS_ITS_TURN(m) (n_out[m] == 0 || (out_to[m] == who_in[VIEW(m)] && out_epoch[m] == epoch_in[VIEW(m)]))
#endif
#define CAN_SEND(m)                                                                                    \
    (FIRST_NEW(m) < K && HAS_ROUTE(VIEW(m)) && n_out[m] < WINDOW && IS_ITS_TURN(m) &&                  \
     nfull(requests[(m) * N + who_in[VIEW(m)]]))

#ifdef WITHOUT_TAKING_BACK
#define HAS_LOST_SOME(m) false
#else
#define HAS_LOST_SOME(m) (n_out[m] > 0 && gone_in[VIEW(m) * N + out_to[m]])
#endif

/* Only what is done is passed. */
#ifdef WITHOUT_WAITING
#define IS_PASSED(s) (s != NEW)
#else
#define IS_PASSED(s) (s == DONE)
#endif

/* Where nothing else happens; not for ever. */
byte n_asked[2];
#define CAN_ASK_AGAIN(m) (n_out[m] > 0 && n_asked[m] < K + 1 && len(requests[(m) * N + out_to[m]]) < WINDOW)

inline take_back(m)
{
    found = 0;
    do
    :: found < K ->
        if
        :: state[(m) * K + found] == OUT -> state[(m) * K + found] = NEW
        :: else
        fi;
        found++
    :: else -> break
    od;
    found = 0;
    n_out[m] = 0
}

inline take_result(m, from)
{
    results[(from) * 2 + m]?command, epoch, result;
    if
    :: state[(m) * K + command] == OUT && IS_AWAITED(m, from, epoch) ->
        n_out[m]--;
        state[(m) * K + command] = (result == RECEIVED -> DONE : NEW)
    :: else /* it is not waited for any more */
    fi;
    command = 0;
    epoch = 0;
    result = RECEIVED
}

proctype member(byte m)
{
    byte command, epoch, found;
    mtype result = RECEIVED;
    bool has = (m == 0);

    do
    :: IS_DEAD(m) -> break
#ifndef SHARED /* else the instance applies for both */
    :: d_step { applied[VIEW(m)] < n_log -> apply_next(VIEW(m)) }
#endif
    /* What is out to one that is gone is chosen anew. */
    :: d_step { !IS_DEAD(m) && HAS_LOST_SOME(m) -> take_back(m) }
    :: d_step {
        !IS_DEAD(m) && has && CAN_SEND(m) ->
        found = FIRST_NEW(m);
        out_to[m] = who_in[VIEW(m)];
        out_epoch[m] = epoch_in[VIEW(m)];
        n_out[m]++;
        state[m * K + found] = OUT;
        requests[m * N + out_to[m]]!found, out_epoch[m], applied[VIEW(m)];
        found = 0
    }
    :: d_step {
        !IS_DEAD(m) && has && FIRST_NEW(m) < K && n_out[m] == 0 && !HAS_ROUTE(VIEW(m)) ->
        found = FIRST_NEW(m);
        was_told[found] = true;
        state[m * K + found] = DONE;
        found = 0
    }
    /* A member that has lost the partition may have been the last that asked; then nobody else is told. */
    :: atomic {
        timeout && !IS_DEAD(m) && CAN_ASK_AGAIN(m) ->
        n_asked[m]++;
        found = (state[m * K] == OUT -> 0 : (state[m * K + 1] == OUT -> 1 : K - 1));
        requests[m * N + out_to[m]]!found, out_epoch[m], applied[VIEW(m)];
        found = 0
    }
    :: d_step { !IS_DEAD(m) && nempty(results[m]) -> take_result(m, 0) }
    :: d_step { !IS_DEAD(m) && nempty(results[2 + m]) -> take_result(m, 1) }
    :: d_step { !IS_DEAD(m) && owner == m && has && committed < K && IS_PASSED(state[m * K + committed]) -> committed++ }
    /* It learns at some time that it has the partition, or has it no more. */
    :: d_step {
        !IS_DEAD(m) && owner == m && !has ->
        has = true;
        found = 0;
        do
        :: found < K ->
            state[m * K + found] = (found < committed -> DONE : NEW);
            found++
        :: else -> break
        od;
        found = 0
    }
    :: d_step { !IS_DEAD(m) && owner != m && has -> has = false; take_back(m) }
    od
}

/* --- what happens to them --- */

byte n_moves, n_kills, n_stalls, n_handovers;

inline connect(i)
{
    n_epochs++;
    device_at = i;
    device_epoch = n_epochs;
    entry[i] = n_epochs;
    is_asking[i] = true
}

/* A connection to the same instance takes the place of the one before only when that has been registered: a subscriber has one request
 * out at a time. */
#define CAN_TAKE(i) (!is_dead[i] && has_lease[i] && !is_asking[i] && entry[i] == 0)

inline fence()
{
    now_gone[0] = true;
    append(GONE, 0, 0)
}

/* Nobody is fenced before its lease has run out; then somebody does it. So is another member chosen for one that is dead. */
#define CAN_FENCE (!has_lease[0] && !now_gone[0])
#define MUST_HAND_OVER (owner == 0 && IS_DEAD(0))

inline hand_over()
{
    n_handovers++;
    is_disturbed = true;
    owner = 1
}

proctype world()
{
    byte i;

    do
    :: d_step { n_moves <= MOVES && CAN_TAKE(0) -> n_moves++; connect(0) }
    :: d_step { n_moves <= MOVES && CAN_TAKE(1) -> n_moves++; connect(1) }
    :: d_step { n_moves <= MOVES && device_at != NOBODY -> n_moves++; device_at = NOBODY }
    :: d_step {
        n_kills < KILLS && !is_dead[0] ->
        n_kills++;
        is_disturbed = true;
        is_dead[0] = true;
        has_lease[0] = false;
        if
        :: device_at == 0 -> device_at = NOBODY
        :: else
        fi
    }
    :: d_step { n_stalls < STALLS && has_lease[0] -> n_stalls++; is_disturbed = true; has_lease[0] = false }
    :: d_step { CAN_FENCE -> fence() }
    :: d_step { owner == 0 && (n_handovers < HANDOVERS || IS_DEAD(0)) -> hand_over() }
    :: break
    od;
    do
    :: d_step { CAN_FENCE -> fence() }
    :: d_step { MUST_HAND_OVER -> hand_over() }
    :: timeout && !(CAN_ASK_AGAIN(0) && !IS_DEAD(0)) && !(CAN_ASK_AGAIN(1) && !IS_DEAD(1)) -> break
    od;
    do
    :: i < K -> assert(has_got[i] || was_told[i]); i++
    :: else -> break
    od
}

init
{
    byte i;

    d_step {
        i = 0;
        do
        :: i < 2 * K -> state[i] = NEW; i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < VIEWS -> who_in[i] = NOBODY; i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < N -> has_lease[i] = true; i++
        :: else -> break
        od;
        i = 0
    };
    atomic {
        run instance(0);
        run instance(1);
        run member(0);
#if HANDOVERS > 0 || defined(SHARED)
        run member(1);
#endif
        run world()
    }
}
