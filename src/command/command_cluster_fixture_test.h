/* command_cluster_fixture_test: several instances in one process, each a command plane of its own with one worker that is driven by hand, over one fake
 * table of routes that each of them has applied to some point, one topic of commands, and a fake transport between them. Everything that may be late
 * is late until the test says so. For tests only; include it in one file of a test. */
#pragma once

#include <stdlib.h>

#include "command/command_routes_fixture_test.h"

/* How many runs by chance; MILLRACE_SEEDS for more than fits into every run of all tests. */
static inline unsigned cluster_seeds(void)
{
    const char *text = getenv("MILLRACE_SEEDS");

    return text ? (unsigned)strtoul(text, NULL, 10) : 30;
}

/* --- sink.h: everything is stored when the test says so --- */

struct sink_topic {
    char name[64];
};

static inline struct sink_topic *fixture_topic(struct sink *sink, struct str name, uint32_t limit_ms)
{
    static struct sink_topic topics[8];

    (void)sink;
    (void)limit_ms;
    for (size_t i = 0; i < ARRAY_LEN(topics); i++) {
        if (!topics[i].name[0])
            snprintf(topics[i].name, sizeof topics[i].name, "%.*s", STR_ARG(name));
        if (str_equal(str_from(topics[i].name), name))
            return &topics[i];
    }
    return NULL;
}

static inline void read_header(const struct record *record, const char *name, char *to, size_t room)
{
    for (size_t i = 0; i < record->n_headers; i++)
        if (str_equal(record->headers[i].name, str_from(name)))
            snprintf(to, room, "%.*s", STR_ARG(record->headers[i].value));
}

static inline err fixture_submit(struct sink *sink, const struct record *record, struct delivery *delivery)
{
    struct node *node = CONTAINER_OF(sink, struct node, sink);
    struct told *told = &cl.told[cl.n_told++];

    assert_true(cl.n_told <= TOLD && node->n_unstored < TOLD);
    *told = (struct told){.is_event = !strncmp(record->topic->name, "hono.event", 10)};
    copy_name(told->device, record->key);
    read_header(record, told->is_event ? "ttd" : "status", told->status, sizeof told->status);
    read_header(record, "correlation-id", told->id, sizeof told->id);
    delivery->outcome = OUTCOME_STORED;
    node->unstored[node->n_unstored++] = delivery;
    return E_OK;
}

static inline bool store_next(int number)
{
    struct node *node = &cl.nodes[number];
    struct delivery *delivery = node->unstored[0];

    if (!node->n_unstored || node->is_dead)
        return false;
    memmove(node->unstored, node->unstored + 1, --node->n_unstored * sizeof *node->unstored);
    mailbox_post(delivery->home, &delivery->mail);
    return true;
}

static const struct sink_ops fixture_sink_ops = {.topic = fixture_topic, .submit = fixture_submit};

/* --- source.h --- */

static inline void fixture_settle(struct source *source, struct source_record *record)
{
    struct fixture_record *f = CONTAINER_OF(record, struct fixture_record, record);

    (void)source;
    assert_false(f->is_settled);
    f->is_settled = true;
    if (!f->is_stale)
        cl.committed[record->offset] = true;
}

static const struct source_ops fixture_source_ops = {.settle = fixture_settle};

/* The instance reads a record: a command that wants to have its outcome told in any case. */
static inline void read_record(int number, int i)
{
    struct node *node = &cl.nodes[number];
    struct fixture_record *f = &node->records[node->n_read++];

    assert_true(node->n_read <= READS);

    copy_name(f->key, str_from(cl.devices[i]));
    snprintf(f->value, NAME, "%d", i);
    f->headers[0] = (struct record_header){STR("device_id"), str_from(f->key)};
    f->headers[1] = (struct record_header){STR("subject"), STR("set")};
    f->headers[2] = (struct record_header){STR("correlation-id"), str_from(f->value)};
    f->headers[3] = (struct record_header){STR("ack-required"), STR("true")};
    f->record = (struct source_record){.mail = {.on_mail = node->partition.reader->on_record},
                                       .partition = &node->partition,
                                       .offset = i,
                                       .timestamp_ms = cl.began_ms + i,
                                       .key = str_from(f->key),
                                       .value = str_from(f->value),
                                       .headers = f->headers,
                                       .n_headers = 4};
    if (cl.ttl[i])
        f->headers[f->record.n_headers++] = (struct record_header){STR("ttl"), str_from(cl.ttl[i])};
    node->has[i] = true;
    mailbox_post(node->partition.home, &f->record.mail);
}

