/* manage_ask: requests to the management interface of a running process, one after the other, waited for. For commands; main thread. */
#pragma once

#include "base/buf.h"
#include "http/http_client.h"
#include "loop/resolver.h"

/* All-zero is closed. */
struct manage_ask {
    struct loop loop;
    struct resolver resolver;
    struct http_client client;
    struct http_client_options options;
    struct str api; /* http://HOST:PORT, or https */
    char authorization[4096];
    struct http_call call;
    bool is_open, is_done, is_https;

    /* The answer to the last request. */
    uint16_t status;
    struct buf body;
    char tag[160], next[256]; /* ETag, Millrace-Next; empty without */
};

struct manage_ask_options {
    const char *api;   /* http://HOST:PORT, or https */
    const char *ca;    /* https: the file with the CAs that are trusted; NULL: those of the system */
    const char *user;  /* NAME:PASSWORD; NULL: */
    const char *token; /* this counts; NULL: nobody in particular asks */
};

/* Texts are borrowed until the end. E_INVAL, E_LIMIT, E_IO: `ei` says why. */
MUST_USE err manage_ask_open(struct manage_ask *a, const struct manage_ask_options *options, struct errinfo *ei);
void manage_ask_close(struct manage_ask *a);

struct manage_ask_request {
    enum http_method method;
    const char *path; /* with query */
    struct str body;
    const char *content_type; /* NULL: JSON */
    const char *if_match;     /* NULL: any version */
};

/* E_OK: there is an answer, whatever its status. Else `ei` says why. Blocks. */
MUST_USE err manage_ask_send(struct manage_ask *a, const struct manage_ask_request *request, struct errinfo *ei);
