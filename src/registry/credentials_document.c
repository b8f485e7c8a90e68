#include "registry/credentials_document.h"

#include <string.h>
#include <sys/random.h>

#include <openssl/evp.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/moment.h"
#include "registry/certificate.h"
#include "registry/secret_hash.h"
#include "registry/uuid.h"

enum {
    SHA_256_BYTES = 32,
    SHA_512_BYTES = 64,
    MAX_AUTH_ID_BYTES = 256,
    SCRAM_ITERATIONS = 4096, /* what RFC 7677 asks for at least, and what clients compute at each log-in */
    SCRAM_ITERATIONS_MAX = 1000000,
    SCRAM_SALT_BYTES = 16,
};

static const char *const hash_functions[] = {"sha-256", "sha-512", "bcrypt", "mosquitto", NULL};
static const char *const algorithms[] = {"RSA", "EC", NULL};

#define COMMON_SECRET                                                                                                          \
    {"id",                                                                                                                     \
     SCHEMA_TEXT,                                                                                                              \
     0,                                                                                                                        \
     SCHEMA_DEVICE_ID,                                                                                                         \
     1,                                                                                                                        \
     SCHEMA_MAX_ID_BYTES,                                                                                                      \
     .help = "Given by the registry. A secret that names one and brings nothing else keeps what is stored."},                  \
        {"enabled", SCHEMA_BOOL, .help = "If false, it opens nothing. The default is true."},                                  \
        {"not-before", SCHEMA_TEXT, 0, SCHEMA_TIME, 1, 64, .help = "Before that it opens nothing."},                           \
        {"not-after", SCHEMA_TEXT, 0, SCHEMA_TIME, 1, 64, .help = "After that it opens nothing."},                             \
    {                                                                                                                          \
        "comment", SCHEMA_TEXT, .help = "For people."                                                                          \
    }

static const struct schema_member password_secret_members[] = {
    COMMON_SECRET,
    {"pwd-plain", SCHEMA_TEXT, SCHEMA_WRITE_ONLY, .max = SECRET_HASH_PASSWORD_MAX,
     .help = "The password; only its bcrypt hash is kept."},
    {"hash-function", SCHEMA_TEXT, SCHEMA_WRITE_ONLY, .choices = hash_functions,
     .help = "Of pwd-hash. The default is sha-256."},
    {"salt", SCHEMA_TEXT, SCHEMA_WRITE_ONLY, SCHEMA_BASE64, .max = 256, .help = "Of pwd-hash; not with bcrypt and mosquitto."},
    {"pwd-hash", SCHEMA_TEXT, SCHEMA_WRITE_ONLY, .max = SECRET_HASH_TEXT_BYTES - 1,
     .help = "Base64 of the hash of salt and password; with bcrypt the text that begins with $2a$, with mosquitto what a "
             "password file has behind the name."},
};
static const struct schema_member psk_secret_members[] = {
    COMMON_SECRET,
    {"key", SCHEMA_TEXT, SCHEMA_WRITE_ONLY, SCHEMA_BASE64, .max = 512, .help = "The pre-shared key."},
};
static const struct schema_member x509_secret_members[] = {COMMON_SECRET};
static const struct schema_member rpk_secret_members[] = {
    COMMON_SECRET,
    {"algorithm", SCHEMA_TEXT, .choices = algorithms, .help = "Of the key. The default is RSA."},
    {"key", SCHEMA_TEXT, 0, SCHEMA_BASE64, .max = CERTIFICATE_KEY_BYTES, .help = "The public key, DER in base64."},
    {"cert", SCHEMA_TEXT, SCHEMA_WRITE_ONLY, SCHEMA_BASE64, .max = SCHEMA_MAX_TEXT_BYTES,
     .help = "A certificate from which the key and the validity are taken."},
};
static const struct schema_member scram_secret_members[] = {
    COMMON_SECRET,
    {"pwd-plain", SCHEMA_TEXT, SCHEMA_WRITE_ONLY, .max = SECRET_HASH_PASSWORD_MAX,
     .help = "The password; only keys made of it are kept."},
    {"salt", SCHEMA_TEXT, SCHEMA_WRITE_ONLY, SCHEMA_BASE64, .max = 256, .help = "Of the keys."},
    {"iterations", SCHEMA_INTEGER, SCHEMA_WRITE_ONLY, .min = SCRAM_ITERATIONS, .max = SCRAM_ITERATIONS_MAX,
     .help = "Of the keys."},
    {"stored-key", SCHEMA_TEXT, SCHEMA_WRITE_ONLY, SCHEMA_BASE64, .max = 64, .help = "StoredKey of RFC 5802, base64."},
    {"server-key", SCHEMA_TEXT, SCHEMA_WRITE_ONLY, SCHEMA_BASE64, .max = 64, .help = "ServerKey of RFC 5802, base64."},
};

