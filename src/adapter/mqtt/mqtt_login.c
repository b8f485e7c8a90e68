#include "adapter/mqtt/mqtt_login.h"

#include "adapter/mqtt/mqtt_worker.h"
#include "base/check.h"
#include "registry/registry_wait.h"

/* It outlives its connection until the answer has come. */
struct mqtt_login {
    struct registry_wait wait;
    struct mqtt_conn *conn; /* NULL: closed */
};

static void on_answer(struct mail *m)
{
    struct mqtt_login *waiting = CONTAINER_OF(m, struct mqtt_login, wait.mail);

    if (waiting->conn)
        stream_resume(&waiting->conn->stream);
    else
        mem_free(MEM_ADAPTER, waiting);
}

enum registry_result mqtt_login_ask(struct mqtt_conn *c, struct registry_login *login, struct principal *out_principal)
{
    struct mqtt_login *waiting = c->login;
    enum registry_result result;

    if (!waiting) {
        waiting = mem_alloc_zero(MEM_ADAPTER, sizeof *waiting);
        waiting->wait.mail.on_mail = on_answer;
        waiting->wait.home = &c->mw->worker->loop.mailbox;
        waiting->conn = c;
    }
    login->wait = &waiting->wait;
    result = registry_authenticate(mqtt_registry(c->mw), login, out_principal);
    if (result == REGISTRY_PENDING) {
        c->login = waiting;
        stream_pause(&c->stream);
        wheel_stop(&c->timer); /* the CONNECT is complete: what takes its time is us */
    } else {
        c->login = NULL;
        mem_free(MEM_ADAPTER, waiting);
    }
    return result;
}

void mqtt_login_cancel(struct mqtt_conn *c)
{
    if (c->login)
        c->login->conn = NULL;
    c->login = NULL;
}
