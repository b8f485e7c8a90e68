/* http1_refusal: why a request is refused, with the status, the metric label and the text that go with it. A table of
 * constants, any thread. */
#pragma once

#include <stdint.h>

/* Why a request is refused. */
enum http1_refusal {
    HTTP1_REFUSED_NOT,
    HTTP1_REFUSED_SYNTAX,            /* 400 anything llhttp or our line rules reject */
    HTTP1_REFUSED_LINE_ENDING,       /* 400 bare CR or LF, folded header */
    HTTP1_REFUSED_HOST,              /* 400 missing, repeated or not a host */
    HTTP1_REFUSED_LENGTH,            /* 400 the body's length is ambiguous or not a number */
    HTTP1_REFUSED_CHUNK,             /* 400 broken chunked framing */
    HTTP1_REFUSED_BODY_TOO_LARGE,    /* 413 */
    HTTP1_REFUSED_LINE_TOO_LONG,     /* 414 */
    HTTP1_REFUSED_EXPECTATION,       /* 417 */
    HTTP1_REFUSED_HEAD_TOO_LARGE,    /* 431 bytes or number of headers */
    HTTP1_REFUSED_MEMORY,            /* 500 */
    HTTP1_REFUSED_METHOD,            /* 501 */
    HTTP1_REFUSED_TRANSFER_ENCODING, /* 501 codings before chunked */
    HTTP1_REFUSED_VERSION,           /* 505 */
    HTTP1_REFUSALS,
};

/* What a refusal means. Never NULL. */
uint16_t http1_refusal_status(enum http1_refusal refusal);
const char *http1_refusal_label(enum http1_refusal refusal);
const char *http1_refusal_text(enum http1_refusal refusal);
