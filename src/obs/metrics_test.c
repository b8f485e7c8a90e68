#include "obs/metrics.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/check.h"
#include "obs/exposition_test.h"
#include "obs/process_metrics.h"

enum { THREADS = 4, ADDITIONS = 10000 };

static double read_context(void *context)
{
    return *(double *)context;
}

static double odd_values[] = {0.1, 1e15, -1, 0};

static struct metric first[] = {
    {.name = "test_a_total", .labels = "x=\"1\"", .help = "A back\\slash\nand a line.", .kind = METRIC_COUNTER},
    {.name = "test_b", .help = "Goes up and down.", .kind = METRIC_GAUGE},
    {.name = "test_read",
     .labels = "n=\"0\"",
     .help = "R.",
     .kind = METRIC_GAUGE,
     .read = read_context,
     .context = &odd_values[0]},
    {.name = "test_read", .labels = "n=\"1\"", .kind = METRIC_GAUGE, .read = read_context, .context = &odd_values[1]},
};
/* The family goes on in another table, as that of a second server does. */
static struct metric second[] = {
    {.name = "test_c_total", .help = "C.", .kind = METRIC_COUNTER},
    {.name = "test_a_total", .labels = "x=\"2\"", .kind = METRIC_COUNTER},
    {.name = "test_read", .labels = "n=\"2\"", .kind = METRIC_GAUGE, .read = read_context, .context = &odd_values[2]},
};
static struct metric stray = {.name = "test_stray_total", .help = "Never registered.", .kind = METRIC_COUNTER};
static const uint64_t bounds[] = {1000, 2500};
static const struct metric_buckets buckets = {bounds, ARRAY_LEN(bounds), 1e3};
static struct metric histograms[] = {
    {.name = "test_wait_seconds", .help = "W.", .kind = METRIC_HISTOGRAM, .buckets = &buckets},
    {.name = "test_size_bytes", .labels = "x=\"1\"", .help = "S.", .kind = METRIC_HISTOGRAM, .buckets = &buckets},
    {.name = "test_size_bytes", .labels = "x=\"2\"", .kind = METRIC_HISTOGRAM, .buckets = &buckets},
    {.name = "test_after_total", .help = "Its cell is behind theirs.", .kind = METRIC_COUNTER},
};
static struct metric stray_histogram = {
    .name = "test_stray_seconds", .help = "Never registered.", .kind = METRIC_HISTOGRAM, .buckets = &buckets};
static struct loop loop;

static int register_all(void **state)
{
    (void)state;
    metrics_register(first, ARRAY_LEN(first));
    metrics_register(second, ARRAY_LEN(second));
    metrics_register(histograms, ARRAY_LEN(histograms));
    metrics_register(first, ARRAY_LEN(first)); /* again: nothing happens */
    process_metrics_register();
    process_metrics_register_loop(&loop, "main");
    process_metrics_register_loop(&loop, "0");
    return 0;
}

static void *count_on_own_cells(void *context)
{
    (void)context;
    metrics_attach_thread();
    metrics_attach_thread(); /* again: the same cells */
    for (int i = 0; i < ADDITIONS; i++) {
        metric_add(&first[0], 2);
        metric_add(&first[1], 3);
        metric_add(&first[1], (uint64_t)-1);
    }
    return NULL;
}

static void sums_of_ended_threads_stay(void **state)
{
    pthread_t threads[THREADS];
    int64_t counter = metric_value(&first[0]), gauge = metric_value(&first[1]);

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_on_own_cells, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(metric_value(&first[0]) - counter, 2 * THREADS * ADDITIONS);
    assert_int_equal(metric_value(&first[1]) - gauge, 2 * THREADS * ADDITIONS);
}

static void *go_below_zero(void *context)
{
    metrics_attach_thread();
    metric_add(context, (uint64_t)-5);
    return NULL;
}

