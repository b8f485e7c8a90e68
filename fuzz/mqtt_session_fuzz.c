/* Sequences of packets of several clients against the whole MQTT adapter and broker, two workers driven by hand and a fake sink
 * in Kafka's place. The input is a list of steps: who does what (connect, send, go away, answer, no room, time passes).
 *
 * Connections are socket pairs within the process: the read path begins at a stream, which has a descriptor. Nothing else is
 * outside, so that a run is the same each time; what is checked is that memory and the ledger balance in the end. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapter/mqtt/mqtt_conn.h"
#include "base/check.h"
#include "broker/broker_metrics.h"
#include "fake/fake_sink.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORKERS = 2, CLIENTS = 4, MAILBOX_BYTES = 4096, STEPS_MAX = 200, PACKET_BYTES = 128, RAW_MAX = 64, DROP_BYTES = 16384 };

static const char config_text[] =
    "kafka: {bootstrap: 'nowhere:9092'}\n"
    "listeners: [{mqtt: '127.0.0.1:0', tenant: t, anonymous: true}]\n"
    "tenants: {t: {devices: {d: {password: p}, g: {password: p}, e: {via: g}}}}\n"
    "limits: {receive_maximum: 4, topic_levels: 4, subscriptions_per_session: 6, topic_alias_maximum: 3,\n"
    "  session_queued_messages: 8, session_queued_bytes: 64KiB, output_bytes: 64KiB,\n"
    "  max_packet_bytes: 4KiB}\n";

static struct {
    struct generation *generation;
    struct workers workers;
    struct fake_sink sink;
    struct mqtt_adapter *adapter;
    int peers[CLIENTS]; /* -1: not connected */
} f;

struct input {
    const uint8_t *p;
    size_t n;
};

static unsigned next(struct input *in)
{
    if (in->n == 0)
        return 0;
    in->n--;
    return *in->p++;
}

/* The configuration is the same for all runs. */
static void set_up_once(void)
{
    struct config_source source = {.text = str_from(config_text), .name = "fuzz.yaml"};
    static struct config_errors errors;
    struct config *config;

    if (f.generation)
        return;
    if (config_load(&source, &config, &errors) != E_OK) {
        fprintf(stderr, "%s\n", errors.items[0].text);
        abort();
    }
    f.generation = generation_new(1, config, NULL);
}

static void set_up(void)
{
    struct mqtt_adapter_settings settings = {.workers = &f.workers, .sink = &f.sink.sink, .generation = f.generation};

    fake_sink_init(&f.sink);
    fake_sink_hold(&f.sink);
    ASSERT(workers_init(&f.workers, WORKERS, MAILBOX_BYTES, NULL, NULL) == E_OK);
    ASSERT(mqtt_adapter_open(&settings, &f.adapter, NULL) == E_OK);
    for (int i = 0; i < CLIENTS; i++)
        f.peers[i] = -1;
}

static void turn(void)
{
    for (unsigned i = 0; i < WORKERS; i++)
        loop_turn(&f.workers.list[i].loop, 0);
}

static void tear_down(void)
{
    for (int i = 0; i < CLIENTS; i++)
        if (f.peers[i] >= 0)
            close(f.peers[i]);
    fake_sink_release(&f.sink, SIZE_MAX);
    mqtt_adapter_free(f.adapter);
    workers_fini(&f.workers);
    fake_sink_fini(&f.sink);
}

static void open_peer(unsigned i, unsigned worker)
{
    int fds[2];

    if (f.peers[i] >= 0)
        close(f.peers[i]);
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    f.peers[i] = fds[1];
    mqtt_conn_accept(&f.adapter->workers[worker], 0, fds[0]);
}

/* A packet under construction; its length is filled in at the end. */
struct packet {
    unsigned char p[PACKET_BYTES];
    size_t n;
    bool is_5;
};

static void put(struct packet *k, unsigned byte)
{
    ASSERT(k->n < PACKET_BYTES);
    k->p[k->n++] = (unsigned char)byte;
}

static void put_text(struct packet *k, const char *text)
{
    put(k, 0);
    put(k, (unsigned)strlen(text));
    while (*text)
        put(k, (unsigned char)*text++);
}