#define SECRETS(name, members) static const struct schema name = {#name, members, ARRAY_LEN(members)}
SECRETS(PasswordSecret, password_secret_members);
SECRETS(PSKSecret, psk_secret_members);
SECRETS(X509CertificateSecret, x509_secret_members);
SECRETS(RPKSecret, rpk_secret_members);
SECRETS(ScramSecret, scram_secret_members);

#define COMMON_CREDENTIALS(secret)                                                                                             \
    {"enabled", SCHEMA_BOOL, .help = "If false, none of its secrets opens anything. The default is true."},                    \
        {"ext", SCHEMA_FREE, .help = "Anything."},                                                                             \
    {                                                                                                                          \
        "secrets", SCHEMA_LIST, SCHEMA_REQUIRED, .min = 1, .max = CREDENTIALS_MAX_SECRETS, .of = &(secret),                    \
                                                 .help = "Any of them that is valid opens."                                    \
    }

#define ACCOUNT(list, value, secret)                                                                                           \
    static const char *const list##_types[] = {value, NULL};                                                                   \
    static const struct schema_member list##_members[] = {                                                                     \
        {"type", SCHEMA_TEXT, SCHEMA_REQUIRED, .choices = list##_types, .help = "The kind of credentials."},                   \
        {"auth-id", SCHEMA_TEXT, SCHEMA_REQUIRED, SCHEMA_DEVICE_ID, 1, MAX_AUTH_ID_BYTES,                                      \
         .help = "The name it logs in with."},                                                                                 \
        COMMON_CREDENTIALS(secret),                                                                                            \
    }

ACCOUNT(password, "hashed-password", PasswordSecret);
ACCOUNT(psk, "psk", PSKSecret);
ACCOUNT(rpk, "rpk", RPKSecret);
ACCOUNT(scram, "scram-sha-256", ScramSecret);

static const char *const x509_types[] = {"x509-cert", NULL};
static const struct schema_member x509_members[] = {
    {"type", SCHEMA_TEXT, SCHEMA_REQUIRED, .choices = x509_types, .help = "The kind of credentials."},
    {"auth-id", SCHEMA_TEXT, .min = 1, .max = DN_BYTES,
     .help = "The subject of the certificate (RFC 2253), or what the CA's auth-id-template makes of it."},
    {"cert", SCHEMA_TEXT, SCHEMA_WRITE_ONLY, SCHEMA_BASE64, 1, SCHEMA_MAX_TEXT_BYTES,
     .help = "The certificate, DER in base64, instead of auth-id."},
    COMMON_CREDENTIALS(X509CertificateSecret),
};

static const struct {
    const char *name;
    struct schema schema;
} types[CREDENTIALS_TYPES] = {
    [CREDENTIALS_PASSWORD] = {"hashed-password", {"PasswordCredentials", password_members, ARRAY_LEN(password_members)}},
    [CREDENTIALS_PSK] = {"psk", {"PSKCredentials", psk_members, ARRAY_LEN(psk_members)}},
    [CREDENTIALS_X509] = {"x509-cert", {"X509CertificateCredentials", x509_members, ARRAY_LEN(x509_members)}},
    [CREDENTIALS_RPK] = {"rpk", {"RPKCredentials", rpk_members, ARRAY_LEN(rpk_members)}},
    [CREDENTIALS_SCRAM] = {"scram-sha-256", {"ScramCredentials", scram_members, ARRAY_LEN(scram_members)}},
};

const char *credentials_document_type_name(enum credentials_type type)
{
    return types[type].name;
}

const struct schema *credentials_document_schema(enum credentials_type type)
{
    return &types[type].schema;
}

