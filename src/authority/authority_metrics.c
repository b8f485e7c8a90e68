#include "authority/authority_metrics.h"

#include "obs/metrics.h"

#define WEBHOOK(outcome)                                                                                                       \
    {                                                                                                                          \
        .name = "millrace_authority_webhook_total", .labels = "outcome=\"" outcome "\"", .kind = METRIC_COUNTER                \
    }

#define OCSP(outcome)                                                                                                          \
    {                                                                                                                          \
        .name = "millrace_authority_ocsp_total", .labels = "outcome=\"" outcome "\"", .kind = METRIC_COUNTER                   \
    }

static struct metric counts[AUTHORITY_COUNTS] = {
    [AUTHORITY_COUNT_ALLOWED] = {.name = "millrace_authority_webhook_total",
                                 .labels = "outcome=\"allowed\"",
                                 .help = "Questions about log-ins to the webhook: what it said, or why that cannot be told; "
                                         "overloaded: it was not asked, because too many questions were open",
                                 .kind = METRIC_COUNTER},
    [AUTHORITY_COUNT_DENIED] = WEBHOOK("denied"),
    [AUTHORITY_COUNT_IGNORED] = WEBHOOK("ignored"),
    [AUTHORITY_COUNT_TIMEOUT] = WEBHOOK("timeout"),
    [AUTHORITY_COUNT_UNREACHABLE] = WEBHOOK("unreachable"),
    [AUTHORITY_COUNT_STATUS] = WEBHOOK("status"),
    [AUTHORITY_COUNT_MALFORMED] = WEBHOOK("malformed"),
    [AUTHORITY_COUNT_OVERLOADED] = WEBHOOK("overloaded"),
    [AUTHORITY_COUNT_REMEMBERED] = {.name = "millrace_authority_webhook_remembered_total",
                                    .help = "Log-ins that were judged by an answer the webhook had given before",
                                    .kind = METRIC_COUNTER},
    [AUTHORITY_COUNT_JOINED] = {.name = "millrace_authority_webhook_joined_total",
                                .help = "Log-ins that waited for the answer to a question that others had asked",
                                .kind = METRIC_COUNTER},
    [AUTHORITY_COUNT_KEYS_FETCHED] = {.name = "millrace_authority_keys_fetched_total",
                                      .labels = "result=\"ok\"",
                                      .help = "Times the keys of the identity provider were fetched, or not to be had",
                                      .kind = METRIC_COUNTER},
    [AUTHORITY_COUNT_KEYS_FAILED] = {.name = "millrace_authority_keys_fetched_total",
                                     .labels = "result=\"failed\"",
                                     .kind = METRIC_COUNTER},
    [AUTHORITY_COUNT_TOKEN_ALLOWED] = {.name = "millrace_authority_tokens_total",
                                       .labels = "outcome=\"allowed\"",
                                       .help =
                                           "Tokens of the identity provider; unavailable: there were no keys to judge them by",
                                       .kind = METRIC_COUNTER},
    [AUTHORITY_COUNT_TOKEN_DENIED] = {.name = "millrace_authority_tokens_total",
                                      .labels = "outcome=\"denied\"",
                                      .kind = METRIC_COUNTER},
    [AUTHORITY_COUNT_TOKEN_UNAVAILABLE] = {.name = "millrace_authority_tokens_total",
                                           .labels = "outcome=\"unavailable\"",
                                           .kind = METRIC_COUNTER},
    [AUTHORITY_COUNT_OCSP_GOOD] =
        {.name = "millrace_authority_ocsp_total",
         .labels = "outcome=\"good\"",
         .help = "Questions about certificates to OCSP responders: what was said, or why nothing is known; nowhere: "
                 "neither tenant nor certificate say whom to ask; overloaded: too many questions were open",
         .kind = METRIC_COUNTER},
    [AUTHORITY_COUNT_OCSP_REVOKED] = OCSP("revoked"),
    [AUTHORITY_COUNT_OCSP_UNKNOWN] = OCSP("unknown"),
    [AUTHORITY_COUNT_OCSP_REFUSED] = OCSP("refused"),
    [AUTHORITY_COUNT_OCSP_MALFORMED] = OCSP("malformed"),
    [AUTHORITY_COUNT_OCSP_UNTRUSTED] = OCSP("untrusted"),
    [AUTHORITY_COUNT_OCSP_OLD] = OCSP("old"),
    [AUTHORITY_COUNT_OCSP_UNREACHABLE] = OCSP("unreachable"),
    [AUTHORITY_COUNT_OCSP_NOWHERE] = OCSP("nowhere"),
    [AUTHORITY_COUNT_OCSP_OVERLOADED] = OCSP("overloaded"),
    [AUTHORITY_COUNT_OCSP_ACCEPTED] =
        {.name = "millrace_authority_ocsp_accepted_total",
         .help = "Times a certificate was accepted of which no responder could tell (ocsp_failure: accept)",
         .kind = METRIC_COUNTER},
};

void authority_metrics_register(void)
{
    metrics_register(counts, AUTHORITY_COUNTS);
}

void authority_metrics_count(enum authority_count which)
{
    metric_add(&counts[which], 1);
}
