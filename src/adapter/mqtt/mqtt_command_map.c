#include "adapter/mqtt/mqtt_command_map.h"

#include "adapter/mqtt/mqtt_mapper.h"
#include "base/check.h"
#include "base/siphash.h"
#include "command/command_port.h"

/* The commands of one device, in order. */
struct line {
    struct mqtt_command_queue *queue; /* NULL: it was cleared */
    struct list items;
    uint64_t hash;
    bool is_releasing;
    uint32_t device_bytes;
    char device[];
};

struct item {
    struct list link;
    struct line *line;
    struct command *command;
    struct mqtt_mapping *mapping; /* NULL: it only waits for those before it */
};

static bool is_line_of(const void *entry, const void *key)
{
    const struct line *line = entry;

    return str_equal((struct str){line->device, line->device_bytes}, *(const struct str *)key);
}

static struct line *find_line(const struct mqtt_command_queue *queue, struct str device)
{
    return map_find(&queue->lines, siphash(device), &device, is_line_of);
}

static struct line *make_line(struct mqtt_command_queue *queue, struct str device)
{
    struct line *line = find_line(queue, device);

    if (line)
        return line;
    line = mem_alloc(MEM_ADAPTER, sizeof *line + device.n);
    *line = (struct line){.queue = queue, .hash = siphash(device), .device_bytes = (uint32_t)device.n};
    memcpy(line->device, device.p, device.n);
    list_init(&line->items);
    map_add(&queue->lines, MEM_ADAPTER, line->hash, line);
    return line;
}

static struct command *item_free(struct item *item)
{
    struct command *command = item->command;

    list_remove(&item->link);
    mqtt_mapper_end(item->mapping);
    mem_free(MEM_ADAPTER, item);
    return command;
}

static struct item *first_of(const struct line *line)
{
    return list_is_empty(&line->items) ? NULL : CONTAINER_OF(line->items.next, struct item, link);
}

static void let_go(struct item *item)
{
    const struct mqtt_mapped *mapped = item->mapping ? mqtt_mapper_result(item->mapping) : NULL;

    if (mapped && !mapped->is_good)
        command_done(item->command, COMMAND_FAILED, 503, "command could not be mapped");
    else
        item->line->queue->deliver(item->line->queue, item->command, mapped);
}

/* Lets those at the front go that have come through. The client may go with any of them, which clears the queue. */
static void release(struct line *line)
{
    struct item *item;

    line->is_releasing = true;
    while (line->queue && (item = first_of(line)) && (!item->mapping || mqtt_mapper_result(item->mapping))) {
        list_remove(&item->link);
        let_go(item);
        (void)item_free(item);
    }
    line->is_releasing = false;
    if (!list_is_empty(&line->items))
        return;
    if (line->queue)
        ASSERT(map_remove(&line->queue->lines, line->hash, line));
    mem_free(MEM_ADAPTER, line);
}

static void on_mapped(void *context)
{
    struct item *item = context;

    release(item->line);
}

/* The mapper of whoever gets the command, be it a gateway; of the device when the client is nobody's. */
static struct str mapper_of(const struct mqtt_conn *c, const struct command *command)
{
    const struct principal *who = &c->ss->principal;
    struct registration registration;

    if (who->device)
        return who->device->command_mapper;
    if (registry_assert(mqtt_registry(c->mw), command->tenant, command->record.device_id, (struct str){0}, &registration) !=
        REGISTRY_ASSERTED)
        return (struct str){0};
    return registration.device->command_mapper;
}

static struct mqtt_mapper_request request_of(const struct mqtt_conn *c, const struct command *command, struct str mapper,
                                             uint8_t qos)
{
    const struct registry_device *receiver = c->ss->principal.device;
    struct mqtt_mapper_request request = {
        .mapper = mapper,
        .payload = command->record.value,
        .content_type = command->record.content_type,
        .subject = command->record.subject,
        .message_id = command->record.message_id,
        .tenant = command->tenant,
        .device = command->record.device_id,
        .qos = qos,
    };

    if (receiver && command->target.n && !str_equal(receiver->id, command->target))
        request.gateway = receiver->id;
    return request;
}

bool mqtt_command_map_take(struct mqtt_command_queue *queue, struct mqtt_conn *c, uint8_t qos, struct command *command)
{
    struct str mapper = mapper_of(c, command);
    struct mqtt_mapper_request request;
    struct line *line;
    struct item *item;

    if (!mapper.n && !find_line(queue, command->record.device_id))
        return false;
    line = make_line(queue, command->record.device_id);
    item = mem_alloc(MEM_ADAPTER, sizeof *item);
    *item = (struct item){.line = line, .command = command};
    list_push(&line->items, &item->link);
    if (!mapper.n)
        return true;
    request = request_of(c, command, mapper, qos);
    item->mapping = mqtt_mapper_begin(c->mw, &request, on_mapped, item);
    if (!line->is_releasing)
        release(line); /* it may have failed at once */
    return true;
}

void mqtt_command_map_clear(struct mqtt_command_queue *queue)
{
    uint32_t cursor = 0;
    struct line *line;
    struct item *item;

    while ((line = map_next(&queue->lines, &cursor))) {
        while ((item = first_of(line)))
            command_done(item_free(item), COMMAND_RETURNED, 0, NULL);
        line->queue = NULL;
        if (!line->is_releasing)
            mem_free(MEM_ADAPTER, line);
    }
    map_free(&queue->lines, MEM_ADAPTER);
}
