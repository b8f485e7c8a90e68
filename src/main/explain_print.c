#include <stdlib.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/jsonw.h"
#include "base/utf8.h"
#include "main/cli.h"
#include "main/explain.h"
#include "main/rule_options.h"
#include "proto/mqtt/mqtt_reason.h"

enum { SHOWN_BYTES = 200 };

/* --- for people --- */

/* Text as it is, with `?` for what would disturb a terminal; cut when it is long. */
static void print_value(FILE *to, struct str s)
{
    struct str shown = {s.p, s.n < SHOWN_BYTES ? s.n : SHOWN_BYTES};
    bool is_text = utf8_is_valid(s);

    for (size_t i = 0; i < shown.n; i++) {
        unsigned char c = (unsigned char)shown.p[i];

        fputc(c < 0x20 || c == 0x7f || (c >= 0x80 && !is_text) ? '?' : c, to);
    }
    if (shown.n < s.n)
        fprintf(to, "... (%zu bytes)", s.n);
}

static void print_line(FILE *to, const char *name, struct str value)
{
    fprintf(to, "%-10s ", name);
    print_value(to, value);
    fputc('\n', to);
}

static void print_record(FILE *to, const struct explain_record *r)
{
    fputs("\n", to);
    print_line(to, "topic", r->topic);
    if (r->is_creating)
        fputs("           made if it is missing\n", to);
    print_line(to, "key", r->key.n ? r->key : STR("(none)"));
    if (r->has_partition)
        fprintf(to, "%-10s %d\n", "partition", (int)r->partition);
    else
        fprintf(to, "%-10s %s\n", "partition", r->key.n ? "murmur2 of the key" : "any: there is no key");
    for (size_t i = 0; i < r->n_headers; i++) {
        fprintf(to, "%-10s ", i ? "" : "headers");
        print_value(to, r->headers[i].name);
        fputs(": ", to);
        print_value(to, r->headers[i].value);
        fputc('\n', to);
    }
    if (r->value.p)
        fprintf(to, "%-10s %zu bytes\n", "value", r->value.n);
    else
        fprintf(to, "%-10s null\n", "value");
    if (r->limit_ms)
        fprintf(to, "%-10s given up after %llu ms\n", "limit", (unsigned long long)r->limit_ms);
}

static const char *ack_text(const struct explain_request *q, const struct explanation *x)
{
    if (q->qos == 0)
        return "none: QoS 0";
    if (x->n_records == 0 || x->ack == RULE_ACK_RECEIVED)
        return q->qos == 1 ? "received: PUBACK at once" : "received: PUBREC at once";
    return q->qos == 1 ? "quorum: PUBACK when Kafka has it all" : "quorum: PUBREC when Kafka has it all";
}

static void print_refusal(FILE *to, const struct explain_request *q, const struct explanation *x)
{
    const char *by_default = x->is_device ? ", unless on-error says otherwise" : "";

    print_line(to, "refused", x->refusal);
    if (x->why.n)
        print_line(to, "why", x->why);
    if (!x->reason_code)
        return;
    if (q->qos == 0 && x->is_device)
        fprintf(to, "%-10s the connection is closed%s\n", "told", by_default);
    else if (q->qos == 0)
        fprintf(to, "%-10s nobody: at QoS 0 it is dropped and counted\n", "told");
    else
        fprintf(to, "%-10s MQTT 5: 0x%02x %s; 3.1.1: the connection is closed%s\n", "told", x->reason_code,
                mqtt_reason_name((enum mqtt_reason)x->reason_code), by_default);
}

void explain_print_text(FILE *to, const struct explain_request *request, const struct explanation *x)
{
    print_line(to, "listener", x->listener->id);
    print_line(to, "client", request->client_id);
    if (x->tenant.n)
        print_line(to, "tenant", x->tenant);
    if (x->device.n)
        print_line(to, "device", x->device);
    if (x->route.n)
        print_line(to, "route", x->route);
    if (x->filter.n)
        print_line(to, "filter", x->filter);
    if (x->mapper.n)
        print_line(to, "mapper", x->mapper);
    if (x->refusal.n) {
        print_refusal(to, request, x);
        return;
    }
    fprintf(to, "%-10s %s\n", "ack", ack_text(request, x));
    fprintf(to, "%-10s %s\n", "mqtt", x->is_local ? "to its subscribers" : "not to subscribers");
    if (x->n_records == 0)
        fprintf(to, "%-10s nothing\n", "kafka");
    for (size_t i = 0; i < x->n_records; i++)
        print_record(to, &x->records[i]);
}

/* --- for programs --- */

struct writer {
    struct buf out;
    err e;
};

static void put(struct writer *w, const char *text)
{
    if (w->e == E_OK)
        w->e = buf_append(&w->out, MEM_CONFIG, str_from(text));
}

static void put_string(struct writer *w, struct str s)
{
    if (w->e == E_OK)
        w->e = jsonw_string(&w->out, MEM_CONFIG, s);
}

/* `name` comes with what stands before it: `{"` or `,"`. */
static void put_member(struct writer *w, const char *name, struct str value)
{
    put(w, name);
    put(w, "\":");
    put_string(w, value);
}

static void put_number(struct writer *w, const char *name, unsigned long long value)
{
    if (w->e == E_OK)
        w->e = buf_printf(&w->out, MEM_CONFIG, "%s\":%llu", name, value);
}

