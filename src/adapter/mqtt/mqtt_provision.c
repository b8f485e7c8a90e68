#include "adapter/mqtt/mqtt_provision.h"

#include "adapter/mqtt/mqtt_extras.h"
#include "base/check.h"
#include "registry/registry_wait.h"

/* It outlives its connection until the answer has come. */
struct mqtt_provision {
    struct registry_wait wait;
    struct mqtt_conn *conn; /* NULL: closed */
    bool is_pending;
};

static void on_answer(struct mail *m)
{
    struct mqtt_provision *waiting = CONTAINER_OF(m, struct mqtt_provision, wait.mail);

    waiting->is_pending = false;
    if (waiting->conn)
        mqtt_conn_resume(waiting->conn);
    else
        mem_free(MEM_ADAPTER, waiting);
}

static struct mqtt_provision *wait_of(struct mqtt_conn *c)
{
    struct mqtt_extras *extras = mqtt_extras_make(c);

    if (!extras->provision) {
        extras->provision = mem_alloc_zero(MEM_ADAPTER, sizeof *extras->provision);
        extras->provision->wait.mail.on_mail = on_answer;
        extras->provision->wait.home = &c->mw->worker->loop.mailbox;
        extras->provision->conn = c;
    }
    return extras->provision;
}

enum handle mqtt_provision_ask(struct mqtt_conn *c, struct str tenant, struct str device)
{
    const struct principal *who = &c->ss->principal;
    struct mqtt_provision *waiting;

    if (device.n == 0 || !who->device || !who->device->may_provision || (tenant.n && !str_equal(tenant, who->tenant->id)))
        return HANDLE_DONE;
    waiting = wait_of(c);
    if (waiting->is_pending || /* something else has let it read on */
        registry_provision(mqtt_registry(c->mw), who->tenant->id, device, who->device->id, &waiting->wait)) {
        waiting->is_pending = true;
        stream_pause(&c->stream);
        return HANDLE_WAIT;
    }
    c->extras->provision = NULL;
    mem_free(MEM_ADAPTER, waiting);
    return HANDLE_DONE;
}

void mqtt_provision_cancel(struct mqtt_conn *c)
{
    struct mqtt_provision *waiting = c->extras->provision;

    c->extras->provision = NULL;
    if (waiting && waiting->is_pending)
        waiting->conn = NULL; /* its mail frees it */
    else
        mem_free(MEM_ADAPTER, waiting);
}
