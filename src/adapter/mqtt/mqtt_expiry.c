#include "adapter/mqtt/mqtt_expiry.h"

#include "adapter/mqtt/mqtt_extras.h"
#include "base/check.h"

enum { MS_PER_S = 1000 };

static void on_expired(struct timer *t)
{
    struct mqtt_expiry *expiry = CONTAINER_OF(t, struct mqtt_expiry, timer);

    mqtt_conn_fail(expiry->conn, MQTT_REASON_MAXIMUM_CONNECT_TIME);
}

void mqtt_expiry_start(struct mqtt_conn *c, int64_t expires_at_s)
{
    struct mqtt_expiry *expiry;
    int64_t left_ms = expires_at_s * MS_PER_S - (int64_t)loop_wall_ms();

    if (!expires_at_s)
        return;
    expiry = &mqtt_extras_make(c)->expiry;
    expiry->conn = c;
    expiry->timer.on_timer = on_expired;
    wheel_start(&c->mw->worker->loop.wheel, &expiry->timer, left_ms > 0 ? (uint64_t)left_ms : 0);
}
