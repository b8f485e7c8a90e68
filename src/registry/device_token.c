#include "registry/device_token.h"

#include <assert.h>
#include <string.h>

#include <cjose/cjose.h>
#include <jansson.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/base64.h"
#include "base/check.h"

enum {
    KEY_BYTES_MAX = 1 << 10, /* of one number of a key: RSA with 8,192 bits */
    RSA_BITS_MIN = 2048,
    CLAIMS_DEPTH_MAX = 16,
};

/* A key and the algorithms it may be used with. `curve` 0: RSA. */
static const struct algorithm {
    const char *name;
    cjose_jwk_ec_curve curve;
} algorithms[] = {
    {"RS256", 0},
    {"RS384", 0},
    {"RS512", 0},
    {"PS256", 0},
    {"PS384", 0},
    {"PS512", 0},
    {"ES256", CJOSE_JWK_EC_P_256},
    {"ES384", CJOSE_JWK_EC_P_384},
    {"ES512", CJOSE_JWK_EC_P_521},
};

static const struct {
    const char *group;
    cjose_jwk_ec_curve curve;
} curves[] = {
    {"prime256v1", CJOSE_JWK_EC_P_256},
    {"secp384r1", CJOSE_JWK_EC_P_384},
    {"secp521r1", CJOSE_JWK_EC_P_521},
};

/* Keys that nobody has the other half of. */
static const struct {
    cjose_jwk_ec_curve curve;
    const char *key; /* base64 */
} nobody[] = {
    {0, "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAnnV332boeeZ5DYoH83NbmdT0CyzsWaty4RnejfMic8XOO81xV5en8LIc"
        "S++FaWCuEax992Vl/Mwn2Gvwqa+o5Y6oMNJm+471FhWxQyz1dIbpQZGhelP7e12nuiic+ZyAZclIl2egseouN+R2C6RRqyOvw9cb"
        "JZEt0NdZXBL1oNIeYB8jCNxgn09NlnCqkCkO9fdGGQvE89iykrSZEmvJDjhOmMm83DGZNnDH7rkszCI3P6CwWDFBvTmFw/y8mxBQ"
        "Et/zXxemmfqD7DJj3uviS+V1S1vig3l33O0hYEaSA8vCLc0LG9g6L1Tg84Qje1sB38mxNMFA5hoKVKZGiWqmtQIDAQAB"},
    {CJOSE_JWK_EC_P_256, "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE4/zS4GjLC7mgKATL9DKTsE/JDI0aUI9GUYbPCZLA0qbvZ4dNv8nTiZFIoTI6Qb08"
                         "FyoaKwcmwevzKvFNg0n44g=="},
    {CJOSE_JWK_EC_P_384, "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEBNPH2GkRSELJeoIjijSUfDzKT+WMp++xH+NCHZA/XdFNvCZlk4vhZVo6AgQR0AYpg/nD"
                         "MP2cGJWkkTYOL2/nv603982SvpDsTDnL7b7JSP7ccs4F/DuxxKK7/EVO9lu+"},
    {CJOSE_JWK_EC_P_521, "MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQBa8bad0gebxrv5pM4JoM+9BFbc6YvvQmKi7zfyGPpkDVdDEY9/Hwpzjf/WbiRASTG"
                         "VIPqToVFpOGUDyeyiMrHk9UBXssPEnWQJ+bxPk5dJpRCZTPXFYsecUJMm+qB+F7nqPvcK3hcnCFUkbYOiSur3Px+dxZAvagaiYIs"
                         "O+/ZR/hwym0="},
};

static const char *const result_names[] = {
    [DEVICE_TOKEN_OK] = "ok",
    [DEVICE_TOKEN_MALFORMED] = "malformed",
    [DEVICE_TOKEN_ALGORITHM] = "algorithm",
    [DEVICE_TOKEN_CLAIMS] = "claims",
    [DEVICE_TOKEN_NAMES] = "names",
    [DEVICE_TOKEN_EARLY] = "early",
    [DEVICE_TOKEN_EXPIRED] = "expired",
    [DEVICE_TOKEN_KEY] = "key",
    [DEVICE_TOKEN_SIGNATURE] = "signature",
};
static_assert(ARRAY_LEN(result_names) == DEVICE_TOKEN_RESULTS, "every result has a name");

