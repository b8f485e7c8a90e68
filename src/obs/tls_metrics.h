/* tls_metrics: what TLS counts (loop/tls_stats.h), for scrapes: connections that come to us and those we make. */
#pragma once

#include "loop/tls_stats.h"

/* Where the connections of each side count; they live as long as the process. Any thread. */
struct tls_stats *tls_metrics_server(void);
struct tls_stats *tls_metrics_client(void);

/* Registers all of it. Once, before threads start. */
void tls_metrics_register(void);
