/* mqtt_load: loads an MQTT server on this machine and prints what it saw as one line of JSON. One thread.
 *
 *   publish  N connections publish; done when all is acknowledged. --rate sends at a pace instead of as fast as the window allows;
 *            --announce 1 prints "ready" when they are there, as receive does
 *   fanout   one publishes, N subscribers get each message
 *   pairs    N publish, each to one subscriber of its own
 *   receive  N subscribe, somebody else sends: prints "ready" when they are there, done when --count messages have come
 *   idle     N connect, one after the other with --dialing at a time, and do nothing: connects a second, and the anonymous
 *            resident memory of --server-pid that each of them costs
 *
 * In fanout and pairs a message is in the window until it has been delivered, so that a server which may drop what its
 * subscribers cannot take (QoS 0) is not made to. Exit status: 0, 1 when something was lost, 2 usage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "latency.h"
#include "load_client.h"
#include "load_options.h"

#define NS_PER_S 1000000000ull

enum {
    TICK_MS = 1,
    STALL_S = 15,                /* without any progress for so long, the rest is lost */
    SETTLE_MS = 500,             /* before memory is read */
    CLIENTS_PER_SOURCE = 20000,  /* a loopback address has 28,000 ports */
    UNBOUNDED_OUTPUT = 64 << 10, /* QoS 0 without receipts: what may wait for the server */
    NAME_BYTES = 256,
};

enum phase { PHASE_CONNECT, PHASE_SETTLE, PHASE_RUN, PHASE_FINISH };

struct load {
    struct loop loop;
    struct timer tick;
    struct load_options o;
    struct load_client *clients; /* subscribers, then publishers */
    size_t n_subscribers, n_clients, n_opened, n_ready, n_lost;
    size_t next; /* with a rate: whose turn it is */
    enum phase phase;
    bool has_begun;             /* receive: the first message has come */
    uint64_t begin_ns, last_ns; /* of the phase; of the last progress */
    uint64_t sent;
    long memory_before;
    struct latency latency;
};

/* Replaces `%d` by a number: client `index` of a pattern. */
static void expand(const char *pattern, size_t index, char out[NAME_BYTES])
{
    const char *mark = strstr(pattern, "%d");

    if (mark)
        snprintf(out, NAME_BYTES, "%.*s%zu%s", (int)(mark - pattern), pattern, index, mark + 2);
    else
        snprintf(out, NAME_BYTES, "%s", pattern);
}

/* Bytes of anonymous resident memory: what a connection costs, without mapped files. */
static long anonymous_memory(uint64_t pid)
{
    char path[NAME_BYTES], line[NAME_BYTES];
    long kib = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%llu/status", (unsigned long long)pid);
    f = pid ? fopen(path, "re") : NULL;
    if (!f)
        return 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, "RssAnon:", 8) == 0)
            kib = strtol(line + 8, NULL, 10);
    fclose(f);
    return kib * 1024;
}

static struct load_client *publisher(struct load *ld, size_t index)
{
    return &ld->clients[ld->n_subscribers + index];
}

static size_t publisher_count(const struct load *ld)
{
    return ld->n_clients - ld->n_subscribers;
}

static uint64_t sum_received(const struct load *ld)
{
    uint64_t n = 0;

    for (size_t i = 0; i < ld->n_subscribers; i++)
        n += ld->clients[i].received;
    return n;
}

/* Whether messages come from outside, and there are no publishers. */
static bool is_receiving(const struct load *ld)
{
    return ld->o.mode == LOAD_RECEIVE;
}

/* How many messages of a publisher have come to their end. */
static uint32_t finished(const struct load *ld, const struct load_client *lc)
{
    size_t index = (size_t)(lc - ld->clients) - ld->n_subscribers;
    uint32_t acknowledged = ld->o.qos ? lc->acknowledged : lc->sent, delivered = lc->sent;

    if (ld->o.mode == LOAD_PAIRS)
        delivered = ld->clients[index].received;
    else if (ld->o.mode == LOAD_FANOUT)
        delivered = (uint32_t)(sum_received(ld) / ld->n_subscribers);
    return acknowledged < delivered ? acknowledged : delivered;
}