static bool is_base64url(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool device_token_is_one(struct str password)
{
    unsigned n_dots = 0;
    size_t part_bytes = 0;

    if (password.n > DEVICE_TOKEN_BYTES_MAX)
        return false;
    for (size_t i = 0; i < password.n; i++) {
        if (is_base64url(password.p[i])) {
            part_bytes++;
        } else if (password.p[i] == '.' && part_bytes > 0) {
            n_dots++;
            part_bytes = 0;
        } else {
            return false;
        }
    }
    return n_dots == 2 && part_bytes > 0;
}

/* ---- reading ---- */

const char *device_token_find_algorithm(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(algorithms); i++)
        if (str_equal(str_from(algorithms[i].name), name))
            return algorithms[i].name;
    return NULL;
}

static const char *find_algorithm(const char *name)
{
    return name ? device_token_find_algorithm(str_from(name)) : NULL;
}

static enum device_token_result read_header(cjose_jws_t *jws, struct device_token *out)
{
    cjose_header_t *header = cjose_jws_get_protected(jws);
    const char *type = header ? cjose_header_get(header, "typ", NULL) : NULL;
    char *critical = header ? cjose_header_get_raw(header, "crit", NULL) : NULL;
    bool is_critical = critical;

    cjose_get_dealloc()(critical);
    out->algorithm = header ? find_algorithm(cjose_header_get(header, CJOSE_HDR_ALG, NULL)) : NULL;
    /* RFC 7519 section 5.1: the value of `typ` has no case. RFC 7515 section 4.1.11: what is critical must be understood. */
    if (!out->algorithm || !type || !str_equal_nocase(str_from(type), STR("jwt")) || is_critical)
        return DEVICE_TOKEN_ALGORITHM;
    return DEVICE_TOKEN_OK;
}

/* A NumericDate (RFC 7519 section 2), which may have a fraction. Bounded, so that sums of times cannot overflow. */
static bool read_date(const json_t *claims, const char *name, int64_t *out_s)
{
    const json_t *date = json_object_get(claims, name);
    double value = json_is_number(date) ? json_number_value(date) : -1;

    if (!(value >= 0 && value < 1e15))
        return false;
    *out_s = (int64_t)value;
    return true;
}

static enum device_token_result read_times(const json_t *claims, struct device_token *out)
{
    if (!read_date(claims, "iat", &out->issued_at_s) || !read_date(claims, "exp", &out->expires_at_s))
        return DEVICE_TOKEN_CLAIMS;
    if (json_object_get(claims, "nbf") && !read_date(claims, "nbf", &out->not_before_s))
        return DEVICE_TOKEN_CLAIMS;
    if (out->expires_at_s <= out->issued_at_s ||
        out->expires_at_s - out->issued_at_s > DEVICE_TOKEN_LIFE_S + DEVICE_TOKEN_SKEW_S)
        return DEVICE_TOKEN_CLAIMS;
    return DEVICE_TOKEN_OK;
}

static bool is_for_us(const json_t *audience)
{
    static const char us[] = "hono-adapter";
    const json_t *one;
    size_t i;

    if (json_is_string(audience))
        return strcmp(json_string_value(audience), us) == 0;
    json_array_foreach(audience, i, one) if (json_is_string(one) && strcmp(json_string_value(one), us) == 0) return true;
    return false;
}

static bool keep_name(char to[DEVICE_TOKEN_NAME_BYTES], struct str name)
{
    if (name.n == 0 || name.n >= DEVICE_TOKEN_NAME_BYTES || memchr(name.p, '\0', name.n))
        return false;
    memcpy(to, name.p, name.n);
    to[name.n] = '\0';
    return true;
}

static struct str text_of(const json_t *value)
{
    return json_is_string(value) ? (struct str){json_string_value(value), json_string_length(value)} : (struct str){0};
}