enum credentials_type credentials_document_find_type(struct str name)
{
    int i = 0;

    while (i < CREDENTIALS_TYPES && !str_equal(name, str_from(types[i].name)))
        i++;
    return (enum credentials_type)i;
}

/* --- rules for the secrets of each type; true in `*out_has_material` when they bring more than an id --- */

typedef err (*secret_rule)(json_t *secret, unsigned max_cost, const struct document_place *place, struct document_fault *fault,
                           bool *out_has_material);

/* Whether a member is there and not an empty text; those that Hono's clients send empty are removed. */
static bool has(json_t *secret, const char *name)
{
    if (document_get_text(secret, name).n || json_is_integer(json_object_get(secret, name)))
        return true;
    (void)json_object_del(secret, name); /* or there is none */
    return false;
}

static err check_bcrypt(struct str text, unsigned max_cost, const struct document_place *hash, struct document_fault *fault)
{
    unsigned cost;

    if (secret_hash_bcrypt_cost(text, &cost) != E_OK)
        return document_refuse(fault, 400, hash, "must be a bcrypt hash that begins with $2a$");
    return cost > max_cost ? document_refuse(fault, 400, hash, "has the cost %u, at most %u", cost, max_cost) : E_OK;
}

static err check_mosquitto(struct str text, const struct document_place *hash, struct document_fault *fault)
{
    err e = secret_hash_check_mosquitto(text);

    if (e == E_LIMIT)
        return document_refuse(fault, 400, hash, "has more than %d iterations", SECRET_HASH_ITERATIONS_MAX);
    return e == E_OK
               ? E_OK
               : document_refuse(fault, 400, hash, "must be $6$ or $7$ with a salt and a hash, as mosquitto_passwd writes it");
}

static err check_hash(json_t *secret, enum secret_hash_function function, unsigned max_cost, const struct document_place *place,
                      struct document_fault *fault)
{
    struct document_place hash = document_member(place, "pwd-hash"), salt = document_member(place, "salt");
    struct str text = document_get_text(secret, "pwd-hash");
    char decoded[BASE64_DECODED_BYTES(SECRET_HASH_TEXT_BYTES)];
    size_t n;

    if (function >= SECRET_HASH_BCRYPT && has(secret, "salt"))
        return document_refuse(fault, 400, &salt, "has no use with %s, whose hash has it", secret_hash_name(function));
    if (function == SECRET_HASH_BCRYPT)
        return check_bcrypt(text, max_cost, &hash, fault);
    if (function == SECRET_HASH_MOSQUITTO)
        return check_mosquitto(text, &hash, fault);
    if (!base64_decode(text, decoded, &n) || n != (function == SECRET_HASH_SHA_256 ? SHA_256_BYTES : SHA_512_BYTES))
        return document_refuse(fault, 400, &hash, "must be the base64 of a %s hash", secret_hash_name(function));
    return E_OK;
}

static err check_password(json_t *secret, unsigned max_cost, const struct document_place *place, struct document_fault *fault,
                          bool *out_has_material)
{
    struct document_place hash = document_member(place, "pwd-hash");
    bool has_function = has(secret, "hash-function"), has_salt = has(secret, "salt"), has_hash = has(secret, "pwd-hash");

    *out_has_material = true;
    if (has(secret, "pwd-plain")) { /* counts, and what a client computed beside it does not */
        (void)json_object_del(secret, "hash-function");
        (void)json_object_del(secret, "salt");
        (void)json_object_del(secret, "pwd-hash");
        return E_OK;
    }
    *out_has_material = has_hash;
    if (!has_hash && (has_function || has_salt))
        return document_refuse(fault, 400, &hash, "is missing");
    if (!has_hash)
        return E_OK;
    if (!has_function)
        document_set_text(secret, "hash-function", STR("sha-256"));
    return check_hash(secret, secret_hash_find(document_get_text(secret, "hash-function")), max_cost, place, fault);
}

static err check_psk(json_t *secret, unsigned max_cost, const struct document_place *place, struct document_fault *fault,
                     bool *out_has_material)
{
    (void)max_cost;
    (void)place;
    (void)fault;
    *out_has_material = has(secret, "key");
    return E_OK;
}