static void publish(struct load *ld, struct load_client *lc, uint64_t time_ns)
{
    load_client_publish(lc, time_ns);
    ld->sent++;
}

/* Whether a publisher may send one more. */
static bool has_room(const struct load *ld, const struct load_client *lc)
{
    if (ld->o.count && ld->sent >= ld->o.count)
        return false;
    if (ld->o.mode == LOAD_PUBLISH && ld->o.qos == 0)
        return stream_pending(&lc->stream) < UNBOUNDED_OUTPUT;
    return lc->sent - finished(ld, lc) < ld->o.window;
}

/* Fills a publisher's window. */
static void pump(struct load *ld, struct load_client *lc)
{
    uint64_t now_ns = latency_clock_ns();

    if (ld->phase != PHASE_RUN || ld->o.rate || !lc->is_ready)
        return;
    while (has_room(ld, lc))
        publish(ld, lc, now_ns);
}

/* Sends what is due at this time; latency counts from when it was due, not from when this process got round to it. */
static void keep_pace(struct load *ld, uint64_t now_ns)
{
    uint64_t due = (uint64_t)((double)(now_ns - ld->begin_ns) / (double)NS_PER_S * (double)ld->o.rate);

    if (ld->o.count && due > ld->o.count)
        due = ld->o.count;
    while (ld->sent < due) {
        struct load_client *lc = publisher(ld, ld->next++ % publisher_count(ld));

        if (lc->sent - finished(ld, lc) >= LOAD_CLIENT_MAX_WINDOW)
            return;
        publish(ld, lc, ld->begin_ns + ld->sent * NS_PER_S / ld->o.rate);
    }
}

static void enter(struct load *ld, enum phase phase)
{
    ld->phase = phase;
    ld->begin_ns = ld->last_ns = latency_clock_ns();
}

static void on_acknowledged(struct load_client *lc, uint64_t waited_ns)
{
    struct load *ld = lc->owner;

    if (ld->o.mode == LOAD_PUBLISH)
        latency_add(&ld->latency, waited_ns);
}

/* Somebody else sends: the time counts from the first message. */
static void begin(struct load *ld)
{
    ld->has_begun = true;
    ld->begin_ns = latency_clock_ns();
}

static void on_message(struct load_client *lc, uint64_t sent_ns)
{
    struct load *ld = lc->owner;

    if (!is_receiving(ld))
        latency_add(&ld->latency, latency_clock_ns() - sent_ns);
    else if (!ld->has_begun)
        begin(ld);
}

static void on_batch(struct load_client *lc)
{
    struct load *ld = lc->owner;
    size_t index = (size_t)(lc - ld->clients);

    ld->last_ns = latency_clock_ns();
    if (ld->phase != PHASE_RUN || is_receiving(ld))
        return;
    if (index >= ld->n_subscribers)
        pump(ld, lc);
    else
        pump(ld, publisher(ld, ld->o.mode == LOAD_PAIRS ? index : 0));
}

static void on_lost(struct load_client *lc, const char *why)
{
    struct load *ld = lc->owner;

    if (ld->n_lost++ == 0)
        fprintf(stderr, "mqtt_load: connection %zu lost: %s\n", (size_t)(lc - ld->clients), why);
    if (ld->phase == PHASE_CONNECT)
        loop_stop(&ld->loop);
}

static void on_ready(struct load_client *lc);

static const struct load_client_ops client_ops = {
    .on_ready = on_ready,
    .on_acknowledged = on_acknowledged,
    .on_message = on_message,
    .on_batch = on_batch,
    .on_lost = on_lost,
};

