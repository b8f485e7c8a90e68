/* http_pool: exchanges of one server, used again with their buffers, so that a request costs no allocation. Internal to http/;
 * one thread. */
#pragma once

#include "http/http_exchange.h"
#include "http/http_server.h"

/* An empty exchange that belongs to `srv`. Never NULL. */
struct http_exchange *http_pool_take(struct http_server *srv);

/* Gives one back, in no list any more. Its request and views are gone. */
void http_pool_give(struct http_exchange *x);

/* Frees what lies in the pool. */
void http_pool_free(struct http_server *srv);