static void gauge_raised_on_one_thread_is_lowered_on_another(void **state)
{
    pthread_t thread;
    int64_t before = metric_value(&first[1]);

    (void)state;
    metric_add(&first[1], 5);
    assert_int_equal(pthread_create(&thread, NULL, go_below_zero, &first[1]), 0);
    pthread_join(thread, NULL);
    assert_int_equal(metric_value(&first[1]), before);
}

static void thread_without_cells_and_unregistered_metric_do_no_harm(void **state)
{
    int64_t before = metric_value(&second[0]);

    (void)state;
    metric_add(&second[0], 7);
    metric_add(&stray, 7);
    assert_int_equal(metric_value(&second[0]), before + 7);
    assert_int_equal(metric_value(&stray), 0);
}

static void text_can_be_read_back(void **state)
{
    static struct exposition x;
    struct buf out = {0};

    (void)state;
    atomic_store(&loop.turns, 41);
    assert_int_equal(metrics_write(&out), E_OK);
    if (!exposition_read(&x, buf_str(&out)))
        fail_msg("%s", x.problem);
    assert_true(exposition_value(&x, "test_a_total{x=\"1\"}") == (double)metric_value(&first[0]));
    assert_true(exposition_value(&x, "test_a_total{x=\"2\"}") == 0);
    assert_true(exposition_value(&x, "test_read{n=\"0\"}") == 0.1);
    assert_true(exposition_value(&x, "test_read{n=\"1\"}") == 1e15);
    assert_true(exposition_value(&x, "millrace_loop_turns_total{loop=\"main\"}") == 41);
    assert_true(exposition_value(&x, "millrace_loop_long_turns_total{loop=\"0\"}") == 0);
    assert_true(exposition_value(&x, "process_resident_memory_bytes") > 1e5);
    assert_true(exposition_value(&x, "process_open_fds") >= 3);
    assert_true(exposition_value(&x, "process_start_time_seconds") > 1.7e9);
    assert_true(exposition_value(&x, "process_cpu_seconds_total") >= 0);
    assert_true(exposition_value(&x, "millrace_memory_used_bytes{subsystem=\"obs\"}") > 0);
    assert_true(exposition_value(&x, "millrace_build_info{version=\"" MILLRACE_VERSION "\"}") == 1);
    assert_true(exposition_value(&x, "millrace_log_lines_lost_total") == 0);
    buf_free(&out, MEM_OBS);
}

static void *observe_on_own_cells(void *context)
{
    metrics_attach_thread();
    metric_observe(context, 1000);
    metric_observe(context, 1001);
    return NULL;
}

static void histogram_counts_a_value_in_all_buckets_it_does_not_exceed(void **state)
{
    static struct exposition x;
    struct buf out = {0};
    pthread_t thread;

    (void)state;
    metric_observe(&histograms[0], 0);
    metric_observe(&histograms[0], 1 << 20);
    metric_observe(&histograms[2], 2500);
    metric_observe(&stray_histogram, 1);
    assert_int_equal(pthread_create(&thread, NULL, observe_on_own_cells, &histograms[0]), 0);
    pthread_join(thread, NULL);
    assert_int_equal(metrics_write(&out), E_OK);
    if (!exposition_read(&x, buf_str(&out)))
        fail_msg("%s", x.problem);
    assert_true(exposition_value(&x, "test_wait_seconds_bucket{le=\"1\"}") == 2);
    assert_true(exposition_value(&x, "test_wait_seconds_bucket{le=\"2.5\"}") == 3);
    assert_true(exposition_value(&x, "test_wait_seconds_bucket{le=\"+Inf\"}") == 4);
    assert_true(exposition_value(&x, "test_wait_seconds_sum") == (1000 + 1001 + (1 << 20)) / 1e3);
    assert_true(exposition_value(&x, "test_wait_seconds_count") == 4);
    assert_true(exposition_value(&x, "test_size_bytes_bucket{x=\"1\",le=\"+Inf\"}") == 0);
    assert_true(exposition_value(&x, "test_size_bytes_bucket{x=\"2\",le=\"1\"}") == 0);
    assert_true(exposition_value(&x, "test_size_bytes_bucket{x=\"2\",le=\"2.5\"}") == 1);
    assert_true(exposition_value(&x, "test_size_bytes_sum{x=\"2\"}") == 2.5);
    assert_true(exposition_value(&x, "test_after_total") == 0);
    assert_int_equal(metric_value(&histograms[0]), 4);
    assert_int_equal(metric_value(&stray_histogram), 0);
    buf_free(&out, MEM_OBS);
}

