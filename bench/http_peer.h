/* http_peer: the little HTTP/1.1 that load and sink need between them and a server under test, and no more, because they share its
 * machine: messages with Content-Length on kept connections. It has no parser in common with the server. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { HTTP_PEER_BUFFER_BYTES = 256 << 10 };

/* Input of one connection. All-zero is empty. */
struct http_peer_input {
    char bytes[HTTP_PEER_BUFFER_BYTES];
    size_t head, tail;
};

struct http_peer_message {
    struct str head; /* the first line and the headers, each with its CRLF */
    struct str body;
};

/* Reads what has come without waiting. False when the connection has ended or the buffer is full. */
bool http_peer_read(int fd, struct http_peer_input *in);

/* Takes the next whole message. False when it has not come as a whole. */
bool http_peer_take(struct http_peer_input *in, struct http_peer_message *out_message);

/* The value of a header by its name in lower case; empty when it is not there. */
struct str http_peer_header(struct str head, struct str name);

/* A socket on 127.0.0.1 that does not block, listening or connected; ends the program when that fails. */
int http_peer_listen(uint16_t port);
int http_peer_connect(uint16_t port);