static void put_record(struct writer *w, const struct explain_record *r)
{
    put_member(w, "{\"topic", r->topic);
    put(w, r->is_creating ? ",\"create\":true" : ",\"create\":false");
    if (r->key.n)
        put_member(w, ",\"key", r->key);
    if (r->has_partition)
        put_number(w, ",\"partition", (unsigned long long)r->partition);
    put(w, ",\"headers\":[");
    for (size_t i = 0; i < r->n_headers; i++) {
        put_member(w, i ? ",{\"name" : "{\"name", r->headers[i].name);
        put_member(w, ",\"value", r->headers[i].value);
        put(w, "}");
    }
    put(w, "]");
    if (r->value.p)
        put_number(w, ",\"value_bytes", r->value.n);
    else
        put(w, ",\"value\":null");
    put_number(w, ",\"timeout_ms", r->limit_ms);
    put(w, "}");
}

static void put_refusal(struct writer *w, const struct explanation *x)
{
    put_member(w, ",\"refused", x->refusal);
    if (x->why.n)
        put_member(w, ",\"why", x->why);
    if (x->reason_code)
        put_number(w, ",\"reason_code", x->reason_code);
}

static void put_way(struct writer *w, const struct explain_request *q, const struct explanation *x)
{
    bool is_at_once = x->n_records == 0 || x->ack == RULE_ACK_RECEIVED;

    put_member(w, ",\"ack", q->qos == 0 ? STR("none") : str_from(rule_table_ack_name(is_at_once ? RULE_ACK_RECEIVED : x->ack)));
    put(w, x->is_local ? ",\"local\":true" : ",\"local\":false");
    put(w, ",\"records\":[");
    for (size_t i = 0; i < x->n_records; i++) {
        put(w, i ? "," : "");
        put_record(w, &x->records[i]);
    }
    put(w, "]");
}

err explain_print_json(FILE *to, const struct explain_request *request, const struct explanation *x)
{
    struct writer w = {.e = E_OK};

    put_member(&w, "{\"listener", x->listener->id);
    put_member(&w, ",\"client_id", request->client_id);
    if (x->tenant.n)
        put_member(&w, ",\"tenant", x->tenant);
    if (x->device.n)
        put_member(&w, ",\"device_id", x->device);
    if (x->route.n)
        put_member(&w, ",\"route", x->route);
    if (x->filter.n)
        put_member(&w, ",\"filter", x->filter);
    if (x->mapper.n)
        put_member(&w, ",\"mapper", x->mapper);
    if (x->refusal.n)
        put_refusal(&w, x);
    else
        put_way(&w, request, x);
    put(&w, "}\n");
    if (w.e == E_OK)
        fwrite(buf_str(&w.out).p, 1, buf_size(&w.out), to);
    buf_free(&w.out, MEM_CONFIG);
    return w.e;
}

/* --- the command --- */

static err read_properties(const struct cli_explain *given, struct explain_request *out, struct errinfo *ei)
{
    for (size_t i = 0; i < given->n_properties; i++) {
        struct str value = str_from(given->properties[i]);
        bool found;
        struct str name = str_take(&value, '=', &found);

        if (!found || name.n == 0)
            return errinfo_set(ei, E_INVAL, "--property: expected NAME=VALUE");
        out->properties[out->n_properties++] = (struct config_property){name, value.p ? value : STR("")};
    }
    return E_OK;
}

static err read_request(const struct cli_explain *given, struct explain_request *out, struct errinfo *ei)
{
    uint64_t number = 0;

    *out = (struct explain_request){
        .client_id = str_from(given->client),
        .user = str_from(given->user),
        .topic = str_from(given->topic),
        .payload = str_from(given->payload),
        .content_type = str_from(given->content_type),
        .retain = given->retain,
        .qos = 1,
    };
    if (given->qos && !str_to_u64(str_from(given->qos), 2, &number))
        return errinfo_set(ei, E_INVAL, "--qos: expected 0, 1 or 2");
    if (given->qos)
        out->qos = (uint8_t)number;
    if (given->listener && !str_to_u64(str_from(given->listener), 255, &number))
        return errinfo_set(ei, E_INVAL, "--listener: expected its number, from 0 on");
    if (given->listener)
        out->listener = (size_t)number;
    if (given->output && !str_equal(str_from(given->output), STR("text")) && !str_equal(str_from(given->output), STR("json")))
        return errinfo_set(ei, E_INVAL, "--output: expected text or json");
    return read_properties(given, out, ei);
}

static int print(const struct cli *cli, const struct explain_request *request, const struct explanation *x)
{
    bool is_json = str_equal(str_from(cli->explain.output), STR("json"));

    if (!is_json)
        explain_print_text(stdout, request, x);
    else if (explain_print_json(stdout, request, x) != E_OK)
        return EXIT_FAILURE;
    return x->refusal.n ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run(const struct cli *cli, struct config *config, const struct rule_table *rules)
{
    struct explain_request request;
    struct explanation x;
    struct arena a = {0};
    struct errinfo ei = {0};
    int status = 2;
    err e = read_request(&cli->explain, &request, &ei);

    if (e == E_OK)
        e = explain_publish(&a, config, rules, &request, &x, &ei);
    if (e == E_OK)
        status = print(cli, &request, &x);
    else
        fprintf(stderr, "millrace: %s\n", ei.text);
    arena_free(&a, MEM_CONFIG);
    return status;
}

int explain_run(const struct cli *cli)
{
    struct config_errors errors = {0};
    struct rule_table *rules = NULL;
    struct config *config = NULL;
    int status;

    if (cli_load_config(cli, &config, &errors) != E_OK ||
        rule_options_make(config, cli_source_name(cli), &rules, &errors) != E_OK) {
        cli_print_errors(stderr, &errors);
        config_unref(config);
        return 2;
    }
    status = run(cli, config, rules);
    rule_table_unref(rules);
    config_unref(config);
    return status;
}
