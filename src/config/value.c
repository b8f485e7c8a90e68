#include "config/value.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"

struct unit {
    struct str name;
    int64_t factor;
};

/* Largest last. */
static const struct unit size_units[] = {
    {STR_INIT("B"), 1},
    {STR_INIT("KiB"), 1 << 10},
    {STR_INIT("MiB"), 1 << 20},
    {STR_INIT("GiB"), 1 << 30},
};

static const struct unit duration_units[] = {
    {STR_INIT("ms"), 1},
    {STR_INIT("s"), 1000},
    {STR_INIT("m"), 60 * 1000},
    {STR_INIT("h"), 3600 * 1000},
    {STR_INIT("d"), 24 * 3600 * 1000},
};

bool value_to_bool(struct str s, bool *out_value)
{
    bool is_true = str_equal(s, STR("true"));

    if (!is_true && !str_equal(s, STR("false")))
        return false;
    *out_value = is_true;
    return true;
}

bool value_to_number(struct str s, int64_t *out_value)
{
    bool is_negative = s.n && s.p[0] == '-';
    uint64_t magnitude;

    if (!str_to_u64(str_from_offset(s, is_negative), INT64_MAX, &magnitude))
        return false;
    *out_value = is_negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return true;
}

static bool with_unit(struct str s, const struct unit *units, size_t n_units, int64_t *out_value)
{
    size_t digits = 0;
    uint64_t number;
    struct str name;

    while (digits < s.n && s.p[digits] >= '0' && s.p[digits] <= '9')
        digits++;
    name = str_from_offset(s, digits);
    if (!str_to_u64((struct str){s.p, digits}, INT64_MAX, &number))
        return false;
    for (size_t i = 0; i < n_units; i++) {
        if (!str_equal(name, units[i].name))
            continue;
        if (number > (uint64_t)(INT64_MAX / units[i].factor))
            return false;
        *out_value = (int64_t)number * units[i].factor;
        return true;
    }
    return false;
}

bool value_to_size(struct str s, int64_t *out_bytes)
{
    uint64_t plain;

    if (str_to_u64(s, INT64_MAX, &plain)) {
        *out_bytes = (int64_t)plain;
        return true;
    }
    return with_unit(s, size_units, ARRAY_LEN(size_units), out_bytes);
}

bool value_to_duration(struct str s, int64_t *out_ms)
{
    if (str_equal(s, STR("0"))) {
        *out_ms = 0;
        return true;
    }
    return with_unit(s, duration_units, ARRAY_LEN(duration_units), out_ms);
}

bool value_is_loopback(struct str host)
{
    return str_starts_with(host, STR("127.")) || str_equal(host, STR("::1")) || str_equal(host, STR("localhost"));
}

static bool is_ipv6(struct str s)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr ignored;

    if (s.n >= sizeof text)
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    return inet_pton(AF_INET6, text, &ignored) == 1;
}

/* RFC 1123 names, which IPv4 addresses look like too; the resolver knows the rest. */
static bool is_host_name(struct str s)
{
    if (s.n == 0 || s.n > 253)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_'))
            return false;
    }
    return true;
}

bool value_to_address(struct str s, struct str *out_host, uint16_t *out_port)
{
    const char *colon = s.n ? memrchr(s.p, ':', s.n) : NULL;
    struct str host, port;
    uint64_t number;

    if (!colon)
        return false;
    host = (struct str){s.p, (size_t)(colon - s.p)};
    port = str_from_offset(s, host.n + 1);
    if (!str_to_u64(port, UINT16_MAX, &number))
        return false;
    if (host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']') {
        host = (struct str){host.p + 1, host.n - 2};
        if (!is_ipv6(host))
            return false;
    } else if (!is_host_name(host)) {
        return false;
    }
    *out_host = host;
    *out_port = (uint16_t)number;
    return true;
}

static const char *shortest(int64_t value, const struct unit *units, size_t n_units, char *out)
{
    size_t i = n_units - 1;

    while (i > 0 && value % units[i].factor != 0)
        i--;
    (void)snprintf(out, VALUE_TEXT_BYTES, "%" PRId64 "%.*s", value / units[i].factor,
                   STR_ARG(units[i].name)); /* 20 + 3 bytes fit */
    return out;
}

const char *value_size_text(int64_t bytes, char *buffer)
{
    if (bytes == 0)
        return "0";
    return shortest(bytes, size_units, ARRAY_LEN(size_units), buffer);
}

const char *value_duration_text(int64_t ms, char *buffer)
{
    if (ms == 0)
        return "0";
    return shortest(ms, duration_units, ARRAY_LEN(duration_units), buffer);
}