static void begin(struct packet *k, unsigned first)
{
    put(k, first);
    put(k, 0);
}

/* Anonymous clients, a device and a gateway, with few client ids, so that they take over from each other. */
static void make_connect(struct packet *k, struct input *in)
{
    static const char *const users[] = {NULL, "d", "g", "nobody"};
    unsigned who = next(in), how = next(in);
    const char *user = users[who % ARRAY_LEN(users)];

    begin(k, 0x10);
    put_text(k, "MQTT");
    put(k, k->is_5 ? 5 : 4);
    put(k, (user ? 0xc0u : 0) | (how & 4 ? 0x04u | (how & 0x38u) : 0) | (how & 2u));
    put(k, 0);
    put(k, how & 0x40);
    if (k->is_5) {
        put(k, 11);
        put(k, 0x11); /* Session Expiry */
        put(k, 0);
        put(k, 0);
        put(k, 0);
        put(k, how & 1 ? 30 : 0);
        put(k, 0x21); /* Receive Maximum */
        put(k, 0);
        put(k, 2);
        put(k, 0x22); /* Topic Alias Maximum */
        put(k, 0);
        put(k, who >> 6);
    }
    put_text(k, who & 0x10 ? "" : who & 0x20 ? "one" : "two");
    if (how & 4) {
        if (k->is_5)
            put(k, 0);
        put_text(k, how & 0x80 ? "event" : "a");
        put_text(k, "gone");
    }
    if (user) {
        put_text(k, user);
        put_text(k, "p");
    }
}

static void make_publish(struct packet *k, struct input *in)
{
    static const char *const topics[] = {"a",
                                         "a/b",
                                         "t",
                                         "event",
                                         "t//e",
                                         "e//d/?on-error=skip-ack",
                                         "$SYS/x",
                                         "a/b/c/d/e",
                                         "e//d",
                                         "",
                                         "t//d/?on-error=ignore",
                                         "error",
                                         "some/topic"};
    unsigned flags = next(in) & 0x0f, details = next(in);

    begin(k, 0x30 | flags);
    put_text(k, topics[details % ARRAY_LEN(topics)]);
    if (flags & 6) {
        put(k, 0);
        put(k, 1 + details / ARRAY_LEN(topics) % 6);
    }
    if (k->is_5 && details & 0x80) {
        put(k, 3);
        put(k, 0x23); /* Topic Alias */
        put(k, 0);
        put(k, details % 5);
    } else if (k->is_5) {
        put(k, 5);
        put(k, 0x02); /* Message Expiry */
        put(k, 0);
        put(k, 0);
        put(k, 0);
        put(k, details % 8);
    }
    if (details & 0x40)
        put(k, 'x');
}

static void make_subscribe(struct packet *k, struct input *in)
{
    static const char *const filters[] = {"a",   "#",          "+/b",       "a/#",       "$SYS/#", "+",
                                          "a/b", "$share/s/a", "a/+/c/d/e", "error///#", "e//+/#", "error//e/#"};
    unsigned how = next(in), options = next(in);

    begin(k, how & 1 ? 0xa2 : 0x82);
    put(k, 0);
    put(k, 1);
    if (k->is_5 && how & 2 && !(how & 1)) {
        put(k, 2);
        put(k, 0x0b); /* Subscription Identifier */
        put(k, how);
    } else if (k->is_5) {
        put(k, 0);
    }
    for (unsigned i = 0; i <= how >> 2 % 3; i++) {
        put_text(k, filters[(how + i) % ARRAY_LEN(filters)]);
        if (!(how & 1))
            put(k, k->is_5 ? options & 0x3f : options % 3);
        if (k->n > PACKET_BYTES / 2)
            break;
    }
}

static void make_answer(struct packet *k, struct input *in)
{
    static const unsigned char firsts[] = {0x40, 0x50, 0x62, 0x70};
    unsigned how = next(in);

    begin(k, firsts[how % ARRAY_LEN(firsts)]);
    put(k, 0);
    put(k, 1 + how / 4 % 8);
    if (k->is_5 && how & 0x80)
        put(k, 0x80);
}

