#include "proto/http1/http_message.h"

#include "base/check.h"

struct str http_message_header(const struct http_request *r, struct str name)
{
    for (size_t i = 0; i < r->n_headers; i++)
        if (r->headers[i].name.n == name.n && str_equal_nocase(r->headers[i].name, name))
            return r->headers[i].value;
    return (struct str){0};
}

static const char *const method_names[HTTP_METHODS] = {
    [HTTP_METHOD_OTHER] = "OTHER", [HTTP_METHOD_GET] = "GET",         [HTTP_METHOD_HEAD] = "HEAD",
    [HTTP_METHOD_POST] = "POST",   [HTTP_METHOD_PUT] = "PUT",         [HTTP_METHOD_DELETE] = "DELETE",
    [HTTP_METHOD_PATCH] = "PATCH", [HTTP_METHOD_OPTIONS] = "OPTIONS",
};

const char *http_message_method_name(enum http_method method)
{
    return method_names[method];
}

static const struct {
    uint16_t status;
    const char *reason;
} reasons[] = {
    {200, "OK"},
    {100, "Continue"},
    {101, "Switching Protocols"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {207, "Multi-Status"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
    {508, "Loop Detected"},
};

const char *http_message_reason(uint16_t status)
{
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}
