/* command_load: round trips of commands, from an application by Kafka to devices and back, and what Kafka takes for the same hops by
 * itself. Prints one line of JSON.
 *
 *   command_load BOOTSTRAP TENANT COUNT rate=N|window=N [devices=N] [size=BYTES] [port=P ...]   by Millrace at these ports
 *   command_load BOOTSTRAP NAME COUNT rate=N|window=N [devices=N] [size=BYTES] hops=2|3          by raw librdkafka
 *
 * A few commands before are not counted. The application is a thread with a producer and a consumer that read and write as fast as they can (no linger). It sends N a second,
 * latency counting from when a command was due, or keeps N under way. Devices, on a thread of their own, acknowledge and answer at once; with
 * hops=N relays in their place pass each record on from one topic to the next. Exit status: 0, 1 when something was lost, 2 usage. */
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "latency.h"
#include "load_client.h"
#include "loop/loop.h"

#define NS_PER_S 1000000000ull
#define PASSWORD "bench-secret"

enum {
    MAX_PORTS = 8,
    MAX_HOPS = 3,
    NAME_BYTES = 256,
    POLL_MS = 1,
    PARTITIONS_MS = 10000,
    LOST_S = 20,
    WARM_UP = 200,
    TEXT_BYTES = 32,
    BATCH = 500
};

struct options {
    const char *bootstrap, *name;
    uint64_t count, rate, window, devices, size, hops;
    uint16_t ports[MAX_PORTS];
    size_t n_ports;
};

static struct options o = {.devices = 50, .size = 100};
static char topics[MAX_HOPS][NAME_BYTES]; /* from the application, between relays, to the application */
static size_t n_topics;
static atomic_bool is_over;
static atomic_uint n_ready;

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

/* --- Kafka --- */

