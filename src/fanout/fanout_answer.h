/* fanout_answer: what senders are told. Internal to fanout/; any thread. */
#pragma once

#include "fanout/fanout_job.h"
#include "fanout/fanout_metrics.h"
#include "http/http_exchange.h"

enum { FANOUT_ANSWER_RETRY_AFTER_S = 2 };

/* Writes job->problem, a JSON problem (RFC 9457): which subscriptions failed and why, the first 100 of them. Without memory it stays
 * empty. */
void fanout_answer_write_problem(struct fanout_job *job);

/* Answers an exchange that holds one event, by the job's verdict: 202; 500 with the problem; 429 and 503 with Retry-After. */
void fanout_answer_verdict(struct http_exchange *x, const struct fanout_job *job);

/* Refuses, with a text; 429 and 503 have a Retry-After. */
void fanout_answer_refuse(struct http_exchange *x, uint16_t status, const char *text);

/* The status of a verdict, and the text of one that is none of success. */
uint16_t fanout_answer_status(enum fanout_verdict verdict);
const char *fanout_answer_text(enum fanout_verdict verdict);

/* Answers the handshake of CloudEvents' HTTP webhooks (section 4), which senders make with OPTIONS. */
void fanout_answer_handshake(struct http_exchange *x);
