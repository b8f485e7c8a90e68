#include "integration/mqtt_rig.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/mqtt/mqtt_conn.h"
#include "adapter/mqtt/mqtt_reload.h"
#include "base/check.h"
#include "main/rule_options.h"
#include "obs/metrics.h"

enum { MAX_SETTINGS = 8, MAILBOX_BYTES = 64 * 1024, HANG_MS = 20000, ADDRESS_BYTES = 64 };

static const char config_text[] = "kafka: {bootstrap: 'nowhere:9092'}\n"
                                  "listeners: [{mqtt: '127.0.0.1:0', tenant: t1, anonymous: true}]\n"
                                  "tenants:\n"
                                  "  t1:\n"
                                  "    devices:\n"
                                  "      d1: {password: pw}\n"
                                  "      g1: {password: pw}\n"
                                  "      d2: {via: g1}\n"
                                  "      d3: {}\n"
                                  "  t2:\n"
                                  "    devices:\n"
                                  "      d1: {password: pw}\n";

static struct config_errors errors;

static void on_started(struct mail *m)
{
    CONTAINER_OF(m, struct mqtt_rig, started)->is_started = true;
}

static void on_drained(struct mail *m)
{
    CONTAINER_OF(m, struct mqtt_rig, drained)->is_drained = true;
}

static void on_reloaded(struct mail *m)
{
    CONTAINER_OF(m, struct mqtt_rig, reloaded)->n_reloads++;
}

static void on_thread(struct worker *w)
{
    (void)w;
    metrics_attach_thread();
}

static struct generation *load(uint64_t number, const char *text, const char *const *settings)
{
    struct config_setting list[MAX_SETTINGS];
    struct config_source source = {.text = str_from(text), .name = "rig.yaml", .settings = list};
    struct rule_table *rules = NULL;
    struct config *config = NULL;

    while (settings && settings[source.setting_count]) {
        list[source.setting_count].text = settings[source.setting_count];
        source.setting_count++;
    }
    if (config_load(&source, &config, &errors) != E_OK || rule_options_make(config, "rig.yaml", &rules, &errors) != E_OK)
        fail_msg("%s", errors.items[0].text);
    return generation_new(number, config, rules);
}

struct generation *mqtt_rig_load(const char *text)
{
    return load(1, text, NULL);
}

static void open_rig(struct mqtt_rig *r, const char *const *settings)
{
    struct mqtt_adapter_settings all;
    struct errinfo ei = {0};

    metrics_attach_thread();
    r->message_bytes = mem_used(MEM_MESSAGE);
    r->adapter_bytes = mem_used(MEM_ADAPTER);
    r->broker_bytes = mem_used(MEM_BROKER);
    r->generation = load(1, config_text, settings);
    fake_sink_init(&r->sink);
    assert_int_equal(loop_init(&r->main, 0, &ei), E_OK);
    assert_int_equal(workers_init(&r->workers, MQTT_RIG_WORKERS, MAILBOX_BYTES, on_thread, &ei), E_OK);
    all = (struct mqtt_adapter_settings){.workers = &r->workers, .sink = &r->sink.sink, .generation = r->generation};
    if (mqtt_adapter_open(&all, &r->adapter, &ei) != E_OK)
        fail_msg("%s", ei.text);
    r->started.on_mail = on_started;
    r->drained.on_mail = on_drained;
    r->reloaded.on_mail = on_reloaded;
}

static void start(struct mqtt_rig *r)
{
    uint64_t since_ms = loop_clock_ms();

    mqtt_adapter_start(r->adapter, &r->started, &r->main.mailbox);
    while (!r->is_started) {
        if (loop_clock_ms() - since_ms > HANG_MS)
            fail_msg("the adapter does not start");
        mqtt_rig_turn(r);
    }
}

void mqtt_rig_open(struct mqtt_rig *r, const char *const *settings)
{
    memset(r, 0, sizeof *r);
    open_rig(r, settings);
    start(r);
}

void mqtt_rig_open_threaded(struct mqtt_rig *r, const char *const *settings)
{
    memset(r, 0, sizeof *r);
    open_rig(r, settings);
    r->is_threaded = true;
    assert_int_equal(workers_start(&r->workers, NULL), E_OK);
    start(r);
}

void mqtt_rig_close(struct mqtt_rig *r)
{
    workers_stop(&r->workers);
    fake_sink_release(&r->sink, SIZE_MAX);
    mqtt_adapter_free(r->adapter);
    mqtt_rig_check_ledger();
    assert_int_equal(mqtt_rig_metric("millrace_messages_waiting", NULL), 0);
    assert_int_equal(mqtt_rig_metric("millrace_mqtt_connections", NULL), 0);
    assert_int_equal(mqtt_rig_metric("millrace_sessions", NULL), 0);
    workers_fini(&r->workers);
    loop_fini(&r->main);
    fake_sink_fini(&r->sink);
    generation_unref(r->generation);
    assert_int_equal(mem_used(MEM_MESSAGE), r->message_bytes);
    assert_int_equal(mem_used(MEM_ADAPTER), r->adapter_bytes);
    assert_int_equal(mem_used(MEM_BROKER), r->broker_bytes);
}