static rd_kafka_t *open_kafka(rd_kafka_type_t type)
{
    static const char *const common[][2] = {{"linger.ms", "0"},
                                            {"enable.idempotence", "true"},
                                            {"partitioner", "murmur2_random"},
                                            {"queue.buffering.max.messages", "0"}};
    char why[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *rk;

    if (rd_kafka_conf_set(conf, "bootstrap.servers", o.bootstrap, why, sizeof why) != RD_KAFKA_CONF_OK)
        fail("%s", why);
    for (size_t i = 0; type == RD_KAFKA_PRODUCER && i < ARRAY_LEN(common); i++)
        if (rd_kafka_conf_set(conf, common[i][0], common[i][1], why, sizeof why) != RD_KAFKA_CONF_OK)
            fail("%s", why);
    if (type == RD_KAFKA_CONSUMER && rd_kafka_conf_set(conf, "group.id", "command_load", why, sizeof why) != RD_KAFKA_CONF_OK)
        fail("%s", why);
    rk = rd_kafka_new(type, conf, why, sizeof why);
    if (!rk)
        fail("%s", why);
    if (type == RD_KAFKA_CONSUMER)
        rd_kafka_poll_set_consumer(rk);
    return rk;
}

/* A consumer of all of a topic that comes from now on. */
static rd_kafka_t *open_consumer(const char *topic)
{
    rd_kafka_t *rk = open_kafka(RD_KAFKA_CONSUMER);
    rd_kafka_topic_t *rkt = rd_kafka_topic_new(rk, topic, NULL);
    const rd_kafka_metadata_t *found;
    rd_kafka_topic_partition_list_t *list;

    if (rd_kafka_metadata(rk, 0, rkt, &found, PARTITIONS_MS) || found->topic_cnt != 1 || !found->topics[0].partition_cnt)
        fail("there is no topic %s", topic);
    list = rd_kafka_topic_partition_list_new(found->topics[0].partition_cnt);
    for (int i = 0; i < found->topics[0].partition_cnt; i++) {
        int64_t low, high;

        if (rd_kafka_query_watermark_offsets(rk, topic, i, &low, &high, PARTITIONS_MS))
            fail("the end of %s is not to be found", topic);
        rd_kafka_topic_partition_list_add(list, topic, i)->offset = high;
    }
    rd_kafka_metadata_destroy(found);
    rd_kafka_topic_destroy(rkt);
    rd_kafka_assign(rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    return rk;
}

static void produce(rd_kafka_t *rk, const char *topic, struct str key, struct str value, rd_kafka_headers_t *headers)
{
    rd_kafka_resp_err_t code;

    code = rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY((void *)(uintptr_t)key.p, key.n),
                             RD_KAFKA_V_VALUE((void *)(uintptr_t)value.p, value.n), RD_KAFKA_V_HEADERS(headers),
                             RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
    if (code)
        fail("%s", rd_kafka_err2str(code));
    rd_kafka_poll(rk, 0);
}

/* One hop of raw librdkafka: what comes is passed on with its key and headers. */
static void *relay(void *arg)
{
    size_t hop = (size_t)(uintptr_t)arg;
    rd_kafka_t *from = open_consumer(topics[hop]), *to = open_kafka(RD_KAFKA_PRODUCER);

    atomic_fetch_add(&n_ready, 1);
    while (!atomic_load(&is_over)) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(from, POLL_MS);
        rd_kafka_headers_t *headers = NULL;

        if (m && !m->err) {
            (void)rd_kafka_message_headers(m, &headers);
            produce(to, topics[hop + 1], (struct str){m->key, m->key_len}, (struct str){m->payload, m->len},
                    headers ? rd_kafka_headers_copy(headers) : NULL);
        }
        if (m)
            rd_kafka_message_destroy(m);
        rd_kafka_poll(to, 0);
    }
    return NULL;
}

/* --- devices --- */

static struct loop device_loop;

static void on_ready(struct load_client *lc)
{
    (void)lc;
    atomic_fetch_add(&n_ready, 1);
}

static void on_lost(struct load_client *lc, const char *why)
{
    (void)lc;
    if (!atomic_load(&is_over))
        fail("a device was lost: %s", why);
}

/* `command///req/REQUEST/NAME` is answered by `command///res/REQUEST/200`. */
static void on_topic(struct load_client *lc, struct str topic, struct str payload)
{
    struct str rest = topic, request;
    char answer[NAME_BYTES];
    bool more;
    int n;

    for (int i = 0; i < 4; i++)
        (void)str_take(&rest, '/', &more);
    request = str_take(&rest, '/', &more);
    n = snprintf(answer, sizeof answer, "command///res/%.*s/200", STR_ARG(request));
    load_client_send(lc, (struct str){answer, (size_t)n}, payload);
}

static const struct load_client_ops client_ops = {.on_ready = on_ready, .on_topic = on_topic, .on_lost = on_lost};

static void on_tick(struct timer *t)
{
    if (atomic_load(&is_over))
        loop_stop(&device_loop);
    else
        wheel_start(&device_loop.wheel, t, 10);
}

static void *run_devices(void *arg)
{
    struct load_client *clients = mem_alloc_zero(MEM_TEST, o.devices * sizeof *clients);
    struct timer tick = {.on_timer = on_tick};

    (void)arg;
    if (loop_init(&device_loop, 0, NULL) != E_OK)
        fail("no loop");
    for (uint64_t i = 0; i < o.devices; i++) {
        char user[NAME_BYTES], id[TEXT_BYTES];
        struct load_client_login login = {.client_id = id, .user = user, .password = PASSWORD};

        snprintf(id, sizeof id, "c%llu", (unsigned long long)i);
        snprintf(user, sizeof user, "device-%llu@%s", (unsigned long long)i, o.name);
        if (load_client_open(&clients[i], &device_loop, &client_ops, o.ports[i % o.n_ports], 1, &login, "command///req/#", 1) !=
            E_OK)
            fail("cannot connect");
    }
    wheel_start(&device_loop.wheel, &tick, 10);
    loop_run(&device_loop);
    return NULL;
}

/* --- the application --- */

static struct latency latency;
static uint64_t sent, answered, refused;

static rd_kafka_headers_t *headers_of(struct str device, uint64_t number)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(4);
    char id[TEXT_BYTES];
    int n = snprintf(id, sizeof id, "c%llu", (unsigned long long)number);

    rd_kafka_header_add(headers, "device_id", -1, device.p, (ssize_t)device.n);
    rd_kafka_header_add(headers, "subject", -1, "set", -1);
    rd_kafka_header_add(headers, "response-required", -1, "true", -1);
    rd_kafka_header_add(headers, "correlation-id", -1, id, n);
    return headers;
}

static void send_one(rd_kafka_t *rk, uint64_t time_ns)
{
    static char value[1 << 16];
    char device[TEXT_BYTES];
    int n = snprintf(device, sizeof device, "device-%llu", (unsigned long long)(sent % o.devices));
    struct str key = {device, (size_t)n};

    memcpy(value, &time_ns, sizeof time_ns);
    produce(rk, topics[0], key, (struct str){value, o.size}, headers_of(key, sent));
    sent++;
}

/* A notice is not as long as what was sent. */
static void take(const rd_kafka_message_t *m)
{
    uint64_t time_ns;

    if (m->err)
        return;
    if (m->len != o.size) {
        refused++;
        return;
    }
    memcpy(&time_ns, m->payload, sizeof time_ns);
    latency_add(&latency, latency_clock_ns() - time_ns);
    answered++;
}

static void poll_answers(rd_kafka_queue_t *queue)
{
    rd_kafka_message_t *messages[BATCH];
    ssize_t n = rd_kafka_consume_batch_queue(queue, POLL_MS, messages, BATCH);

    for (ssize_t i = 0; i < n; i++) {
        take(messages[i]);
        rd_kafka_message_destroy(messages[i]);
    }
}