static void bounds_of_latency_rise(void **state)
{
    (void)state;
    for (size_t i = 1; i < metric_buckets_latency.n; i++)
        assert_true(metric_buckets_latency.bounds[i - 1] < metric_buckets_latency.bounds[i]);
}

static void values_that_are_no_numbers_are_written_as_prometheus_wants(void **state)
{
    struct buf out = {0};
    static const struct {
        double value;
        const char *want;
    } rows[] = {
        {NAN, "test_read{n=\"0\"} NaN\n"}, {INFINITY, "test_read{n=\"0\"} +Inf\n"}, {-INFINITY, "test_read{n=\"0\"} -Inf\n"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        odd_values[0] = rows[i].value;
        assert_int_equal(metrics_write(&out), E_OK);
        assert_int_equal(buf_append(&out, MEM_OBS, (struct str){"", 1}), E_OK);
        assert_non_null(strstr(buf_str(&out).p, rows[i].want));
        buf_free(&out, MEM_OBS);
    }
    odd_values[0] = 0.1;
}

static void every_failed_allocation_is_told(void **state)
{
    struct buf out = {0};
    unsigned n = 0;
    err e;

    (void)state;
    do {
        mem_fail_after(++n);
        e = metrics_write(&out);
        mem_fail_after(0);
        buf_free(&out, MEM_OBS);
        assert_true(e == E_OK || e == E_NOMEM);
    } while (e != E_OK);
    assert_true(n > 1);
}

static void checker_finds_faults(void **state)
{
    static const char *const rows[] = {
        "a 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1",
        "# HELP a A.\n# TYPE a gauge\na 1\na 2\n",
        "# HELP a A.\n# TYPE a gauge\nb 1\n",
        "# HELP a A.\n# TYPE a counter\na 1\n",
        "# HELP a A.\n# TYPE a gauge\na{x=1} 1\n",
        "# HELP a A.\n# TYPE a gauge\na{x=\"1\",} 1\n",
        "# HELP a A.\n# TYPE a gauge\na x\n",
        "# HELP a A.\n# TYPE a gauge\na 1\n# HELP b B.\n# TYPE b gauge\nb 1\n# HELP a A.\n# TYPE a gauge\na{x=\"1\"} 1\n",
        "# HELP a A.\n# TYPE b gauge\n",
        "# HELP a A.\n# TYPE a histogram\na 1\n",
        "# HELP a A.\n# TYPE a histogram\na_bucket 1\n",
        "# HELP a A.\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\n",
        "# HELP a A.\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_sum 1\n",
        "# HELP a A.\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 2\na_sum 1\na_count 1\n",
    };
    static struct exposition x;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (exposition_read(&x, str_from(rows[i])))
            fail_msg("passed: %s", rows[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_can_be_read_back),
        cmocka_unit_test(sums_of_ended_threads_stay),
        cmocka_unit_test(gauge_raised_on_one_thread_is_lowered_on_another),
        cmocka_unit_test(thread_without_cells_and_unregistered_metric_do_no_harm),
        cmocka_unit_test(histogram_counts_a_value_in_all_buckets_it_does_not_exceed),
        cmocka_unit_test(bounds_of_latency_rise),
        cmocka_unit_test(values_that_are_no_numbers_are_written_as_prometheus_wants),
        cmocka_unit_test(every_failed_allocation_is_told),
        cmocka_unit_test(checker_finds_faults),
    };

    return cmocka_run_group_tests_name("metrics", tests, register_all, NULL);
}