/* It reads what there is that it has not. False: nothing. */
static inline bool read_next(int number)
{
    struct node *node = &cl.nodes[number];

    if (node->is_dead || !node->has_partition)
        return false;
    for (int i = 0; i < cl.n_records; i++)
        if (!node->has[i] && !(cl.is_grouped && cl.committed[i])) {
            read_record(number, i);
            return true;
        }
    return false;
}

/* An application writes a command; its number. */
static inline int write_command(const char *device)
{
    assert_true(cl.n_records < RECORDS);
    copy_name(cl.devices[cl.n_records], str_from(device));
    return cl.n_records++;
}

/* The partition changes hands. What is out of it stays until it is settled, and counts for nothing then. */
static inline void move_partition(int from, int to)
{
    struct node *node = &cl.nodes[from];

    loop_turn(&node->workers.list[0].loop, 0);
    node->has_partition = false;
    for (int i = 0; i < node->n_read; i++)
        node->records[i].is_stale |= !node->records[i].is_settled;
    memset(node->has, 0, sizeof node->has);
    if (!node->is_dead)
        node->partition.reader->on_lost(node->partition.reader->context, &node->partition);
    cl.nodes[to].has_partition = true;
}

/* --- command_transport.h --- */

static inline struct str keep(char **at, struct str text)
{
    struct str copy = {text.p ? *at : NULL, text.n};

    memcpy(*at, text.n ? text.p : "", text.n);
    *at += text.n;
    return copy;
}

static inline struct node *node_named(struct str name)
{
    for (int i = 0; i < NODES; i++)
        if (str_equal(cl.owner.instances[i].name, name))
            return &cl.nodes[i];
    return NULL;
}

static inline err put_in(struct str to, struct message_in_flight *m)
{
    struct node *node = node_named(to);

    assert_non_null(node);
    assert_true(node->n_inbox < MESSAGES);
    node->inbox[node->n_inbox++] = m;
    return E_OK;
}

static inline err fixture_send_request(struct command_transport *transport, unsigned worker, const struct command_request *q)
{
    struct node *node = CONTAINER_OF(transport, struct node, transport);
    struct message_in_flight *m;
    char *at;

    assert_int_equal(worker, 0);
    if (node->send_result != E_OK)
        return node->send_result;
    m = mem_alloc_zero(MEM_TEST, sizeof *m);
    at = m->text;
    m->request = *q;
    m->request.ticket.tenant = keep(&at, q->ticket.tenant);
    m->request.from.instance = keep(&at, q->from.instance);
    m->request.to.instance = keep(&at, q->to.instance);
    m->request.gateway = keep(&at, q->gateway);
    m->request.key = keep(&at, q->key);
    m->request.value = keep(&at, q->value);
    for (size_t i = 0; i < q->n_headers; i++)
        m->headers[i] = (struct record_header){keep(&at, q->headers[i].name), keep(&at, q->headers[i].value)};
    m->request.headers = m->headers;
    return put_in(m->request.to.instance, m);
}

static inline err fixture_send_result(struct command_transport *transport, unsigned worker,
                                      const struct command_result_message *q)
{
    struct node *node = CONTAINER_OF(transport, struct node, transport);
    struct message_in_flight *m;
    char *at;

    assert_int_equal(worker, 0);
    if (node->send_result != E_OK)
        return node->send_result;
    m = mem_alloc_zero(MEM_TEST, sizeof *m);
    at = m->text;
    m->is_result = true;
    m->result = *q;
    m->result.ticket.tenant = keep(&at, q->ticket.tenant);
    m->result.from.instance = keep(&at, q->from.instance);
    m->result.to.instance = keep(&at, q->to.instance);
    m->result.text = keep(&at, q->text);
    return put_in(m->result.to.instance, m);
}

static const struct command_transport_ops fixture_transport_ops = {.send_request = fixture_send_request,
                                                                   .send_result = fixture_send_result};

static inline bool receive_next(int number)
{
    struct node *node = &cl.nodes[number];
    struct message_in_flight *m = node->inbox[0];

    if (!node->n_inbox || node->is_dead)
        return false;
    memmove(node->inbox, node->inbox + 1, --node->n_inbox * sizeof(struct message_in_flight *));
    if (m->is_result)
        node->plane->user.on_result(node->plane, &m->result);
    else
        node->plane->user.on_request(node->plane, &m->request);
    mem_free(MEM_TEST, m);
    return true;
}

/* --- devices --- */

static inline void on_subscribed(struct command_subscriber *subscriber, err result)
{
    struct client *client = CONTAINER_OF(subscriber, struct client, subscriber);

    client->result = result;
    client->n_answers++;
    if (result != E_OK)
        client->is_there = false;
}

static inline void confirm(struct command *command)
{
    uint64_t number;

    assert_true(str_to_u64(command->record.value, RECORDS, &number));
    cl.acknowledged[number]++;
    cl.order[cl.n_order++] = (int)number;
    command_done(command, COMMAND_RECEIVED, 0, NULL);
}

