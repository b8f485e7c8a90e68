#include "authority/authority_plane.h"

#include "authority/authority_metrics.h"
#include "base/check.h"

static enum authority_verdict ask_webhook(struct authority *a, const struct config *config, const struct registry_login *login,
                                          struct authority_answer *out)
{
    return webhook_ask(&CONTAINER_OF(a, struct authority_plane, port)->webhook, config, login, out);
}

void authority_plane_init(struct authority_plane *p, struct workers *workers)
{
    *p = (struct authority_plane){.port = {.ask_webhook = ask_webhook}};
    authority_metrics_register();
    authority_client_init(&p->clients, workers);
    webhook_init(&p->webhook, &p->clients);
}

void authority_plane_use_tls(struct authority_plane *p, struct tls *tls)
{
    authority_client_use_tls(&p->clients, tls);
}

void authority_plane_close(struct authority_plane *p)
{
    authority_client_close(&p->clients);
}

void authority_plane_fini(struct authority_plane *p)
{
    if (!p->clients.workers)
        return;
    authority_client_fini(&p->clients);
    webhook_fini(&p->webhook);
}