static err check_x509(json_t *secret, unsigned max_cost, const struct document_place *place, struct document_fault *fault,
                      bool *out_has_material)
{
    (void)max_cost;
    (void)place;
    (void)fault;
    *out_has_material = !json_object_get(secret, "id"); /* there is nothing to bring */
    return E_OK;
}

static void set_time(json_t *object, const char *name, int64_t ms)
{
    char text[MOMENT_BYTES];

    if (!json_object_get(object, name))
        document_set_text(object, name, (struct str){text, moment_format(ms, text)});
}

static err check_rpk(json_t *secret, unsigned max_cost, const struct document_place *place, struct document_fault *fault,
                     bool *out_has_material)
{
    struct document_place key = document_member(place, "key"), algorithm = document_member(place, "algorithm"),
                          cert = document_member(place, "cert");
    struct certificate read;
    const char *is = NULL;

    (void)max_cost;
    *out_has_material = true;
    if (has(secret, "cert")) {
        if (has(secret, "key"))
            return document_refuse(fault, 400, &key, "and cert exclude each other");
        if (certificate_read(document_get_text(secret, "cert"), &read) != E_OK || !read.algorithm)
            return document_refuse(fault, 400, &cert, "is not an X.509 certificate with a key of RSA or EC");
        (void)json_object_del(secret, "cert"); /* it is there */
        document_set_text(secret, "key", (struct str){read.key, read.key_n});
        document_set_text(secret, "algorithm", str_from(read.algorithm));
        set_time(secret, "not-before", read.not_before_ms);
        set_time(secret, "not-after", read.not_after_ms);
        return E_OK;
    }
    if (!has(secret, "key")) {
        *out_has_material = false;
        return E_OK;
    }
    if (!json_object_get(secret, "algorithm"))
        document_set_text(secret, "algorithm", STR("RSA"));
    if (certificate_read_key(document_get_text(secret, "key"), &is) != E_OK)
        return document_refuse(fault, 400, &key, "is not a public key (DER of SubjectPublicKeyInfo in base64)");
    if (!is || !str_equal(document_get_text(secret, "algorithm"), str_from(is)))
        return document_refuse(fault, 400, &algorithm, "is not that of the key, %s", is ? is : "which is neither RSA nor EC");
    return E_OK;
}

static err check_scram(json_t *secret, unsigned max_cost, const struct document_place *place, struct document_fault *fault,
                       bool *out_has_material)
{
    static const char *const parts[] = {"salt", "iterations", "stored-key", "server-key"};
    static const char *const keys[] = {"stored-key", "server-key"};
    char decoded[BASE64_DECODED_BYTES(64)];
    size_t n, count = 0;

    (void)max_cost;
    *out_has_material = true;
    if (has(secret, "pwd-plain")) {
        for (size_t i = 0; i < ARRAY_LEN(parts); i++)
            (void)json_object_del(secret, parts[i]);
        return E_OK;
    }
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        count += has(secret, parts[i]);
    *out_has_material = count > 0;
    for (size_t i = 0; count && i < ARRAY_LEN(parts); i++) {
        struct document_place here = document_member(place, parts[i]);

        if (!json_object_get(secret, parts[i]))
            return document_refuse(fault, 400, &here, "is missing");
    }
    for (size_t i = 0; count && i < ARRAY_LEN(keys); i++) {
        struct document_place here = document_member(place, keys[i]);

        if (!base64_decode(document_get_text(secret, keys[i]), decoded, &n) || n != SECRET_HASH_SCRAM_BYTES)
            return document_refuse(fault, 400, &here, "must be the base64 of %d bytes", SECRET_HASH_SCRAM_BYTES);
    }
    return E_OK;
}

static const secret_rule rules[CREDENTIALS_TYPES] = {
    [CREDENTIALS_PASSWORD] = check_password, [CREDENTIALS_PSK] = check_psk,     [CREDENTIALS_X509] = check_x509,
    [CREDENTIALS_RPK] = check_rpk,           [CREDENTIALS_SCRAM] = check_scram,
};