static enum device_token_result read_claims(const json_t *claims, struct str tenant, struct str auth_id,
                                            struct device_token *out)
{
    enum device_token_result result = json_is_object(claims) ? read_times(claims, out) : DEVICE_TOKEN_MALFORMED;

    if (result != DEVICE_TOKEN_OK)
        return result;
    if (is_for_us(json_object_get(claims, "aud"))) {
        tenant = text_of(json_object_get(claims, "tid"));
        auth_id = text_of(json_object_get(claims, "sub"));
    }
    return keep_name(out->tenant, tenant) && keep_name(out->auth_id, auth_id) ? DEVICE_TOKEN_OK : DEVICE_TOKEN_NAMES;
}

/* jansson takes any depth up to a bound of its own that costs stack; claims have hardly any. */
static bool is_shallow(struct str text)
{
    unsigned depth = 0;
    bool is_in_string = false;

    for (size_t i = 0; i < text.n; i++) {
        if (is_in_string && text.p[i] == '\\')
            i++;
        else if (text.p[i] == '"')
            is_in_string = !is_in_string;
        else if (!is_in_string && (text.p[i] == '{' || text.p[i] == '[') && ++depth > CLAIMS_DEPTH_MAX)
            return false;
        else if (!is_in_string && (text.p[i] == '}' || text.p[i] == ']') && depth > 0)
            depth--;
    }
    return true;
}

enum device_token_result device_token_read(struct str text, struct str tenant, struct str auth_id,
                                           struct device_token *out_token)
{
    enum device_token_result result = DEVICE_TOKEN_MALFORMED;
    cjose_jws_t *jws = device_token_is_one(text) ? cjose_jws_import(text.p, text.n, NULL) : NULL;
    uint8_t *payload = NULL;
    size_t n = 0;
    json_t *claims;

    *out_token = (struct device_token){.text = text};
    if (!jws)
        return result;
    result = read_header(jws, out_token);
    if (result == DEVICE_TOKEN_OK) {
        bool has_payload =
            cjose_jws_get_plaintext(jws, &payload, &n, NULL) && is_shallow((struct str){(const char *)payload, n});

        claims = has_payload ? json_loadb((const char *)payload, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
        result = claims ? read_claims(claims, tenant, auth_id, out_token) : DEVICE_TOKEN_MALFORMED;
        json_decref(claims);
    }
    cjose_jws_release(jws);
    return result;
}

void device_token_names_of_client(struct str client_id, struct str *out_tenant, struct str *out_auth_id)
{
    const char *last = client_id.p ? memrchr(client_id.p, '/', client_id.n) : NULL;
    const char *middle = last ? memrchr(client_id.p, '/', (size_t)(last - client_id.p)) : NULL;
    const char *first = middle ? memrchr(client_id.p, '/', (size_t)(middle - client_id.p)) : NULL;
    const char *tenant = first ? first + 1 : client_id.p;

    *out_tenant = *out_auth_id = (struct str){0};
    if (!middle)
        return;
    *out_tenant = (struct str){tenant, (size_t)(middle - tenant)};
    *out_auth_id = str_from_offset(client_id, (size_t)(last + 1 - client_id.p));
}

enum device_token_result device_token_check_time(const struct device_token *token, int64_t now_s)
{
    if (token->issued_at_s > now_s + DEVICE_TOKEN_SKEW_S || token->not_before_s > now_s + DEVICE_TOKEN_SKEW_S)
        return DEVICE_TOKEN_EARLY;
    return token->expires_at_s + DEVICE_TOKEN_SKEW_S <= now_s ? DEVICE_TOKEN_EXPIRED : DEVICE_TOKEN_OK;
}

/* ---- verifying ---- */

/* A number of the key as big-endian bytes; 0 when it is not there or too large. */
static size_t key_number(const EVP_PKEY *key, const char *name, uint8_t to[KEY_BYTES_MAX])
{
    BIGNUM *number = NULL;
    size_t n = 0;

    if (EVP_PKEY_get_bn_param(key, name, &number) == 1 && BN_num_bytes(number) <= KEY_BYTES_MAX)
        n = (size_t)BN_bn2bin(number, to);
    BN_free(number);
    return n;
}

static cjose_jwk_t *rsa_key(const EVP_PKEY *key)
{
    uint8_t n[KEY_BYTES_MAX], e[KEY_BYTES_MAX];
    cjose_jwk_rsa_keyspec spec = {.n = n, .e = e};

    if (EVP_PKEY_get_base_id(key) != EVP_PKEY_RSA || EVP_PKEY_get_bits(key) < RSA_BITS_MIN)
        return NULL;
    spec.nlen = key_number(key, OSSL_PKEY_PARAM_RSA_N, n);
    spec.elen = key_number(key, OSSL_PKEY_PARAM_RSA_E, e);
    return spec.nlen && spec.elen ? cjose_jwk_create_RSA_spec(&spec, NULL) : NULL;
}

static cjose_jwk_t *ec_key(const EVP_PKEY *key, cjose_jwk_ec_curve curve)
{
    uint8_t x[KEY_BYTES_MAX], y[KEY_BYTES_MAX];
    cjose_jwk_ec_keyspec spec = {.crv = CJOSE_JWK_EC_INVALID, .x = x, .y = y};
    char group[32];

    if (EVP_PKEY_get_base_id(key) != EVP_PKEY_EC || EVP_PKEY_get_group_name(key, group, sizeof group, NULL) != 1)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(curves); i++)
        if (strcmp(curves[i].group, group) == 0)
            spec.crv = curves[i].curve;
    spec.xlen = key_number(key, OSSL_PKEY_PARAM_EC_PUB_X, x);
    spec.ylen = key_number(key, OSSL_PKEY_PARAM_EC_PUB_Y, y);
    return spec.crv == curve && spec.xlen && spec.ylen ? cjose_jwk_create_EC_spec(&spec, NULL) : NULL;
}

