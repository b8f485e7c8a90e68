#include "kafka/kafka_mock.h"

#include "base/log.h"

static const char limits[] =
    "in memory only; of each partition about the last 5 MB are kept, older records vanish; loopback only; "
    "topics cannot be made, altered or emptied by clients; offsets by time are not known; Java clients "
    "do not work; joining a consumer group takes 3 s";

err kafka_mock_start(struct kafka_mock *mock, struct errinfo *ei)
{
    char text[200];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    *mock = (struct kafka_mock){0};
    rd_kafka_conf_set_log_cb(conf, NULL); /* it would complain that it has no brokers to connect to */
    mock->rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    if (!mock->rk) {
        rd_kafka_conf_destroy(conf);
        return errinfo_set(ei, E_IO, "embedded Kafka: %s", text);
    }
    mock->cluster = rd_kafka_mock_cluster_new(mock->rk, 1);
    if (!mock->cluster) {
        kafka_mock_stop(mock);
        return errinfo_set(ei, E_IO, "embedded Kafka: no loopback port to listen on");
    }
    LOG_INFO(LOG_KAFKA, "kafka.embedded", F_STR("bootstrap", kafka_mock_bootstrap(mock)), F_TEXT("limits", limits));
    return E_OK;
}

struct str kafka_mock_bootstrap(const struct kafka_mock *mock)
{
    return str_from(rd_kafka_mock_cluster_bootstraps(mock->cluster));
}

rd_kafka_resp_err_t kafka_mock_create_topic(const struct kafka_mock *mock, const char *name)
{
    return rd_kafka_mock_topic_create(mock->cluster, name, KAFKA_MOCK_PARTITIONS, 1);
}

void kafka_mock_stop(struct kafka_mock *mock)
{
    if (mock->cluster)
        rd_kafka_mock_cluster_destroy(mock->cluster);
    if (mock->rk)
        rd_kafka_destroy(mock->rk);
    *mock = (struct kafka_mock){0};
}