static err check_validity(const json_t *secret, const struct document_place *place, struct document_fault *fault)
{
    struct document_place here = document_member(place, "not-after");
    int64_t from, to;

    if (moment_parse(document_get_text(secret, "not-before"), &from) == E_OK &&
        moment_parse(document_get_text(secret, "not-after"), &to) == E_OK && to < from)
        return document_refuse(fault, 400, &here, "is before not-before");
    return E_OK;
}

/* A secret without an id is new and gets one; one with an id and nothing else keeps what is stored. */
static err normalise_secrets(json_t *entry, enum credentials_type type, unsigned max_cost, const struct document_place *place,
                             struct document_fault *fault)
{
    struct document_place list = document_member(place, "secrets");
    json_t *secrets = json_object_get(entry, "secrets");
    char id[UUID_BYTES];

    for (size_t i = 0; i < json_array_size(secrets); i++) {
        struct document_place here = document_element(&list, i), its_id = document_member(&here, "id");
        json_t *secret = json_array_get(secrets, i);
        bool has_material;

        if (rules[type](secret, max_cost, &here, fault, &has_material) != E_OK || check_validity(secret, &here, fault) != E_OK)
            return E_INVAL;
        if (!json_object_get(secret, "id")) {
            if (!has_material)
                return document_refuse(fault, 400, &here, "has neither a secret nor the id of one");
            document_set_text(secret, "id", uuid_make(id));
            document_set(secret, CREDENTIALS_NEW_MARK, json_true());
        }
        for (size_t k = 0; k < i; k++)
            if (str_equal(document_get_text(json_array_get(secrets, k), "id"), document_get_text(secret, "id")))
                return document_refuse(fault, 400, &its_id, "is there twice");
    }
    return E_OK;
}

/* The name in one spelling, and if it comes from a certificate also that of its issuer, by which the decision finds the template. */
static err normalise_x509(json_t *entry, const struct document_place *place, struct document_fault *fault)
{
    struct document_place cert = document_member(place, "cert"), auth_id = document_member(place, "auth-id");
    struct certificate read;
    char dn[DN_BYTES];
    size_t n;

    if (!json_object_get(entry, "cert")) {
        if (!json_object_get(entry, "auth-id"))
            return document_refuse(fault, 400, &auth_id, "is missing, and cert, too");
        if (dn_canonical(document_get_text(entry, "auth-id"), dn, &n) == E_OK) /* else it is of a template */
            document_set_text(entry, "auth-id", (struct str){dn, n});
        return E_OK;
    }
    if (json_object_get(entry, "auth-id"))
        return document_refuse(fault, 400, &auth_id, "and cert exclude each other: it is taken from the certificate");
    if (certificate_read(document_get_text(entry, "cert"), &read) != E_OK)
        return document_refuse(fault, 400, &cert, "is not an X.509 certificate (DER in base64)");
    (void)json_object_del(entry, "cert"); /* it is there */
    document_set_text(entry, "auth-id", (struct str){read.subject, read.subject_n});
    document_set_text(entry, "issuer-dn", (struct str){read.issuer, read.issuer_n});
    return E_OK;
}

static err normalise_entry(json_t *entry, unsigned max_cost, const struct document_place *place, struct document_fault *fault)
{
    struct document_place here = document_member(place, "type");
    enum credentials_type type;
    err e;

    if (!json_is_object(entry))
        return document_refuse(fault, 400, place, "must be an object");
    if (!json_object_get(entry, "type"))
        return document_refuse(fault, 400, &here, "is missing");
    type = credentials_document_find_type(document_get_text(entry, "type"));
    if (type == CREDENTIALS_TYPES)
        return document_refuse(fault, 400, &here, "must be one of hashed-password, psk, x509-cert, rpk, scram-sha-256");
    e = schema_check(&types[type].schema, entry, place, fault);
    if (e == E_OK && type == CREDENTIALS_X509)
        e = normalise_x509(entry, place, fault);
    return e == E_OK ? normalise_secrets(entry, type, max_cost, place, fault) : e;
}

static bool is_same_account(const json_t *a, const json_t *b)
{
    return str_equal(document_get_text(a, "type"), document_get_text(b, "type")) &&
           str_equal(document_get_text(a, "auth-id"), document_get_text(b, "auth-id"));
}

