/* The frames of a link: whatever bytes an instance sends are read or refused, and what is read can be written again to the same. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "command/command_link_frame.h"

/* The bytes that a frame was read from. */
static void write_again(const struct command_link_frame *f, struct buf *to)
{
    switch (f->kind) {
    case COMMAND_LINK_HELLO:
        ASSERT(command_link_frame_write_hello(to, &f->hello) == E_OK);
        break;
    case COMMAND_LINK_WELCOME:
        ASSERT(command_link_frame_write_welcome(to, f->number) == E_OK);
        break;
    case COMMAND_LINK_REFUSAL:
        ASSERT(command_link_frame_write_refusal(to, (enum command_link_refusal)f->refusal) == E_OK);
        break;
    case COMMAND_LINK_REQUEST:
        ASSERT(command_link_frame_write_request(to, f->number, &f->request) == E_OK);
        break;
    case COMMAND_LINK_RESULT:
        ASSERT(command_link_frame_write_result(to, f->number, &f->result) == E_OK);
        break;
    case COMMAND_LINK_PING:
        ASSERT(command_link_frame_write_ping(to) == E_OK);
        break;
    case COMMAND_LINK_ACK:
        ASSERT(command_link_frame_write_ack(to, f->number) == E_OK);
        break;
    case COMMAND_LINK_KINDS:
        ASSERT(false);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record_header headers[COMMAND_LINK_HEADERS_MAX];
    struct command_link_frame f;
    struct buf again = {0};
    /* Exactly as many bytes as there are: reading past them is seen. */
    char *bytes = malloc(size ? size : 1);
    struct str rest = {bytes, size};
    size_t n;

    if (size)
        memcpy(bytes, data, size);
    while (command_link_frame_read(rest, COMMAND_LINK_FRAME_MAX_BYTES, headers, &f, &n) == E_OK) {
        ASSERT(n <= rest.n && n == command_link_frame_bytes(rest));
        if (f.kind != COMMAND_LINK_HELLO || f.hello.version == COMMAND_LINK_VERSION) {
            write_again(&f, &again);
            ASSERT(str_equal(buf_str(&again), (struct str){rest.p, n}));
            buf_consume(&again, n);
        }
        rest = str_from_offset(rest, n);
    }
    buf_free(&again, MEM_COMMAND);
    free(bytes);
    return 0;
}