static inline void on_command(struct command_subscriber *subscriber, struct command *command)
{
    struct client *client = CONTAINER_OF(subscriber, struct client, subscriber);
    uint64_t number;

    assert_true(str_to_u64(command->record.value, RECORDS, &number));
    cl.delivered[number]++;
    if (client->holds)
        client->held[client->n_held++] = command;
    else
        confirm(command);
}

static const struct command_subscriber_ops fixture_subscriber_ops = {.on_subscribed = on_subscribed, .on_command = on_command};

struct subscribing {
    int node;
    const char *device, *gateway;
    bool is_for_all, has_no_events, holds;
};

static inline struct client *subscribe(struct subscribing s)
{
    struct command_subscription subscription = {.tenant = STR("t"),
                                                .device = str_from(s.device),
                                                .gateway = str_from(s.gateway),
                                                .is_for_all = s.is_for_all,
                                                .has_events = !s.has_no_events,
                                                .adapter = CONFIG_ADAPTER_MQTT};

    for (int i = 0; i < CLIENTS; i++) {
        struct client *client = &cl.clients[i];

        if (client->is_there || client->n_held)
            continue;
        *client = (struct client){.subscriber = {.ops = &fixture_subscriber_ops}, .node = s.node, .is_there = true};
        client->holds = s.holds;
        copy_name(client->device, str_from(s.device));
        command_subscribe(cl.nodes[s.node].plane, &cl.nodes[s.node].workers.list[0], &client->subscriber, &subscription);
        return client;
    }
    fail_msg("too many clients");
    return NULL;
}

/* The connection ends: what it had not acknowledged comes back. */
static inline void end_client(struct client *client)
{
    command_unsubscribe(&client->subscriber);
    for (size_t i = 0; i < client->n_held; i++)
        command_done(client->held[i], COMMAND_RETURNED, 0, NULL);
    client->n_held = 0;
    client->is_there = false;
}

static inline void acknowledge(struct client *client)
{
    for (size_t i = 0; i < client->n_held; i++)
        confirm(client->held[i]);
    client->n_held = 0;
}

/* --- instances --- */

static inline void rise(int number)
{
    cl.nodes[number].routes.incarnation++;
    (void)append(CHANGE_UP, number, "");
    commit_change();
}

/* Another instance takes it for dead. */
static inline void fence(int number, int by)
{
    (void)append(CHANGE_GONE, number, "");
    commit_change();
    for (int i = 0; i < SLOTS; i++) {
        struct slot *slot = &cl.owner.slots[i];

        if (!slot->is_there || slot->node != number)
            continue;
        struct change *c = append(CHANGE_REMOVED, number, slot->device);

        c->orphan_of = by + 1;
        c->has_events = slot->has_events;
        commit_change();
    }
}

static inline void turn_loop(int number)
{
    if (!cl.nodes[number].is_dead)
        loop_turn(&cl.nodes[number].workers.list[0].loop, 0);
}

static inline void kill_node(int number)
{
    cl.nodes[number].is_dead = true;
    cl.nodes[number].has_partition = false;
}

/* Everything that is late comes to its end. */
static inline void run(void)
{
    for (int quiet = 0; quiet < 4; quiet++)
        for (int i = 0; i < NODES; i++) {
            bool has_done = false;

            while (apply_next(i) || receive_next(i) || read_next(i) || store_next(i))
                has_done = true;
            turn_loop(i);
            has_done |= publish(i);
            if (has_done)
                quiet = -1;
        }
}

static const char fixture_config[] =
    "kafka: {bootstrap: k:9092}\nlisteners: [{mqtt: \"127.0.0.1:1883\"}]\n"
    "tenants:\n  t:\n    devices:\n      d0: {}\n      d1: {}\n      d2: {}\n      d3: {}\n      g0: {}\n      g1: {}\n"
    "      b0: {via: [g0, g1]}\n      b1: {via: [g0]}\n      off: {enabled: false}\n";

static inline struct config *fixture_load(void)
{
    static struct config_errors errors;
    struct config_source source = {.text = str_from(fixture_config), .name = "test.yaml"};
    struct config *config;

    if (config_load(&source, &config, &errors) != E_OK)
        fail_msg("line %u: %s", errors.items[0].line, errors.items[0].text);
    return config;
}

static inline void init_replica(struct routes_replica *r, struct routes *routes)
{
    static const struct str names[NODES] = {STR_INIT("one"), STR_INIT("two"), STR_INIT("three")};

    r->routes = routes;
    list_init(&r->holds);
    for (int i = 0; i < NODES; i++)
        r->instances[i] = (struct routes_instance){.name = names[i], .is_self = routes && routes->node == i};
}

