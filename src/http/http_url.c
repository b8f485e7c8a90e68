#include "http/http_url.h"

enum { HTTP_PORT = 80, HTTPS_PORT = 443, HOST_MAX = 253 };

static bool is_host_char(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '-' || c == '.' || c == '_';
}

static err parse_host(struct str text, struct http_url *out, struct errinfo *ei)
{
    bool is_v6 = text.n > 2 && text.p[0] == '[' && text.p[text.n - 1] == ']';

    out->host = is_v6 ? (struct str){text.p + 1, text.n - 2} : text;
    if (out->host.n == 0 || out->host.n > HOST_MAX)
        return errinfo_set(ei, E_INVAL, "has no host");
    for (size_t i = 0; i < out->host.n; i++) {
        unsigned char c = (unsigned char)out->host.p[i];

        if (!is_host_char(c) && !(is_v6 && c == ':'))
            return errinfo_set(ei, E_INVAL, "'%.*s' is no host", STR_ARG(text));
    }
    return E_OK;
}

static bool has_scheme(struct str text, struct str scheme)
{
    return text.n >= scheme.n && str_equal_nocase((struct str){text.p, scheme.n}, scheme);
}

err http_url_parse(struct str text, struct http_url *out_url, struct errinfo *ei)
{
    static const struct str plain = STR_INIT("http://"), secure = STR_INIT("https://");
    bool is_https = has_scheme(text, secure);
    struct http_url url = {.port = is_https ? HTTPS_PORT : HTTP_PORT, .is_https = is_https, .target = STR("/")};
    struct str rest, host;
    const char *colon;
    uint64_t port;
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.p[i] <= ' ' || (unsigned char)text.p[i] >= 0x7f || text.p[i] == '#')
            return errinfo_set(ei, E_INVAL, "has a character that no URL of a request may have");
    if (!is_https && !has_scheme(text, plain))
        return errinfo_set(ei, E_INVAL, "does not begin with http:// or https://");
    rest = str_from_offset(text, is_https ? secure.n : plain.n);
    while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?')
        n++;
    url.authority = host = (struct str){rest.p, n};
    if (n < rest.n)
        url.target = str_from_offset(rest, n);
    if (url.target.p[0] == '?')
        return errinfo_set(ei, E_INVAL, "has no path before the '?'");
    colon = host.n && host.p[host.n - 1] != ']' ? memrchr(host.p, ':', host.n) : NULL;
    if (colon) {
        host.n = (size_t)(colon - host.p);
        if (!str_to_u64(str_from_offset(url.authority, host.n + 1), UINT16_MAX, &port) || port == 0)
            return errinfo_set(ei, E_INVAL, "has no port behind the ':'");
        url.port = (uint16_t)port;
    }
    if (parse_host(host, &url, ei) != E_OK)
        return E_INVAL;
    *out_url = url;
    return E_OK;
}