static void open_client(struct load *ld, size_t at)
{
    struct load_client *lc = &ld->clients[at];
    bool is_subscriber = at < ld->n_subscribers;
    size_t index = is_subscriber ? at : at - ld->n_subscribers;
    char id[LOAD_CLIENT_ID_BYTES], topic[NAME_BYTES], user[NAME_BYTES];
    struct load_client_login login = {.client_id = id, .keep_alive_s = (uint16_t)ld->o.keep_alive};

    snprintf(id, sizeof id, "%c%d-%zu", is_subscriber ? 's' : 'p', (int)getpid(), index);
    expand(ld->o.topic, ld->o.mode == LOAD_FANOUT ? 0 : index, topic);
    if (ld->o.user) {
        expand(ld->o.user, index, user);
        login.user = user;
        login.password = ld->o.password;
    }
    lc->owner = ld;
    if (!is_subscriber && ld->o.mode != LOAD_IDLE)
        load_client_prepare(lc, topic, (uint8_t)ld->o.qos, (uint32_t)ld->o.size);
    if (load_client_open(lc, &ld->loop, &client_ops, (uint16_t)ld->o.port, (uint8_t)(1 + at / CLIENTS_PER_SOURCE), &login,
                         is_subscriber ? mem_copy_text(MEM_TEST, topic, strlen(topic)) : NULL, (uint8_t)ld->o.qos) != E_OK)
        on_lost(lc, "cannot connect");
}

/* Keeps a number of connections under way. Subscribers come first and are all there before the first publisher is. */
static void open_more(struct load *ld)
{
    size_t wanted = ld->n_ready + ld->o.dialing;

    if (ld->n_ready < ld->n_subscribers && wanted > ld->n_subscribers)
        wanted = ld->n_subscribers;
    while (ld->n_opened < wanted && ld->n_opened < ld->n_clients && !ld->n_lost)
        open_client(ld, ld->n_opened++);
}

/* JSON has no way to write what 0 divided by 0 is. */
static double per(double n, double d)
{
    return d > 0 ? n / d : 0;
}

static void print_idle(const struct load *ld, double seconds)
{
    long after = anonymous_memory(ld->o.server_pid);

    printf("{\"mode\": \"idle\", \"connections\": %zu, \"seconds\": %.3f, \"connects_per_s\": %.0f, \"anonymous_before\": %ld, "
           "\"anonymous_after\": %ld, \"bytes_per_connection\": %.0f}\n",
           ld->n_ready, seconds, per((double)ld->n_ready, seconds), ld->memory_before, after,
           per((double)(after - ld->memory_before), (double)ld->n_ready));
}

static void on_ready(struct load_client *lc)
{
    struct load *ld = lc->owner;

    ld->n_ready++;
    ld->last_ns = latency_clock_ns();
    if (ld->n_ready < ld->n_clients) {
        open_more(ld);
        return;
    }
    if (ld->o.mode == LOAD_IDLE) {
        ld->phase = PHASE_SETTLE;
        return;
    }
    enter(ld, PHASE_RUN);
    if (is_receiving(ld) || ld->o.announce) {
        puts("ready");
        fflush(stdout);
    }
    for (size_t i = 0; i < publisher_count(ld); i++)
        pump(ld, publisher(ld, i));
}

static bool is_all_finished(const struct load *ld)
{
    for (size_t i = 0; i < ld->n_clients; i++) {
        const struct load_client *lc = &ld->clients[i];

        if (stream_pending(&lc->stream) || (i >= ld->n_subscribers && finished(ld, lc) < lc->sent))
            return false;
    }
    return true;
}

static bool is_time_up(const struct load *ld, uint64_t now_ns)
{
    if (is_receiving(ld))
        return sum_received(ld) >= ld->o.count;
    return ld->o.count ? ld->sent >= ld->o.count : now_ns - ld->begin_ns >= ld->o.seconds * NS_PER_S;
}

