#include "authority/issued_token.h"

#include <string.h>

#include "base/base64.h"
#include "base/check.h"
#include "registry/document.h"

/* One of the parts of a compact JWS: base64url of a JSON object. The caller owns it; NULL: it is none. */
static json_t *decode_part(struct str part)
{
    char text[BASE64_DECODED_BYTES(DEVICE_TOKEN_BYTES_MAX)];
    struct document_fault fault = {0};
    json_t *value = NULL;
    size_t n;

    if (!base64_decode_url(part, text, &n) || document_parse((struct str){text, n}, false, &value, &fault) != E_OK)
        return NULL;
    if (json_is_object(value))
        return value;
    json_decref(value);
    return NULL;
}

/* RFC 7519 section 5.1, RFC 9068 section 2.1: providers write either, or nothing. RFC 7515 section 4.1.11: what is critical must be understood. */
static bool read_header(const json_t *header, struct issued_token *out)
{
    const json_t *type = json_object_get(header, "typ");
    struct str name = document_text(type), kid = document_get_text(header, "kid");

    out->signature.algorithm = device_token_find_algorithm(document_get_text(header, "alg"));
    if (!out->signature.algorithm || json_object_get(header, "crit") || kid.n > sizeof out->kid)
        return false;
    if (kid.n)
        memcpy(out->kid, kid.p, kid.n);
    out->kid_n = (uint16_t)kid.n;
    return !type || str_equal_nocase(name, STR("jwt")) || str_equal_nocase(name, STR("at+jwt"));
}

static bool names_us(const json_t *audience, const struct config_strings *us)
{
    size_t n = json_is_array(audience) ? json_array_size(audience) : 1;

    for (size_t i = 0; i < n; i++) {
        struct str one = document_text(json_is_array(audience) ? json_array_get(audience, i) : audience);

        for (size_t k = 0; one.p && k < us->count; k++)
            if (str_equal(one, us->items[k]))
                return true;
    }
    return false;
}

/* A NumericDate (RFC 7519 section 2), which may have a fraction; absent: 0. Bounded, so that sums of times cannot overflow. */
static bool read_date(const json_t *claims, const char *name, int64_t *out_s)
{
    const json_t *date = json_object_get(claims, name);
    double value = json_is_number(date) ? json_number_value(date) : -1;

    *out_s = 0;
    if (!date)
        return true;
    if (!(value >= 0 && value < 1e15))
        return false;
    *out_s = (int64_t)value;
    return true;
}

static bool read_times(const json_t *claims, struct issued_token *out)
{
    int64_t issued_s;

    if (!read_date(claims, "exp", &out->who.expires_at_s) || !read_date(claims, "nbf", &out->from_s) ||
        !read_date(claims, "iat", &issued_s))
        return false;
    if (issued_s > out->from_s)
        out->from_s = issued_s;
    return out->who.expires_at_s > 0;
}

/* A claim by its name; by the names of those around it, each behind a slash; NULL: it is not there. */
static const json_t *find_claim(const json_t *claims, struct str path)
{
    const json_t *at = claims;
    bool more = true;

    if (!path.n || path.p[0] != '/')
        return json_object_getn(claims, path.p, path.n);
    path = str_from_offset(path, 1);
    while (at && more) {
        struct str name = str_take(&path, '/', &more);

        at = json_object_getn(at, name.p, name.n);
    }
    return at;
}

static bool keep_name(struct str name, char to[SCHEMA_MAX_ID_BYTES], uint16_t *out_n)
{
    if (name.n == 0 || name.n > SCHEMA_MAX_ID_BYTES)
        return false;
    memcpy(to, name.p, name.n);
    *out_n = (uint16_t)name.n;
    return true;
}

static bool read_names(const json_t *claims, const struct config_jwks *config, struct authority_answer *out)
{
    struct str tenant = config->tenant.n ? config->tenant : document_text(find_claim(claims, config->tenant_claim));
    struct str device = document_text(find_claim(claims, config->device_claim));

    return keep_name(tenant, out->tenant, &out->tenant_n) && keep_name(device, out->device, &out->device_n);
}

enum issued_token_result issued_token_read(struct str text, const struct config_jwks *config, struct issued_token *out)
{
    enum issued_token_result result = ISSUED_TOKEN_FOREIGN;
    struct str rest = text, head, body;
    json_t *header, *claims;
    bool more;

    *out = (struct issued_token){.signature = {.text = text}};
    if (!device_token_is_one(text))
        return ISSUED_TOKEN_FOREIGN;
    head = str_take(&rest, '.', &more);
    body = str_take(&rest, '.', &more);
    claims = decode_part(body);
    header = claims ? decode_part(head) : NULL;
    if (header && str_equal(document_get_text(claims, "iss"), config->issuer)) {
        bool is_good = read_header(header, out) && names_us(json_object_get(claims, "aud"), &config->audience) &&
                       read_times(claims, out) && read_names(claims, config, &out->who);

        result = is_good ? ISSUED_TOKEN_OK : ISSUED_TOKEN_BAD;
    }
    json_decref(header);
    json_decref(claims);
    return result;
}

bool issued_token_holds(const struct issued_token *token, int64_t now_s)
{
    return token->from_s <= now_s + ISSUED_TOKEN_SKEW_S && token->who.expires_at_s + ISSUED_TOKEN_SKEW_S > now_s;
}
