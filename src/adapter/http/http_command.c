#include "adapter/http/http_command.h"

#include "base/check.h"

enum { MS_PER_S = 1000 };

static struct http_command_wait *from_subscriber(struct command_subscriber *subscriber)
{
    return CONTAINER_OF(subscriber, struct http_command_wait, subscriber);
}

static void finish(struct http_command_wait *wait)
{
    bool is_awaited = wait->is_timed && !wait->is_done;

    wait->is_done = true;
    list_remove(&wait->link);
    wheel_stop(&wait->timer);
    if (is_awaited)
        wait->on_done(wait);
}

static void on_timer(struct timer *t)
{
    finish(CONTAINER_OF(t, struct http_command_wait, timer));
}

/* Refused, it goes on as a request that does not wait: if its device is none, its message will be refused for that. */
static void on_subscribed(struct command_subscriber *subscriber, err result)
{
    struct http_command_wait *wait = from_subscriber(subscriber);

    wait->is_done |= result != E_OK;
    wait->on_ready(wait);
}

/* One command a request. */
static void on_command(struct command_subscriber *subscriber, struct command *command)
{
    struct http_command_wait *wait = from_subscriber(subscriber);

    if (wait->command) {
        command_done(command, COMMAND_FAILED, 503, "another command has already been processed");
        return;
    }
    wait->command = command;
    finish(wait);
}

static const struct command_subscriber_ops subscriber_ops = {.on_subscribed = on_subscribed, .on_command = on_command};

void http_command_begin(struct http_command_wait *wait, struct http_edge *edge, const struct http_intake *in,
                        const struct principal *who)
{
    struct str sender = who->device ? who->device->id : (struct str){0};
    struct command_subscription subscription = {
        .tenant = who->tenant->id,
        .device = in->device.n ? in->device : sender,
        .adapter = CONFIG_ADAPTER_HTTP,
    };

    if (sender.n && !str_equal(subscription.device, sender))
        subscription.gateway = sender;
    wait->edge = edge;
    wait->timer.on_timer = on_timer;
    wait->subscriber.ops = &subscriber_ops;
    list_push(&edge->listening, &wait->link);
    command_subscribe(edge->adapter->settings.commands, edge->worker, &wait->subscriber, &subscription);
}

bool http_command_listen(struct http_command_wait *wait, uint32_t ttd_s)
{
    if (wait->is_done)
        return false;
    if (!wait->is_timed)
        wheel_start(&wait->edge->worker->loop.wheel, &wait->timer, (uint64_t)ttd_s * MS_PER_S);
    wait->is_timed = true;
    return true;
}

struct command *http_command_end(struct http_command_wait *wait)
{
    struct command *command = wait->command;

    wait->command = NULL;
    wait->is_done = true;
    list_remove(&wait->link);
    wheel_stop(&wait->timer);
    command_unsubscribe(&wait->subscriber);
    return command;
}

void http_command_hurry(struct http_edge *edge)
{
    struct list *link;

    while ((link = list_pop(&edge->listening)))
        finish(CONTAINER_OF(link, struct http_command_wait, link));
}
