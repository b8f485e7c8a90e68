#include "authority/authority_plane.h"

#include "authority/authority_metrics.h"
#include "base/check.h"

static enum authority_verdict ask_webhook(struct authority *a, const struct config *config, const struct registry_login *login,
                                          struct authority_answer *out)
{
    return webhook_ask(&CONTAINER_OF(a, struct authority_plane, port)->webhook, config, login, out);
}

static enum authority_verdict judge_token(struct authority *a, const struct config *config, const struct registry_login *login,
                                          struct authority_answer *out)
{
    return key_source_judge(&CONTAINER_OF(a, struct authority_plane, port)->keys, config, login, out);
}

static enum authority_verdict check_certificate(struct authority *a, const struct config *config,
                                                const struct authority_certificate *certificate, struct registry_wait *wait)
{
    return ocsp_source_check(&CONTAINER_OF(a, struct authority_plane, port)->ocsp, config, certificate, wait);
}

void authority_plane_init(struct authority_plane *p, struct workers *workers)
{
    *p = (struct authority_plane){
        .port = {.ask_webhook = ask_webhook, .judge_token = judge_token, .check_certificate = check_certificate}};
    authority_metrics_register();
    authority_client_init(&p->clients, workers);
    webhook_init(&p->webhook, &p->clients);
    ocsp_source_init(&p->ocsp, &p->clients);
    key_source_init(&p->keys, &p->clients, &workers->list[0]);
}

void authority_plane_use(struct authority_plane *p, struct config *config, struct tls *tls)
{
    authority_client_use_tls(&p->clients, tls);
    key_source_use(&p->keys, config);
}

void authority_plane_close(struct authority_plane *p)
{
    if (!p->clients.workers)
        return;
    authority_client_close(&p->clients);
    key_source_close(&p->keys);
}

void authority_plane_fini(struct authority_plane *p)
{
    if (!p->clients.workers)
        return;
    authority_client_fini(&p->clients);
    webhook_fini(&p->webhook);
    key_source_fini(&p->keys);
    ocsp_source_fini(&p->ocsp);
}