static uint64_t due_now(uint64_t rate, uint64_t window, uint64_t count, uint64_t began_ns)
{
    uint64_t due = rate ? (uint64_t)((double)(latency_clock_ns() - began_ns) / (double)NS_PER_S * (double)rate)
                        : answered + refused + window;

    return due < count ? due : count;
}

/* The seconds that it took. */
static double run_application(rd_kafka_t *to, rd_kafka_queue_t *answers, uint64_t rate, uint64_t window, uint64_t count)
{
    uint64_t began_ns = latency_clock_ns(), last_ns = began_ns;

    while (answered + refused < count && latency_clock_ns() - last_ns < LOST_S * NS_PER_S) {
        uint64_t due = due_now(rate, window, count, began_ns), before = answered + refused;

        while (sent < due)
            send_one(to, rate ? began_ns + sent * NS_PER_S / rate : latency_clock_ns());
        rd_kafka_poll(to, 0);
        poll_answers(answers);
        if (answered + refused > before || sent < count)
            last_ns = latency_clock_ns();
    }
    return (double)(last_ns - began_ns) / (double)NS_PER_S;
}

/* --- the whole --- */

static bool take_option(const char *text)
{
    const struct {
        const char *name;
        uint64_t *to;
    } numbers[] = {{"rate", &o.rate}, {"window", &o.window}, {"devices", &o.devices}, {"size", &o.size}, {"hops", &o.hops}};
    struct str value = str_from(text);
    bool found;
    struct str name = str_take(&value, '=', &found);
    uint64_t number;

    if (!found || !str_to_u64(value, 1 << 30, &number))
        return false;
    if (str_equal(name, STR("port")) && o.n_ports < MAX_PORTS) {
        o.ports[o.n_ports++] = (uint16_t)number;
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (str_equal(name, str_from(numbers[i].name))) {
            *numbers[i].to = number;
            return true;
        }
    return false;
}

static void parse(int argc, char **argv)
{
    bool is_good = argc > 4;

    if (is_good) {
        o.bootstrap = argv[1];
        o.name = argv[2];
        o.count = strtoull(argv[3], NULL, 10);
    }
    for (int i = 4; i < argc; i++)
        is_good = is_good && take_option(argv[i]);
    if (!is_good || !o.count || !o.rate == !o.window || !o.devices || o.size < sizeof(uint64_t) || o.size > 1 << 16 ||
        !o.n_ports == !o.hops || o.hops > MAX_HOPS)
        fail("usage: command_load BOOTSTRAP NAME COUNT rate=N|window=N [devices=N] [size=BYTES] port=P ...|hops=2|3");
}

static void name_topics(void)
{
    n_topics = o.hops ? o.hops : 2;
    for (size_t i = 0; o.hops && i < n_topics; i++)
        snprintf(topics[i], NAME_BYTES, "%s.%zu", o.name, i);
    if (o.hops)
        return;
    snprintf(topics[0], NAME_BYTES, "hono.command.%s", o.name);
    snprintf(topics[1], NAME_BYTES, "hono.command_response.%s", o.name);
}

/* The number of those that get ready. */
static unsigned start_others(void)
{
    pthread_t thread;

    if (!o.hops) {
        pthread_create(&thread, NULL, run_devices, NULL);
        return (unsigned)o.devices;
    }
    for (size_t i = 0; i + 1 < n_topics; i++)
        pthread_create(&thread, NULL, relay, (void *)(uintptr_t)i);
    return (unsigned)n_topics - 1;
}

int main(int argc, char **argv)
{
    rd_kafka_t *to, *from;
    rd_kafka_queue_t *answers;
    unsigned n_others;
    double seconds;

    parse(argc, argv);
    name_topics();
    to = open_kafka(RD_KAFKA_PRODUCER);
    from = open_consumer(topics[n_topics - 1]);
    n_others = start_others();
    while (atomic_load(&n_ready) < n_others)
        rd_kafka_poll(to, 10);
    answers = rd_kafka_queue_get_consumer(from);
    (void)run_application(to, answers, 0, 1, WARM_UP);
    memset(&latency, 0, sizeof latency);
    sent = answered = refused = 0;
    seconds = run_application(to, answers, o.rate, o.window, o.count);
    atomic_store(&is_over, true);
    printf("{\"sent\": %llu, \"answered\": %llu, \"refused\": %llu, \"seconds\": %.3f, \"rate\": %.0f, ",
           (unsigned long long)sent, (unsigned long long)answered, (unsigned long long)refused, seconds,
           seconds > 0 ? (double)answered / seconds : 0);
    latency_print(&latency);
    printf("}\n");
    fflush(stdout);
    _Exit(answered < o.count);
}
