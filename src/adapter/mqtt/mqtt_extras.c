#include "adapter/mqtt/mqtt_extras.h"

#include "adapter/mqtt/mqtt_aliases.h"
#include "adapter/mqtt/mqtt_aliases_out.h"
#include "adapter/mqtt/mqtt_commands.h"
#include "adapter/mqtt/mqtt_errors.h"
#include "adapter/mqtt/mqtt_mapper.h"
#include "adapter/mqtt/mqtt_provision.h"
#include "base/check.h"
#include "base/mem.h"

struct mqtt_extras *mqtt_extras_make(struct mqtt_conn *c)
{
    ASSERT(c->state == MQTT_OPEN);
    if (!c->extras)
        c->extras = mem_alloc_zero(MEM_ADAPTER, sizeof *c->extras);
    return c->extras;
}

void mqtt_extras_free(struct mqtt_conn *c)
{
    mqtt_commands_leave(c);
    if (!c->extras)
        return;
    mqtt_aliases_free(c->extras->aliases);
    mqtt_aliases_out_free(c->extras->aliases_out);
    mqtt_errors_free(c->extras->errors);
    mqtt_mapper_forget(c);
    mqtt_provision_cancel(c);
    wheel_stop(&c->extras->expiry.timer);
    mem_free(MEM_ADAPTER, c->extras);
    c->extras = NULL;
}
