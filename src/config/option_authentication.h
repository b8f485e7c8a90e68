/* option_authentication: the rows of those outside the process who have a say in who may connect, for the table in option_table.c. */
#pragma once

#include "config/option.h"

static const char *const webhook_order_choices[] = {
    [CONFIG_WEBHOOK_FIRST] = "first",
    [CONFIG_WEBHOOK_LAST] = "last",
    [CONFIG_WEBHOOK_ONLY] = "only",
    NULL,
};

static const char *const revocation_failure_choices[] = {
    [CONFIG_REVOCATION_REFUSE] = "refuse",
    [CONFIG_REVOCATION_ACCEPT] = "accept",
    NULL,
};

#define AUTHENTICATION_OPTIONS(in_config, range)                                                                               \
    {.path = "authentication",                                                                                                 \
     .type = OPTION_SECTION,                                                                                                   \
     .flags = OPTION_RELOADABLE,                                                                                               \
     .help = "Who besides the registry has a say in which devices may connect. See REGISTRY.md."},                             \
        {.path = "authentication.webhook",                                                                                     \
         .type = OPTION_SECTION,                                                                                               \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .help = "A server that is asked whether a device with this name and password, or this token, may connect. If it "     \
                 "does not answer, the device may not, and is told that the service is unavailable."},                         \
        {.path = "authentication.webhook.url",                                                                                 \
         .type = OPTION_TEXT,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         range(0, 2000),                                                                                                       \
         in_config(authentication.webhook.url),                                                                                \
         .help = "Where the questions go by POST, as in https://idm.example/mqtt. Without one nobody is asked. What they "     \
                 "hold is secret: use https:// (https_client) unless the server is on this machine."},                         \
        {.path = "authentication.webhook.token",                                                                               \
         .type = OPTION_TEXT,                                                                                                  \
         .flags = OPTION_SECRET | OPTION_RELOADABLE,                                                                           \
         range(0, 1024),                                                                                                       \
         in_config(authentication.webhook.token),                                                                              \
         .help = "What the server is shown, as Authorization: Bearer TOKEN."},                                                 \
        {.path = "authentication.webhook.order",                                                                               \
         .type = OPTION_CHOICE,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "first",                                                                                                   \
         .choices = webhook_order_choices,                                                                                     \
         in_config(authentication.webhook.order),                                                                              \
         .help =                                                                                                               \
             "first: it is asked before the registry, which decides when the answer is ignore. last: it is asked when the "    \
             "registry has found a password or token wrong, or nobody by that name. only: the registry's passwords and "       \
             "keys of tokens do not count. Pre-shared keys and certificates that a tenant trusts go before all of them."},     \
        {.path = "authentication.webhook.timeout",                                                                             \
         .type = OPTION_DURATION,                                                                                              \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "3s",                                                                                                      \
         range(10, 300 * 1000),                                                                                                \
         in_config(authentication.webhook.timeout_ms),                                                                         \
         .help = "How long an answer may take, waiting for a connection included."},                                           \
        {.path = "authentication.webhook.cache",                                                                               \
         .type = OPTION_DURATION,                                                                                              \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "1m",                                                                                                      \
         range(0, 24 * 3600 * 1000),                                                                                           \
         in_config(authentication.webhook.cache_ms),                                                                           \
         .help = "How long it is remembered that somebody may connect; no longer than the answer's ttl. Over HTTP each "       \
                 "request is a log-in. 0 asks each time."},                                                                    \
        {.path = "authentication.webhook.cache_denied",                                                                        \
         .type = OPTION_DURATION,                                                                                              \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "5s",                                                                                                      \
         range(0, 3600 * 1000),                                                                                                \
         in_config(authentication.webhook.cache_denied_ms),                                                                    \
         .help = "How long it is remembered that somebody may not, or that the server does not decide."},                      \
        {.path = "authentication.webhook.max_cached",                                                                          \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "100000",                                                                                                  \
         range(1, 10000000),                                                                                                   \
         in_config(authentication.webhook.max_cached),                                                                         \
         .help =                                                                                                               \
             "How many answers are remembered, in the process; the oldest go. Passwords are not kept, only a keyed hash."},    \
        {.path = "authentication.webhook.connections",                                                                         \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "32",                                                                                                      \
         range(1, 1024),                                                                                                       \
         in_config(authentication.webhook.connections),                                                                        \
         .help = "How many questions are with the server at a time, shared among the workers (each has at least one)."},       \
        {.path = "authentication.webhook.max_waiting",                                                                         \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "1000",                                                                                                    \
         range(1, 100000),                                                                                                     \
         in_config(authentication.webhook.max_waiting),                                                                        \
         .help =                                                                                                               \
             "How many different questions may be unanswered. Past that devices are told that the service is unavailable."},   \
        {.path = "authentication.jwks",                                                                                        \
         .type = OPTION_SECTION,                                                                                               \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .help = "An identity provider whose tokens (JWT) devices may bring as passwords, or over HTTP as bearer tokens. Its " \
                 "tokens are judged by its keys alone; while they are not to be had, nobody is let in by them."},              \
        {.path = "authentication.jwks.url",                                                                                    \
         .type = OPTION_TEXT,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         range(0, 2000),                                                                                                       \
         in_config(authentication.jwks.url),                                                                                   \
         .help = "Where its keys are (a JSON Web Key Set), as in https://idm.example/keys. Whoever can change what is there "  \
                 "decides who may connect: use https:// (https_client). Without one there is no such provider."},              \
        {.path = "authentication.jwks.issuer",                                                                                 \
         .type = OPTION_TEXT,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         range(0, 1000),                                                                                                       \
         in_config(authentication.jwks.issuer),                                                                                \
         .help = "The claim iss of its tokens. Those of others are judged as if there were no provider."},                     \
        {.path = "authentication.jwks.audience",                                                                               \
         .type = OPTION_STRINGS,                                                                                               \
         .flags = OPTION_RELOADABLE,                                                                                           \
         range(0, 16),                                                                                                         \
         in_config(authentication.jwks.audience),                                                                              \
         .help = "What the claim aud must name, one of these at least."},                                                      \
        {.path = "authentication.jwks.tenant",                                                                                 \
         .type = OPTION_TEXT,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .characters = OPTION_TOPIC,                                                                                           \
         range(0, 249),                                                                                                        \
         in_config(authentication.jwks.tenant),                                                                                \
         .help = "The tenant of all its tokens. Without one tenant_claim says it."},                                           \
        {.path = "authentication.jwks.tenant_claim",                                                                           \
         .type = OPTION_TEXT,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "tid",                                                                                                     \
         range(1, 250),                                                                                                        \
         in_config(authentication.jwks.tenant_claim),                                                                          \
         .help = "The claim with the tenant's id; one inside others as in /realm/tenant."},                                    \
        {.path = "authentication.jwks.device_claim",                                                                           \
         .type = OPTION_TEXT,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "sub",                                                                                                     \
         range(1, 250),                                                                                                        \
         in_config(authentication.jwks.device_claim),                                                                          \
         .help = "The claim with the device's id."},                                                                           \
        {.path = "authentication.jwks.refresh",                                                                                \
         .type = OPTION_DURATION,                                                                                              \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "10m",                                                                                                     \
         range(100, 24 * 3600 * 1000),                                                                                         \
         in_config(authentication.jwks.refresh_ms),                                                                            \
         .help = "How often the keys are fetched."},                                                                           \
        {.path = "authentication.jwks.retry",                                                                                  \
         .type = OPTION_DURATION,                                                                                              \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "10s",                                                                                                     \
         range(100, 3600 * 1000),                                                                                              \
         in_config(authentication.jwks.retry_ms),                                                                              \
         .help =                                                                                                               \
             "How soon they are fetched again when that failed, or for a token that names a key which is not among them; no "  \
             "sooner, whatever devices bring."},                                                                               \
        {.path = "authentication.jwks.max_age",                                                                                \
         .type = OPTION_DURATION,                                                                                              \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "1d",                                                                                                      \
         range(100, 30LL * 24 * 3600 * 1000),                                                                                  \
         in_config(authentication.jwks.max_age_ms),                                                                            \
         .help = "How long keys count that could not be fetched again."},                                                      \
        {.path = "authentication.jwks.timeout",                                                                                \
         .type = OPTION_DURATION,                                                                                              \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "5s",                                                                                                      \
         range(10, 300 * 1000),                                                                                                \
         in_config(authentication.jwks.timeout_ms),                                                                            \
         .help = "How long fetching them may take."},                                                                          \
        {.path = "authentication.revocation",                                                                                  \
         .type = OPTION_SECTION,                                                                                               \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .help = "How certificates that CAs of tenants have issued are checked for being revoked. Those of a listener's own "  \
                 "client_ca have tls.crl."},                                                                                   \
        {.path = "authentication.revocation.crl_dir",                                                                          \
         .type = OPTION_TEXT,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         range(0, 4000),                                                                                                       \
         in_config(authentication.revocation.crl_dir),                                                                         \
         .help =                                                                                                               \
             "A folder with revocation lists of these CAs, in files that end with .crl or .pem, PEM or DER; it is watched. A " \
             "CA that has a list there is checked by it. A relative path counts from the folder of this file."},               \
        {.path = "authentication.revocation.old_crl",                                                                          \
         .type = OPTION_CHOICE,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "refuse",                                                                                                  \
         .choices = revocation_failure_choices,                                                                                \
         in_config(authentication.revocation.old_crl),                                                                         \
         .help = "What becomes of certificates whose CA has a list, when a newer one was due: refuse or accept those that "    \
                 "are not "                                                                                                    \
                 "on it."},                                                                                                    \
        {.path = "authentication.revocation.ocsp_failure",                                                                     \
         .type = OPTION_CHOICE,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "refuse",                                                                                                  \
         .choices = revocation_failure_choices,                                                                                \
         in_config(authentication.revocation.ocsp_failure),                                                                    \
         .help = "What becomes of certificates whose CA wants a responder to be asked (ocsp-revocation-enabled), when none "   \
                 "can tell: "                                                                                                  \
                 "refuse (the device is told that the service is unavailable) or accept. One that is revoked, or not known "   \
                 "to the "                                                                                                     \
                 "responder, is refused in any case."},                                                                        \
        {.path = "authentication.revocation.ocsp_timeout",                                                                     \
         .type = OPTION_DURATION,                                                                                              \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "5s",                                                                                                      \
         range(10, 300 * 1000),                                                                                                \
         in_config(authentication.revocation.ocsp_timeout_ms),                                                                 \
         .help = "How long a responder's answer may take."},                                                                   \
    {                                                                                                                          \
        .path = "authentication.revocation.ocsp_cache", .type = OPTION_DURATION, .flags = OPTION_RELOADABLE, .initial = "1h",  \
        range(1000, 30LL * 24 * 3600 * 1000), in_config(authentication.revocation.ocsp_cache_ms),                              \
        .help = "How long its answer is remembered at most; no longer than until it says that the next one is due."            \
    }