err credentials_document_normalise(json_t *credentials, unsigned max_cost, struct document_fault *fault)
{
    if (!json_is_array(credentials))
        return document_refuse(fault, 400, NULL, "must be a list");
    if (json_array_size(credentials) > CREDENTIALS_MAX)
        return document_refuse(fault, 400, NULL, "has %zu elements, at most %d", json_array_size(credentials), CREDENTIALS_MAX);
    for (size_t i = 0; i < json_array_size(credentials); i++) {
        struct document_place here = document_element(NULL, i), auth_id = document_member(&here, "auth-id");
        json_t *entry = json_array_get(credentials, i);

        if (normalise_entry(entry, max_cost, &here, fault) != E_OK)
            return E_INVAL;
        for (size_t k = 0; k < i; k++)
            if (is_same_account(json_array_get(credentials, k), entry))
                return document_refuse(fault, 400, &auth_id, "is there twice with this type");
    }
    return E_OK;
}

/* --- hashing --- */

size_t credentials_document_plain(const json_t *credentials)
{
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(credentials); i++) {
        const json_t *secrets = json_object_get(json_array_get(credentials, i), "secrets");

        for (size_t k = 0; k < json_array_size(secrets); k++)
            count += json_object_get(json_array_get(secrets, k), "pwd-plain") != NULL;
    }
    return count;
}

static void set_base64(json_t *object, const char *name, const unsigned char *bytes, int n)
{
    unsigned char text[BASE64_DECODED_BYTES(128)];

    document_set_text(object, name, (struct str){(const char *)text, (size_t)EVP_EncodeBlock(text, bytes, n)});
}

static err hash_scram(json_t *secret)
{
    unsigned char salt[SCRAM_SALT_BYTES], stored[SECRET_HASH_SCRAM_BYTES], server[SECRET_HASH_SCRAM_BYTES];
    err e;

    ASSERT(getrandom(salt, sizeof salt, 0) == (ssize_t)sizeof salt);
    e = secret_hash_scram(document_get_text(secret, "pwd-plain"), (struct str){(const char *)salt, sizeof salt},
                          SCRAM_ITERATIONS, stored, server);
    if (e != E_OK)
        return e;
    set_base64(secret, "salt", salt, sizeof salt);
    set_base64(secret, "stored-key", stored, sizeof stored);
    set_base64(secret, "server-key", server, sizeof server);
    document_set(secret, "iterations", json_integer(SCRAM_ITERATIONS));
    return E_OK;
}

static err hash_secret(json_t *secret, enum credentials_type type, unsigned cost)
{
    char hash[SECRET_HASH_BCRYPT_BYTES];
    err e;

    if (type == CREDENTIALS_SCRAM)
        e = hash_scram(secret);
    else
        e = secret_hash_bcrypt(document_get_text(secret, "pwd-plain"), cost, hash);
    if (e != E_OK)
        return e;
    if (type != CREDENTIALS_SCRAM) {
        document_set_text(secret, "hash-function", STR("bcrypt"));
        document_set_text(secret, "pwd-hash", str_from(hash));
    }
    (void)json_object_del(secret, "pwd-plain"); /* it is there */
    return E_OK;
}

err credentials_document_hash(json_t *credentials, unsigned cost, struct document_fault *fault)
{
    for (size_t i = 0; i < json_array_size(credentials); i++) {
        json_t *entry = json_array_get(credentials, i), *secrets = json_object_get(entry, "secrets");
        enum credentials_type type = credentials_document_find_type(document_get_text(entry, "type"));
        struct document_place place = document_element(NULL, i), list = document_member(&place, "secrets");

        for (size_t k = 0; k < json_array_size(secrets); k++) {
            struct document_place element = document_element(&list, k), here = document_member(&element, "pwd-plain");
            json_t *secret = json_array_get(secrets, k);

            if (json_object_get(secret, "pwd-plain") && hash_secret(secret, type, cost) != E_OK)
                return document_refuse(fault, 400, &here, "cannot be hashed");
        }
    }
    return E_OK;
}

/* --- merging and showing --- */

/* What a secret is beside its description, of any type. */
static const char *const material[] = {"pwd-hash",   "hash-function", "salt",       "key",      "algorithm",
                                       "iterations", "stored-key",    "server-key", "pwd-plain"};