static void on_tick(struct timer *t)
{
    struct load *ld = CONTAINER_OF(t, struct load, tick);
    uint64_t now_ns = latency_clock_ns();

    if (ld->phase == PHASE_RUN && ld->o.rate)
        keep_pace(ld, now_ns);
    if (ld->phase == PHASE_RUN && is_time_up(ld, now_ns))
        ld->phase = PHASE_FINISH;
    if ((ld->phase == PHASE_FINISH && is_all_finished(ld)) || now_ns - ld->last_ns > STALL_S * NS_PER_S)
        loop_stop(&ld->loop);
    if (ld->phase == PHASE_SETTLE && now_ns - ld->last_ns > SETTLE_MS * NS_PER_S / 1000)
        loop_stop(&ld->loop);
    wheel_start(&ld->loop.wheel, t, TICK_MS);
}

/* How many messages subscribers were to get. */
static uint64_t count_expected(const struct load *ld)
{
    switch (ld->o.mode) {
    case LOAD_FANOUT:
        return ld->sent * ld->n_subscribers;
    case LOAD_PAIRS:
        return ld->sent;
    case LOAD_RECEIVE:
        return ld->o.count;
    default:
        return 0;
    }
}

static int report(const struct load *ld)
{
    uint64_t acknowledged = 0, delivered = sum_received(ld), expected = count_expected(ld);
    double seconds = (double)(ld->last_ns - ld->begin_ns) / (double)NS_PER_S;

    if (ld->o.mode == LOAD_IDLE) {
        print_idle(ld, seconds);
        return ld->n_ready < ld->n_clients || ld->n_lost;
    }
    for (size_t i = ld->n_subscribers; i < ld->n_clients; i++)
        acknowledged += ld->o.qos ? ld->clients[i].acknowledged : ld->clients[i].sent;
    printf("{\"mode\": \"%s\", \"connections\": %zu, \"qos\": %llu, \"size\": %llu, \"window\": %llu, \"sent\": %llu, "
           "\"acknowledged\": %llu, \"delivered\": %llu, \"expected\": %llu, \"lost_connections\": %zu, \"seconds\": %.3f, "
           "\"rate\": %.0f, ",
           load_options_mode_name(ld->o.mode), ld->n_clients, (unsigned long long)ld->o.qos, (unsigned long long)ld->o.size,
           (unsigned long long)ld->o.window, (unsigned long long)ld->sent, (unsigned long long)acknowledged,
           (unsigned long long)delivered, (unsigned long long)expected, ld->n_lost, seconds,
           per((double)(ld->n_subscribers ? delivered : acknowledged), seconds));
    latency_print(&ld->latency);
    printf("}\n");
    return acknowledged < ld->sent || delivered < expected || ld->n_lost || ld->n_ready < ld->n_clients;
}

static void count_clients(struct load *ld)
{
    size_t n = ld->o.connections;

    ld->n_subscribers = ld->o.mode == LOAD_PUBLISH || ld->o.mode == LOAD_IDLE ? 0 : n;
    ld->n_clients = n + (ld->o.mode == LOAD_FANOUT ? 1 : ld->o.mode == LOAD_PAIRS ? n : 0);
}

static int run(struct load *ld)
{
    struct rlimit files;
    int status;

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (loop_init(&ld->loop, 0, NULL) != E_OK)
        return 1;
    count_clients(ld);
    ld->clients = mem_alloc_zero(MEM_TEST, ld->n_clients * sizeof *ld->clients);
    ld->memory_before = anonymous_memory(ld->o.server_pid);
    ld->tick.on_timer = on_tick;
    wheel_start(&ld->loop.wheel, &ld->tick, TICK_MS);
    enter(ld, PHASE_CONNECT);
    open_more(ld);
    loop_run(&ld->loop);
    status = report(ld);
    for (size_t i = 0; i < ld->n_clients; i++) {
        mem_free(MEM_TEST, (char *)(uintptr_t)ld->clients[i].filter);
        load_client_free(&ld->clients[i]);
    }
    mem_free(MEM_TEST, ld->clients);
    loop_fini(&ld->loop);
    return status;
}

int main(int argc, char **argv)
{
    static struct load ld;

    if (!load_options_parse(&ld.o, argc, argv))
        return 2;
    return run(&ld);
}
