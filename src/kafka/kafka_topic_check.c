#include "kafka/kafka_topic_check.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/kafka_error.h"
#include "kafka/kafka_private.h"

enum { ASK_MS = 10000, SLICE_MS = 100, METADATA_MS = 5000 };

static const char *find_setting(const rd_kafka_ConfigResource_t *resource, const char *name)
{
    size_t n;
    const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resource, &n);

    for (size_t i = 0; i < n; i++)
        if (strcmp(rd_kafka_ConfigEntry_name(entries[i]), name) == 0)
            return rd_kafka_ConfigEntry_value(entries[i]);
    return NULL;
}

static rd_kafka_resp_err_t read_answer(rd_kafka_event_t *event, const char *name, char *out_value)
{
    const rd_kafka_DescribeConfigs_result_t *result = rd_kafka_event_DescribeConfigs_result(event);
    const rd_kafka_ConfigResource_t **resources;
    const char *value;
    size_t n;

    if (rd_kafka_event_error(event))
        return rd_kafka_event_error(event);
    resources = rd_kafka_DescribeConfigs_result_resources(result, &n);
    if (n == 0)
        return RD_KAFKA_RESP_ERR__BAD_MSG;
    if (rd_kafka_ConfigResource_error(resources[0]))
        return rd_kafka_ConfigResource_error(resources[0]);
    value = find_setting(resources[0], name);
    snprintf(out_value, KAFKA_TOPIC_CONFIG_BYTES, "%s", value ? value : "");
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t kafka_topic_check_read(rd_kafka_t *rk, const char *topic, const char *name,
                                           char out_value[KAFKA_TOPIC_CONFIG_BYTES], const atomic_bool *is_stopping)
{
    rd_kafka_ConfigResource_t *resource = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(rk, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__DESTROY;
    rd_kafka_event_t *event = NULL;
    char text[200];

    (void)rd_kafka_AdminOptions_set_request_timeout(options, ASK_MS, text, sizeof text);
    rd_kafka_DescribeConfigs(rk, &resource, 1, options, queue);
    while (!event && !atomic_load(is_stopping))
        event = rd_kafka_queue_poll(queue, SLICE_MS);
    if (event) {
        code = read_answer(event, name, out_value);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_ConfigResource_destroy(resource);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_queue_destroy(queue);
    return code;
}

static err fail(struct kafka_topics *r, const char *topic, rd_kafka_resp_err_t code)
{
    if (kafka_error_create(code) == E_DENIED)
        return errinfo_set(&r->result, E_DENIED, "topic %s cannot be looked at: %s", topic, rd_kafka_err2str(code));
    LOG_WARN(LOG_KAFKA, "kafka.topic_check", F_TEXT("topic", topic), F_TEXT("error", rd_kafka_err2name(code)));
    return E_AGAIN;
}

static err check_partitions(rd_kafka_t *rk, const char *topic, int32_t expected, struct kafka_topics *r)
{
    const struct rd_kafka_metadata *metadata;
    rd_kafka_topic_t *rkt = rd_kafka_topic_new(rk, topic, NULL);
    rd_kafka_resp_err_t code;
    int found = 0;

    if (!rkt)
        return E_AGAIN;
    code = rd_kafka_metadata(rk, 0, rkt, &metadata, METADATA_MS);
    rd_kafka_topic_destroy(rkt);
    if (!code) {
        code = metadata->topic_cnt ? metadata->topics[0].err : RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
        found = metadata->topic_cnt ? metadata->topics[0].partition_cnt : 0;
        rd_kafka_metadata_destroy(metadata);
    }
    if (code)
        return fail(r, topic, code);
    if (found == expected)
        return E_OK;
    return errinfo_set(&r->result, E_INVAL, "topic %s has %d partitions, not %d; their number must never change", topic, found,
                       (int)expected);
}

/* What is looked at of a topic that exists. */
static const struct rule {
    const char *name;
    bool is_minimum; /* else it must be the same */
    const char *why;
} rules[] = {
    {"cleanup.policy", false, "nothing it holds is safe"},
    {"max.message.bytes", true, "larger records are refused"},
};

static const struct rule *rule_of(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        if (str_equal(name, str_from(rules[i].name)))
            return &rules[i];
    return NULL;
}

static bool agrees(const struct rule *rule, struct str found, struct str expected)
{
    uint64_t found_n, expected_n;

    if (!rule->is_minimum)
        return str_equal(found, expected);
    return str_to_u64(found, UINT64_MAX / 2, &found_n) && str_to_u64(expected, UINT64_MAX / 2, &expected_n) &&
           found_n >= expected_n;
}

static err check_config(struct kafka *k, rd_kafka_t *rk, const char *topic, const struct kafka_property *expected,
                        struct kafka_topics *r)
{
    const struct rule *rule = rule_of(expected->name);
    char value[KAFKA_TOPIC_CONFIG_BYTES];
    rd_kafka_resp_err_t code;

    if (!rule)
        return E_OK;
    code = kafka_topic_check_read(rk, topic, rule->name, value, &k->admin.is_stopping);
    if (code)
        return fail(r, topic, code);
    if (agrees(rule, str_from(value), expected->value))
        return E_OK;
    return errinfo_set(&r->result, E_INVAL, "topic %s has %s=%s, but must have %.*s%s: %s", topic, rule->name, value,
                       STR_ARG(expected->value), rule->is_minimum ? " or more" : "", rule->why);
}

err kafka_topic_check(struct kafka *k, rd_kafka_t *rk, struct kafka_topics *r)
{
    err e = E_OK;

    for (size_t i = 0; i < r->n_names && e == E_OK; i++) {
        struct str full = kafka_sink_full_name(&k->sink, r->names[i]);

        if (r->specs[i].n_partitions)
            e = check_partitions(rk, full.p, r->specs[i].n_partitions, r);
        for (size_t j = 0; j < r->specs[i].n_config && e == E_OK; j++)
            e = check_config(k, rk, full.p, &r->specs[i].config[j], r);
        mem_free(MEM_KAFKA, (char *)(uintptr_t)full.p);
    }
    return e;
}
