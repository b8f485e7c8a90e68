/* http_answer: responses of the HTTP adapter: the headers that a status brings with it (docs/wire/http.md) and those of CORS
 * (https://fetch.spec.whatwg.org/#http-cors-protocol). Pure but for the response; the exchange is gone after each. */
#pragma once

#include "adapter/ledger.h"
#include "config/config.h"
#include "core/device_topic.h"
#include "http/http_exchange.h"

/* The status of a refusal, and its words when nothing better is known. */
uint16_t http_answer_status(enum ledger_refusal why);
const char *http_answer_text(enum ledger_refusal why);

/* 202 without a body. */
void http_answer_accept(struct http_exchange *x, const struct config_http *config);

/* {"error":"..."}; 401 asks for Basic credentials, 503 says when to try again. */
void http_answer_refuse(struct http_exchange *x, const struct config_http *config, uint16_t status, const char *text);

/* A JSON text. `is_retriable`: says when to try again. */
void http_answer_json(struct http_exchange *x, const struct config_http *config, uint16_t status, struct str json,
                      bool is_retriable);

/* 200 with a command: its name, how to answer it, for which device of a gateway it is, and its body. */
struct command;
void http_answer_command(struct http_exchange *x, const struct config_http *config, const struct command *command);

/* To OPTIONS, for the paths of an endpoint. */
void http_answer_options(struct http_exchange *x, const struct config_http *config, enum device_endpoint endpoint, bool is_put);
