#include "kafka/kafka_conf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

struct example {
    struct kafka_property property;
    const char *in_text; /* of the error; NULL: accepted */
};

static err check(const struct kafka_property *properties, size_t n, struct errinfo *ei)
{
    const struct kafka_settings settings = {.bootstrap = STR("127.0.0.1:1"), .properties = properties, .n_properties = n};

    return kafka_check_settings(&settings, ei);
}

static void properties_pass_through_except_those_that_are_ours(void **state)
{
    static const struct example examples[] = {
        {{STR_INIT("security.protocol"), STR_INIT("ssl")}, NULL},
        {{STR_INIT("sasl.mechanisms"), STR_INIT("PLAIN")}, NULL},
        {{STR_INIT("compression.codec"), STR_INIT("lz4")}, NULL},
        {{STR_INIT("linger.ms"), STR_INIT("20")}, NULL},
        {{STR_INIT("socket.timeout.ms"), STR_INIT("60000")}, NULL},
        {{STR_INIT("client.id"), STR_INIT("mine")}, NULL},
        {{STR_INIT("enable.idempotence"), STR_INIT("true")}, NULL},
        {{STR_INIT("acks"), STR_INIT("all")}, NULL},
        {{STR_INIT("acks"), STR_INIT("-1")}, NULL},
        {{STR_INIT("enable.idempotence"), STR_INIT("false")}, "twice or out of order"},
        {{STR_INIT("acks"), STR_INIT("1")}, "safely"},
        {{STR_INIT("request.required.acks"), STR_INIT("0")}, "safely"},
        {{STR_INIT("partitioner"), STR_INIT("random")}, "one partition"},
        {{STR_INIT("message.timeout.ms"), STR_INIT("3000")}, "hono.delivery_timeout"},
        {{STR_INIT("delivery.timeout.ms"), STR_INIT("3000")}, "hono.delivery_timeout"},
        {{STR_INIT("queue.buffering.max.messages"), STR_INIT("10")}, "kafka.max_inflight_bytes"},
        {{STR_INIT("queue.buffering.max.kbytes"), STR_INIT("10")}, "kafka.max_inflight_bytes"},
        {{STR_INIT("bootstrap.servers"), STR_INIT("k:9092")}, "kafka.bootstrap"},
        {{STR_INIT("metadata.broker.list"), STR_INIT("k:9092")}, "kafka.bootstrap"},
        {{STR_INIT("transactional.id"), STR_INIT("x")}, "transactional.id"},
        {{STR_INIT("delivery.report.only.error"), STR_INIT("true")}, "report"},
        {{STR_INIT("test.mock.num.brokers"), STR_INIT("1")}, "test.mock.num.brokers"},
        {{STR_INIT("dr_msg_cb"), STR_INIT("x")}, "dr_msg_cb"},
        {{STR_INIT("error_cb"), STR_INIT("x")}, "error_cb"},
        {{STR_INIT("opaque"), STR_INIT("x")}, "opaque"},
        {{STR_INIT("linger.sm"), STR_INIT("5")}, "no property 'linger.sm'"},
        {{STR_INIT("linger.ms"), STR_INIT("soon")}, "linger.ms"},
        {{STR_INIT("max.in.flight"), STR_INIT("100")}, "max.in.flight"},
        {{STR_INIT("ssl.ca.location"), STR_INIT("/nonexistent/ca.pem")}, NULL}, /* not read without TLS */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(examples); i++) {
        struct errinfo ei = {0};
        err e = check(&examples[i].property, 1, &ei);

        if (!examples[i].in_text && e != E_OK)
            fail_msg("%s: %s", examples[i].property.name.p, ei.text);
        if (examples[i].in_text && (e != E_INVAL || ei.code != E_INVAL || !strstr(ei.text, examples[i].in_text)))
            fail_msg("%s: '%s' without '%s'", examples[i].property.name.p, ei.text, examples[i].in_text);
    }
}

static void a_secured_cluster_is_reached_by_properties_alone(void **state)
{
    const struct kafka_property properties[] = {
        {STR("security.protocol"), STR("SASL_SSL")},
        {STR("sasl.mechanisms"), STR("SCRAM-SHA-256")},
        {STR("sasl.username"), STR("millrace")},
        {STR("sasl.password"), STR("secret")},
    };
    struct errinfo ei = {0};

    (void)state;
    if (check(properties, ARRAY_LEN(properties), &ei) != E_OK)
        fail_msg("%s", ei.text);
}

static void a_file_that_cannot_be_read_is_found_before_anything_starts(void **state)
{
    const struct kafka_property properties[] = {
        {STR("security.protocol"), STR("ssl")},
        {STR("ssl.ca.location"), STR("/nonexistent/ca.pem")},
    };
    struct errinfo ei = {0};

    (void)state;
    assert_int_equal(check(properties, ARRAY_LEN(properties), &ei), E_INVAL);
    assert_non_null(strstr(ei.text, "ssl.ca.location"));
}

static void an_error_never_repeats_a_value_that_may_be_secret(void **state)
{
    const struct kafka_property properties[] = {{STR("security.protocol"), STR("hunter2")}};
    struct errinfo ei = {0};

    (void)state;
    assert_int_equal(check(properties, 1, &ei), E_INVAL);
    assert_non_null(strstr(ei.text, "security.protocol"));
    assert_null(strstr(ei.text, "hunter2"));
}

static void what_can_never_work_is_refused(void **state)
{
    const struct kafka_time_limit limits[] = {{STR("hono."), 1}};
    const struct kafka_settings no_bootstrap = {0};
    const struct kafka_settings bad_prefix = {.is_embedded = true, .topic_prefix = STR("my/")};
    const struct kafka_settings bad_limit = {.is_embedded = true, .time_limits = limits, .n_time_limits = 1};
    const struct kafka_settings good = {.is_embedded = true, .topic_prefix = STR("prod.")};
    struct errinfo ei = {0};

    (void)state;
    assert_int_equal(kafka_check_settings(&no_bootstrap, &ei), E_INVAL);
    assert_non_null(strstr(ei.text, "kafka.bootstrap"));
    assert_int_equal(kafka_check_settings(&bad_prefix, &ei), E_INVAL);
    assert_non_null(strstr(ei.text, "my/"));
    assert_int_equal(kafka_check_settings(&bad_limit, &ei), E_INVAL);
    assert_non_null(strstr(ei.text, "linger.ms"));
    assert_int_equal(kafka_check_settings(&good, NULL), E_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(properties_pass_through_except_those_that_are_ours),
        cmocka_unit_test(a_secured_cluster_is_reached_by_properties_alone),
        cmocka_unit_test(a_file_that_cannot_be_read_is_found_before_anything_starts),
        cmocka_unit_test(an_error_never_repeats_a_value_that_may_be_secret),
        cmocka_unit_test(what_can_never_work_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
