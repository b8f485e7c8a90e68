#include "kafka/kafka_mock.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"

enum { NUDGE_NS = 2 * 1000 * 1000 };

static const char limits[] =
    "in memory only; of each partition about the last 5 MB are kept, older records vanish; loopback only; "
    "topics cannot be made, altered or emptied by clients; offsets by time are not known; Java clients "
    "do not work; joining a consumer group takes 3 s";

/* In librdkafka 2.0.2 the mock cluster's thread can miss that it was given something to do; it then sleeps for a second (about
 * one call in seven, as measured). A new connection wakes it, so while such a call is under way another thread makes some. */
struct nudger {
    pthread_t thread;
    sem_t over;
    struct sockaddr_in address;
    bool is_running;
};

static void *nudge(void *context)
{
    struct nudger *n = context;
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    for (;;) {
        int fd;

        until.tv_nsec += NUDGE_NS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        if (sem_clockwait(&n->over, CLOCK_MONOTONIC, &until) == 0)
            return NULL;
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            continue;
        (void)connect(fd, (struct sockaddr *)&n->address, sizeof n->address); /* whatever comes of it */
        close(fd);
    }
}

/* Without a thread the call just takes longer. */
static void start_nudging(struct nudger *n, const rd_kafka_mock_cluster_t *cluster)
{
    const char *port = strrchr(rd_kafka_mock_cluster_bootstraps(cluster), ':');

    ASSERT(port);
    *n = (struct nudger){.address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    n->address.sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
    sem_init(&n->over, 0, 0);
    n->is_running = pthread_create(&n->thread, NULL, nudge, n) == 0;
}

static void stop_nudging(struct nudger *n)
{
    sem_post(&n->over);
    if (n->is_running)
        pthread_join(n->thread, NULL);
    sem_destroy(&n->over);
}

err kafka_mock_start(struct kafka_mock *mock, struct errinfo *ei)
{
    char text[200];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    *mock = (struct kafka_mock){0};
    rd_kafka_conf_set_log_cb(conf, NULL); /* nobody needs to read of its connection to itself */
    /* A cluster that belongs to its handle ends with it at once. One of its own keeps a thread that in librdkafka 2.0.2 misses
     * its end and sleeps for another second. */
    ASSERT(rd_kafka_conf_set(conf, "test.mock.num.brokers", "1", text, sizeof text) == RD_KAFKA_CONF_OK);
    mock->rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    if (!mock->rk) {
        rd_kafka_conf_destroy(conf);
        return errinfo_set(ei, E_IO, "embedded Kafka: %s", text);
    }
    mock->cluster = rd_kafka_handle_mock_cluster(mock->rk);
    ASSERT(mock->cluster);
    LOG_INFO(LOG_KAFKA, "kafka.embedded", F_STR("bootstrap", kafka_mock_bootstrap(mock)), F_TEXT("limits", limits));
    return E_OK;
}

struct str kafka_mock_bootstrap(const struct kafka_mock *mock)
{
    return str_from(rd_kafka_mock_cluster_bootstraps(mock->cluster));
}

rd_kafka_resp_err_t kafka_mock_create_topic(const struct kafka_mock *mock, const char *name)
{
    struct nudger nudger;
    rd_kafka_resp_err_t code;

    start_nudging(&nudger, mock->cluster);
    code = rd_kafka_mock_topic_create(mock->cluster, name, KAFKA_MOCK_PARTITIONS, 1);
    stop_nudging(&nudger);
    return code;
}

void kafka_mock_stop(struct kafka_mock *mock)
{
    if (mock->rk) {
        struct nudger nudger;

        start_nudging(&nudger, mock->cluster);
        rd_kafka_destroy(mock->rk);
        stop_nudging(&nudger);
    }
    *mock = (struct kafka_mock){0};
}
