/* scrape: one look at all metrics. The workers are asked by mail to note what they have counted, each between two of its
 * handlers, so that the ledgers in the answer balance under any load; then everything is written. Requests that come
 * meanwhile get the same answer. One thread: that of the administration port. */
#pragma once

#include "http/http_exchange.h"
#include "loop/worker.h"

struct scrape;

/* `workers` may be NULL: then everything is written as it stands. Lives until scrape_close(); the caller owns it. */
struct scrape *scrape_new(struct loop *l, struct workers *workers);

/* Answers the exchange as soon as all workers have noted, at once without workers. */
void scrape_answer(struct scrape *s, struct http_exchange *x);

/* Refuses whoever still waits (503), and goes as soon as no mail is out any more. NULL is a no-op. */
void scrape_close(struct scrape *s);