static void make_short(struct packet *k, struct input *in)
{
    static const unsigned char firsts[] = {0xc0, 0xe0, 0xf0, 0xd0};

    begin(k, firsts[next(in) % ARRAY_LEN(firsts)]);
}

static void make_raw(struct packet *k, struct input *in)
{
    unsigned n = next(in) % RAW_MAX;

    while (n-- > 0)
        put(k, next(in));
}

static void (*const makers[])(struct packet *k, struct input *in) = {
    make_connect, make_publish, make_subscribe, make_answer, make_short, make_raw, make_publish, make_answer,
};

/* The step's byte says which client and which packet; a client that is not connected is connected first. */
static void send_packet(struct input *in, unsigned step)
{
    unsigned who = step % CLIENTS, which = step / CLIENTS % ARRAY_LEN(makers);
    struct packet k = {.is_5 = who % 2};

    if (f.peers[who] < 0 || (which == 0 && step & 0x40))
        open_peer(who, step / 0x40 % WORKERS);
    makers[which](&k, in);
    if (makers[which] != make_raw)
        k.p[1] = (unsigned char)(k.n - 2);
    (void)!send(f.peers[who], k.p, k.n, MSG_NOSIGNAL | MSG_DONTWAIT); /* the server may have closed */
}

static void pass_ms(uint64_t ms)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        struct loop *l = &f.workers.list[i].loop;

        l->now_ms += ms;
        wheel_set_clock(&l->wheel, l->now_ms);
        wheel_advance(&l->wheel, l->now_ms);
    }
}

static void read_all(unsigned who)
{
    static char drop[DROP_BYTES];

    if (f.peers[who] >= 0)
        (void)!recv(f.peers[who], drop, sizeof drop, MSG_DONTWAIT);
}

/* What happens around the clients. */
static void do_other(struct input *in, unsigned step)
{
    unsigned who = step % CLIENTS, n = next(in);

    switch (step / CLIENTS % 8) {
    case 0:
        if (f.peers[who] >= 0)
            close(f.peers[who]);
        f.peers[who] = -1;
        break;
    case 1:
        if (fake_sink_count(&f.sink))
            fake_sink_answer(&f.sink, n % fake_sink_count(&f.sink), (enum outcome)(n / 32 % OUTCOMES));
        break;
    case 2:
        fake_sink_release(&f.sink, 1 + n % 3);
        break;
    case 3:
        fake_sink_set_room(&f.sink, n & 1 ? SIZE_MAX : n % 4);
        break;
    case 4:
        pass_ms(n * 200);
        break;
    case 5:
        read_all(who);
        break;
    case 6:
        loop_turn(&f.workers.list[who % WORKERS].loop, 0);
        break;
    default:
        mem_fail_after(n % 16);
        break;
    }
}

static int64_t balance(void)
{
    int64_t sum = metric_value(&broker_metrics[BROKER_MATCHED]) - metric_value(&broker_metrics[BROKER_ACKNOWLEDGED]) -
                  metric_value(&broker_metrics[BROKER_QUEUED]);

    for (unsigned i = BROKER_DROPPED_OFFLINE; i <= BROKER_DROPPED_NO_MEMORY; i++)
        sum -= metric_value(&broker_metrics[i]);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    int64_t messages = mem_used(MEM_MESSAGE), adapter = mem_used(MEM_ADAPTER), broker = mem_used(MEM_BROKER);
    int64_t loop = mem_used(MEM_LOOP);

    set_up_once();
    set_up();
    for (int i = 0; i < STEPS_MAX && in.n; i++) {
        unsigned step = next(&in);

        if (step & 0x80)
            do_other(&in, step);
        else
            send_packet(&in, step);
        if (next(&in) & 3)
            turn();
        ASSERT(balance() == 0);
    }
    mem_fail_after(0);
    tear_down();
    ASSERT(balance() == 0);
    ASSERT(metric_value(&broker_metrics[BROKER_SESSIONS]) == 0 && metric_value(&broker_metrics[BROKER_SUBSCRIPTIONS]) == 0);
    ASSERT(mem_used(MEM_MESSAGE) == messages && mem_used(MEM_ADAPTER) == adapter && mem_used(MEM_BROKER) == broker);
    ASSERT(mem_used(MEM_LOOP) == loop);
    return 0;
}
