/* table_peer: an instance with nothing but a table on Kafka, for the end-to-end tests. It takes lines and answers in lines:
 *   ID request   -> "ID E_OK reply" (see table/table_fixture.h for the requests), when it is answered
 *   get KEY      -> "got VALUE", or "got nothing", from the view as it is
 *   catch KEY    -> "caught E_OK", when the view has all there was of the key's partition
 *   dump         -> a line for each key of the view, then "end"
 *   counts       -> "applied N rebuilt N"
 * "opened" comes first. The end of its input ends it.
 *
 *   table_peer BOOTSTRAP PREFIX FOLDER PARTITIONS */
#include <fcntl.h>
#include <sys/epoll.h>

#include "core/table_log.h"
#include "kafka/kafka.h"
#include "kafka/kafka_table_log.h"
#include "obs/metrics.h"
#include "table/table_fixture.h"

struct peer {
    struct table_fixture f;
    struct kafka *k;
    struct io input;
    struct buf line;
    bool has_ended, has_topics;
    struct kafka_table_topics topics;
};

struct question {
    struct table_write write;
    char *id, *text;
};

struct catching {
    struct table_barrier barrier;
    char *key;
};

static void on_written(struct mail *m)
{
    struct question *q = CONTAINER_OF(CONTAINER_OF(m, struct table_write, mail), struct question, write);

    printf("%s %s %.*s\n", q->id, err_name(q->write.result), STR_ARG(buf_str(&q->write.reply)));
    buf_free(&q->write.reply, MEM_TABLE);
    free(q->id);
    free(q->text);
    free(q);
}

static void on_caught(struct mail *m)
{
    struct catching *c = CONTAINER_OF(CONTAINER_OF(m, struct table_barrier, mail), struct catching, barrier);

    printf("caught %s\n", err_name(c->barrier.result));
    free(c->key);
    free(c);
}

static struct str partition_key_of(struct str key)
{
    bool found;

    return str_take(&key, '/', &found);
}

static void ask(struct peer *p, struct str id, struct str text)
{
    struct question *q = calloc(1, sizeof *q);

    q->id = strndup(id.p, id.n);
    q->text = strndup(text.p, text.n);
    q->write = (struct table_write){.mail = {.on_mail = on_written}, .home = &p->f.loop.mailbox};
    q->write.request = str_from(q->text);
    q->write.partition_key = fixture_partition_key(q->write.request);
    table_write(p->f.t, &q->write);
}

static void get(struct peer *p, struct str key)
{
    struct table_reader r;
    struct table_item item;

    if (table_reader_open(p->f.t, &r) != E_OK)
        exit(1);
    if (table_reader_get(&r, partition_key_of(key), key, &item))
        printf("got %.*s\n", STR_ARG(item.value));
    else
        printf("got nothing\n");
    table_reader_close(&r);
}

static void catch_up(struct peer *p, struct str key)
{
    struct catching *c = calloc(1, sizeof *c);

    c->key = strndup(key.p, key.n);
    c->barrier = (struct table_barrier){.mail = {.on_mail = on_caught}, .home = &p->f.loop.mailbox};
    table_catch_up(p->f.t, partition_key_of(str_from(c->key)), 60000, &c->barrier);
}

static void on_line(struct peer *p, struct str line)
{
    bool found;
    struct str first = str_take(&line, ' ', &found);
    char *text;

    if (str_equal(first, STR("get"))) {
        get(p, line);
    } else if (str_equal(first, STR("catch"))) {
        catch_up(p, line);
    } else if (str_equal(first, STR("dump"))) {
        text = fixture_dump(&p->f);
        printf("%send\n", text);
        free(text);
    } else if (str_equal(first, STR("counts"))) {
        printf("applied %u rebuilt %u\n", p->f.n_applied, p->f.n_rebuilt);
    } else {
        ask(p, first, line);
    }
}