void mqtt_rig_begin_reload(struct mqtt_rig *r, const char *text, const char *const *settings)
{
    struct generation *next = load(r->generation->number + 1, text ? text : config_text, settings);

    mqtt_reload_use(r->adapter, next, &r->reloaded, &r->main.mailbox);
    generation_unref(r->generation);
    r->generation = next;
}

void mqtt_rig_reload(struct mqtt_rig *r, const char *text, const char *const *settings)
{
    unsigned n = r->n_reloads;

    mqtt_rig_begin_reload(r, text, settings);
    while (r->n_reloads == n)
        mqtt_rig_turn(r);
}

void mqtt_rig_turn(void *rig)
{
    struct mqtt_rig *r = rig;

    if (r->is_threaded) {
        loop_turn(&r->main, 1);
        return;
    }
    for (unsigned i = 0; i < r->workers.n; i++)
        loop_turn(&r->workers.list[i].loop, 0);
    loop_turn(&r->main, 0);
}

struct accept {
    struct mail mail;
    struct mqtt_worker *mw;
    int fd;
};

static void on_accept(struct mail *m)
{
    struct accept *a = CONTAINER_OF(m, struct accept, mail);

    mqtt_conn_accept(a->mw, 0, a->fd);
    mem_free(MEM_TEST, a);
}

void mqtt_rig_accept(struct mqtt_rig *r, unsigned worker, struct mqtt_peer *p)
{
    struct accept *a = mem_alloc(MEM_TEST, sizeof *a);
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    *a = (struct accept){{.on_mail = on_accept}, &r->adapter->workers[worker], fds[0]};
    mailbox_post(&r->workers.list[worker].loop.mailbox, &a->mail);
    mqtt_peer_init(p, fds[1], mqtt_rig_turn, r);
    mqtt_rig_turn(r);
}

void mqtt_rig_connect(struct mqtt_rig *r, struct mqtt_peer *p)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char text[ADDRESS_BYTES];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    mqtt_adapter_name(r->adapter, 0, text, sizeof text);
    address.sin_port = htons((uint16_t)strtoul(strrchr(text, ':') + 1, NULL, 10));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    mqtt_peer_init(p, fd, mqtt_rig_turn, r);
}

void mqtt_rig_id(struct mqtt_rig *r, unsigned worker, char id[MQTT_RIG_ID])
{
    int n = 0;

    do
        snprintf(id, MQTT_RIG_ID, "client%d", n++);
    while (broker_home(r->adapter->broker, STR("t1"), (struct str){0}, str_from(id)) != worker);
}

unsigned mqtt_rig_home(const struct mqtt_rig *r, const char *tenant, const char *device)
{
    return broker_home(r->adapter->broker, str_from(tenant), str_from(device), (struct str){0});
}

void mqtt_rig_pass_ms(struct mqtt_rig *r, uint64_t ms)
{
    for (unsigned i = 0; i < r->workers.n; i++) {
        struct loop *l = &r->workers.list[i].loop;

        l->now_ms += ms;
        wheel_set_clock(&l->wheel, l->now_ms);
        wheel_advance(&l->wheel, l->now_ms);
    }
    mqtt_rig_turn(r);
}

int64_t mqtt_rig_metric(const char *name, const char *label)
{
    struct buf text = {0};
    int64_t sum = 0;
    char *rest, *line;

    assert_int_equal(metrics_write(&text), E_OK);
    assert_int_equal(buf_append(&text, MEM_OBS, (struct str){"", 1}), E_OK);
    for (line = strtok_r(text.p + text.head, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        size_t n = strlen(name);

        if (strncmp(line, name, n) == 0 && (line[n] == ' ' || line[n] == '{') && (!label || strstr(line, label)))
            sum += strtoll(strrchr(line, ' '), NULL, 10);
    }
    buf_free(&text, MEM_OBS);
    return sum;
}

void mqtt_rig_check_ledger(void)
{
    static const char *const routes[] = {"route=\"telemetry\"",   "route=\"event\"",       "route=\"command\"",
                                         "route=\"mqtt\"",        "route=\"to_kafka[0]\"", "route=\"to_kafka[1]\"",
                                         "route=\"to_kafka[2]\"", "route=\"to_kafka[3]\"", "route=\"to_kafka[4]\""};

    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        int64_t in = mqtt_rig_metric("millrace_messages_in_total", routes[i]);
        int64_t out = mqtt_rig_metric("millrace_messages_acknowledged_total", routes[i]) +
                      mqtt_rig_metric("millrace_messages_rejected_total", routes[i]) +
                      mqtt_rig_metric("millrace_messages_dropped_total", routes[i]) +
                      mqtt_rig_metric("millrace_messages_waiting", routes[i]);

        if (in != out)
            fail_msg("%s: %ld came in, %ld are accounted for", routes[i], (long)in, (long)out);
    }
    assert_int_equal(mqtt_rig_metric("millrace_deliveries_total", NULL),
                     mqtt_rig_metric("millrace_deliveries_completed_total", NULL) +
                         mqtt_rig_metric("millrace_deliveries_dropped_total", NULL) +
                         mqtt_rig_metric("millrace_deliveries_waiting", NULL));
}