static cjose_jwk_ec_curve curve_of(const char *algorithm)
{
    for (size_t i = 0; i < ARRAY_LEN(algorithms); i++)
        if (algorithms[i].name == algorithm)
            return algorithms[i].curve;
    return CJOSE_JWK_EC_INVALID;
}

static cjose_jwk_t *key_for(const char *algorithm, struct str der)
{
    const unsigned char *p = (const unsigned char *)der.p;
    EVP_PKEY *key = d2i_PUBKEY(NULL, &p, (long)der.n);
    cjose_jwk_ec_curve curve = curve_of(algorithm);
    cjose_jwk_t *jwk = NULL;

    if (key && p == (const unsigned char *)der.p + der.n)
        jwk = curve ? ec_key(key, curve) : rsa_key(key);
    EVP_PKEY_free(key);
    return jwk;
}

enum device_token_result device_token_verify(const struct device_token *token, struct str key)
{
    cjose_jwk_t *jwk = key_for(token->algorithm, key);
    cjose_jws_t *jws = jwk ? cjose_jws_import(token->text.p, token->text.n, NULL) : NULL;
    bool is_signed = jws && cjose_jws_verify(jws, jwk, NULL);
    enum device_token_result result = !jwk ? DEVICE_TOKEN_KEY : is_signed ? DEVICE_TOKEN_OK : DEVICE_TOKEN_SIGNATURE;

    cjose_jws_release(jws);
    cjose_jwk_release(jwk);
    return result;
}

void device_token_verify_nobody(const struct device_token *token)
{
    char der[512];
    size_t n;
    enum device_token_result result = DEVICE_TOKEN_KEY;

    for (size_t i = 0; i < ARRAY_LEN(nobody); i++)
        if (nobody[i].curve == curve_of(token->algorithm) && base64_decode(str_from(nobody[i].key), der, &n))
            result = device_token_verify(token, (struct str){der, n});
    ASSERT(result != DEVICE_TOKEN_OK);
}

const char *device_token_result_name(enum device_token_result result)
{
    ASSERT((unsigned)result < DEVICE_TOKEN_RESULTS);
    return result_names[result];
}