static inline void open_node(int number, bool is_alone)
{
    struct node *node = &cl.nodes[number];
    struct command_settings settings = {.workers = &node->workers,
                                        .sink = &node->sink,
                                        .routes = &node->routes,
                                        .generation = cl.generation,
                                        .is_alone = is_alone,
                                        .takes_subscriptions = true};
    const struct source_reader *reader;

    node->sink.ops = &fixture_sink_ops;
    node->source.ops = &fixture_source_ops;
    node->transport.ops = &fixture_transport_ops;
    node->routes.node = number;
    init_replica(&node->routes.replica, &node->routes);
    assert_int_equal(workers_init(&node->workers, 1, 1 << 20, NULL, NULL), E_OK);
    node->plane = command_new(&settings);
    reader = command_reader(node->plane);
    node->partition = (struct source_partition){
        .topic = STR("hono.command.t"), .reader = reader, .home = reader->home(reader->context, STR("hono.command.t"), 0)};
    if (node->plane->design->carrier)
        command_use_transport(node->plane, &node->transport);
    command_start(node->plane, &node->source);
    node->has_partition = !cl.is_grouped || number == 0;
}

static enum config_command_policy fixture_policy; /* of the next cluster */

/* Opens `n` instances of a design; they live and know of each other. */
static inline void open_cluster(const char *routing, int n)
{
    static bool has_thread;
    struct config *config = fixture_load();

    if (!has_thread)
        metrics_attach_thread();
    has_thread = true;
    memset(&cl, 0, sizeof cl);
    for (int i = CONFIG_ROUTING_DIRECT; i <= CONFIG_ROUTING_LINK; i++)
        if (!strcmp(command_design_of(i)->name, routing))
            config->command.routing = i;
    cl.began_ms = (int64_t)loop_wall_ms();
    config->command.policy = fixture_policy;
    cl.generation = generation_new(1, config, NULL);
    cl.is_grouped = strcmp(routing, "direct") != 0;
    init_replica(&cl.owner, NULL);
    for (int i = 0; i < NODES; i++)
        open_node(i, n == 1);
    for (int i = 0; i < n; i++)
        rise(i);
    for (int i = n; i < NODES; i++)
        kill_node(i);
    run();
}

static inline void close_cluster(void)
{
    for (int i = 0; i < NODES; i++) /* what a dead one had is freed as well: it rises without a lease */
        if (cl.nodes[i].is_dead)
            cl.nodes[i].is_dead = cl.nodes[i].routes.is_leased = false;
    for (int i = 0; i < CLIENTS; i++)
        if (cl.clients[i].is_there)
            end_client(&cl.clients[i]);
    run();
    for (int i = 0; i < NODES; i++) {
        struct node *node = &cl.nodes[i];

        for (size_t k = 0; k < node->n_inbox; k++)
            mem_free(MEM_TEST, node->inbox[k]);
        command_free(node->plane);
        workers_fini(&node->workers);
    }
    for (int i = 0; i < cl.n_kept; i++)
        buf_free(&cl.kept[i].value, MEM_TEST);
    generation_unref(cl.generation);
}

/* --- what came of it --- */

/* How often an application was told of a command, and with which status last. */
static inline int count_notices(int number, const char **out_status)
{
    char id[NAME];
    int n = 0;

    snprintf(id, sizeof id, "%d", number);
    for (size_t i = 0; i < cl.n_told; i++)
        if (!cl.told[i].is_event && !strcmp(cl.told[i].id, id)) {
            *out_status = cl.told[i].status;
            n++;
        }
    return n;
}

static inline void assert_outcome(int number, const char *status, int n_delivered)
{
    const char *told = "none";

    if (count_notices(number, &told) != 1 || strcmp(told, status) || cl.delivered[number] != n_delivered)
        fail_msg("command %d: %d notices, the last %s, delivered %d times", number, count_notices(number, &told), told,
                 cl.delivered[number]);
}

/* The events of a device, as in "-1 0 -1". */
static inline const char *events_of(const char *device)
{
    static char text[256];
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < cl.n_told; i++)
        if (cl.told[i].is_event && !strcmp(cl.told[i].device, device))
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", cl.told[i].status);
    return text;
}

/* Whether nothing is left of any command that was read. */
static inline void assert_all_settled(void)
{
    for (int k = 0; k < NODES; k++)
        for (int i = 0; i < cl.nodes[k].n_read && !cl.nodes[k].is_dead; i++)
            if (!cl.nodes[k].records[i].is_settled)
                fail_msg("command %d is not settled at %d", (int)cl.nodes[k].records[i].record.offset, k);
    for (int i = 0; i < cl.n_records && cl.is_grouped; i++)
        if (!cl.committed[i])
            fail_msg("command %d is not done", i);
}