static void on_input(struct io *io, uint32_t events)
{
    struct peer *p = CONTAINER_OF(io, struct peer, input);
    char bytes[65536];
    ssize_t n = read(io->fd, bytes, sizeof bytes);
    struct str rest;
    char *end;

    (void)events;
    if (n < 0)
        return;
    p->has_ended = n == 0;
    if (buf_append(&p->line, MEM_TEST, (struct str){bytes, (size_t)n}) != E_OK)
        exit(1);
    for (rest = buf_str(&p->line); rest.n && (end = memchr(rest.p, '\n', rest.n)); rest = buf_str(&p->line)) {
        on_line(p, (struct str){rest.p, (size_t)(end - rest.p)});
        buf_consume(&p->line, (size_t)(end - rest.p) + 1);
    }
}

static void on_topics(struct mail *m)
{
    CONTAINER_OF(CONTAINER_OF(m, struct kafka_table_topics, topics.mail), struct peer, topics)->has_topics = true;
}

static void fail_with(const struct errinfo *ei)
{
    printf("failed %s %s\n", err_name(ei->code), ei->text);
    exit(1);
}

static void on_log(enum log_level level, enum log_sub sub, struct log_site *site, const char *event,
                   const struct log_field *fields, size_t n_fields)
{
    (void)site;
    flockfile(stderr);
    fprintf(stderr, "%s %s %s", log_level_name(level), log_sub_name(sub), event);
    for (size_t i = 0; i < n_fields; i++)
        if (fields[i].kind == LOG_KIND_INT)
            fprintf(stderr, " %s=%lld", fields[i].name, (long long)fields[i].number);
        else
            fprintf(stderr, " %s=%.*s", fields[i].name, STR_ARG(fields[i].text));
    fprintf(stderr, "\n");
    funlockfile(stderr);
}

/* Asks for the topics and waits for them. */
static void make_topics(struct peer *p, unsigned n_partitions)
{
    kafka_table_log_topics(p->k, "things", n_partitions, 0, &p->topics);
    p->topics.topics.mail.on_mail = on_topics;
    p->topics.topics.home = &p->f.loop.mailbox;
    kafka_ensure_topics(p->k, &p->topics.topics);
    while (!p->has_topics)
        loop_turn(&p->f.loop, 1000);
    if (p->topics.topics.result.code != E_OK)
        fail_with(&p->topics.topics.result);
}

static void open_peer(struct peer *p, char **argv, unsigned n_partitions)
{
    const struct kafka_settings settings = {.bootstrap = str_from(argv[1]), .topic_prefix = str_from(argv[2])};
    struct errinfo ei = {0};
    struct table_options options = {.name = "things", .ops = &fixture_ops, .context = &p->f, .n_partitions = n_partitions};

    if (loop_init(&p->f.loop, 0, &ei) != E_OK || kafka_open(&settings, &p->k, &ei) != E_OK)
        fail_with(&ei);
    make_topics(p, n_partitions);
    p->f.view_store = options.store = fixture_store(argv[3], STORE_REBUILDABLE);
    if (store_damage(p->f.view_store))
        fprintf(stderr, "replaced: %s\n", store_damage(p->f.view_store));
    if (kafka_table_log_open(p->k, &settings, "things", n_partitions, &p->f.log, &ei) != E_OK)
        fail_with(&ei);
    options.log = p->f.log;
    p->f.opened.on_mail = fixture_on_opened;
    if (table_open(&options, &p->f.opened, &p->f.loop.mailbox, &p->f.t, &ei) != E_OK)
        fail_with(&ei);
}

static void close_peer(struct peer *p)
{
    table_close(p->f.t);
    loop_turn(&p->f.loop, 0); /* the last answers */
    kafka_table_log_close(p->f.log);
    store_close(p->f.view_store);
    kafka_free(p->k);
    buf_free(&p->line, MEM_TEST);
    loop_fini(&p->f.loop);
}

int main(int argc, char **argv)
{
    static struct peer p;

    if (argc != 5)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    log_set_sink(on_log);
    open_peer(&p, argv, (unsigned)atoi(argv[4]));
    while (!p.f.is_opened)
        loop_turn(&p.f.loop, 1000);
    printf("opened\n");
    p.input = (struct io){.fd = STDIN_FILENO, .on_io = on_input};
    if (loop_watch(&p.f.loop, &p.input, EPOLLIN) != E_OK)
        return 1;
    while (!p.has_ended)
        loop_turn(&p.f.loop, -1);
    close_peer(&p);
    printf("closed\n");
    return 0;
}
