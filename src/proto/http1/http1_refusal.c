#include "proto/http1/http1_refusal.h"

static const struct {
    uint16_t status;
    const char *label;
    const char *text;
} refusals[HTTP1_REFUSALS] = {
    [HTTP1_REFUSED_NOT] = {200, "none", "not refused"},
    [HTTP1_REFUSED_SYNTAX] = {400, "syntax", "malformed request"},
    [HTTP1_REFUSED_LINE_ENDING] = {400, "line_ending", "lines must end with CRLF and headers must not be folded"},
    [HTTP1_REFUSED_HOST] = {400, "host", "exactly one valid Host header is required"},
    [HTTP1_REFUSED_LENGTH] = {400, "length", "the length of the body is ambiguous or invalid"},
    [HTTP1_REFUSED_CHUNK] = {400, "chunk", "malformed chunked body"},
    [HTTP1_REFUSED_BODY_TOO_LARGE] = {413, "body_too_large", "the body is too large"},
    [HTTP1_REFUSED_LINE_TOO_LONG] = {414, "line_too_long", "the request line is too long"},
    [HTTP1_REFUSED_EXPECTATION] = {417, "expectation", "the only expectation supported is 100-continue"},
    [HTTP1_REFUSED_HEAD_TOO_LARGE] = {431, "head_too_large", "too many or too large headers"},
    [HTTP1_REFUSED_MEMORY] = {500, "memory", "out of memory"},
    [HTTP1_REFUSED_METHOD] = {501, "method", "unknown method"},
    [HTTP1_REFUSED_TRANSFER_ENCODING] = {501, "transfer_encoding", "the only transfer coding supported is chunked"},
    [HTTP1_REFUSED_VERSION] = {505, "version", "the HTTP version is not supported"},
};

uint16_t http1_refusal_status(enum http1_refusal refusal)
{
    return refusals[refusal].status;
}

const char *http1_refusal_label(enum http1_refusal refusal)
{
    return refusals[refusal].label;
}

const char *http1_refusal_text(enum http1_refusal refusal)
{
    return refusals[refusal].text;
}
