/* mqtt_command_map: commands that a mapper rewrites before they go to an MQTT client (docs/MAPPER.md). Those of one device stay in
 * order, whichever of them have a mapper; one device's mapper holds up no other's commands. What is with a mapper is bounded by
 * what the plane has out to a device, and by the mapper's own limit of calls that wait. One thread: the worker's. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"

struct command;
struct mqtt_mapped;

/* Of one subscription; owned by it. All-zero but for `deliver` is empty. */
struct mqtt_command_queue {
    /* The next one may go: `mapped` is what it has become, until this returns; NULL: it goes as it is. */
    void (*deliver)(struct mqtt_command_queue *queue, struct command *command, const struct mqtt_mapped *mapped);
    struct map lines;
};

/* Takes a command that has a mapper, or that others of its device wait before: it is delivered, or fails (503), when it has come
 * through. False: it may be delivered at once. */
bool mqtt_command_map_take(struct mqtt_command_queue *queue, struct mqtt_conn *c, uint8_t qos, struct command *command);

/* The client has gone: everything goes back, and questions are taken back. */
void mqtt_command_map_clear(struct mqtt_command_queue *queue);