static const json_t *find_secret(const json_t *stored, const json_t *like, struct str id)
{
    for (size_t i = 0; i < json_array_size(stored); i++) {
        const json_t *entry = json_array_get(stored, i), *secrets = json_object_get(entry, "secrets");

        if (!str_equal(document_get_text(entry, "type"), document_get_text(like, "type")))
            continue;
        for (size_t k = 0; k < json_array_size(secrets); k++)
            if (str_equal(document_get_text(json_array_get(secrets, k), "id"), id))
                return json_array_get(secrets, k);
    }
    return NULL;
}

static bool has_material(const json_t *secret)
{
    for (size_t i = 0; i < ARRAY_LEN(material); i++)
        if (json_object_get(secret, material[i]))
            return true;
    return false;
}

static err merge_secret(json_t *secret, const json_t *entry, const json_t *stored, const struct document_place *place,
                        struct document_fault *fault)
{
    struct document_place here = document_member(place, "id");
    const json_t *old;

    if (json_object_get(secret, CREDENTIALS_NEW_MARK)) {
        (void)json_object_del(secret, CREDENTIALS_NEW_MARK); /* it is there */
        return E_OK;
    }
    old = find_secret(stored, entry, document_get_text(secret, "id"));
    if (!old)
        return document_refuse(fault, 400, &here, "there is no secret with this id");
    if (has_material(secret))
        return E_OK;
    for (size_t i = 0; i < ARRAY_LEN(material); i++) {
        json_t *value = json_object_get(old, material[i]);

        if (value)
            document_set(secret, material[i], json_incref(value));
    }
    return E_OK;
}

err credentials_document_merge(json_t *credentials, const json_t *stored, struct document_fault *fault)
{
    for (size_t i = 0; i < json_array_size(credentials); i++) {
        struct document_place place = document_element(NULL, i), list = document_member(&place, "secrets");
        json_t *entry = json_array_get(credentials, i), *secrets = json_object_get(entry, "secrets");

        for (size_t k = 0; k < json_array_size(secrets); k++) {
            struct document_place here = document_element(&list, k);

            if (merge_secret(json_array_get(secrets, k), entry, stored, &here, fault) != E_OK)
                return E_INVAL;
        }
    }
    return E_OK;
}

void credentials_document_adopt(json_t *credentials)
{
    for (size_t i = 0; i < json_array_size(credentials); i++) {
        json_t *entry = json_array_get(credentials, i), *secrets = json_object_get(entry, "secrets");
        bool is_x509 = str_equal(document_get_text(entry, "type"), STR("x509-cert")); /* which have nothing to bring */

        for (size_t k = 0; k < json_array_size(secrets); k++)
            if (is_x509 || has_material(json_array_get(secrets, k)))
                document_set(json_array_get(secrets, k), CREDENTIALS_NEW_MARK, json_true());
    }
}

void credentials_document_conceal(json_t *credentials)
{
    for (size_t i = 0; i < json_array_size(credentials); i++) {
        json_t *entry = json_array_get(credentials, i), *secrets = json_object_get(entry, "secrets");
        bool is_public = str_equal(document_get_text(entry, "type"), STR("rpk"));

        for (size_t k = 0; k < json_array_size(secrets); k++)
            for (size_t m = 0; m < ARRAY_LEN(material); m++)
                if (!is_public || (strcmp(material[m], "key") != 0 && strcmp(material[m], "algorithm") != 0))
                    (void)json_object_del(json_array_get(secrets, k), material[m]); /* or there is none */
    }
}

const json_t *credentials_document_find(const json_t *credentials, struct str type, struct str auth_id)
{
    for (size_t i = 0; i < json_array_size(credentials); i++) {
        const json_t *entry = json_array_get(credentials, i);

        if (str_equal(document_get_text(entry, "type"), type) && str_equal(document_get_text(entry, "auth-id"), auth_id))
            return entry;
    }
    return NULL;
}

bool credentials_document_is_valid(const json_t *secret, int64_t now_ms)
{
    int64_t from, to;

    if (!document_get_bool(secret, "enabled", true))
        return false;
    if (moment_parse(document_get_text(secret, "not-before"), &from) == E_OK && now_ms < from)
        return false;
    return moment_parse(document_get_text(secret, "not-after"), &to) != E_OK || now_ms <= to;
}
