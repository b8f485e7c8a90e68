#include "registry/credentials_document.h"

#include "registry/certificate_fixture_test.h"
#include "registry/document_fixture_test.h"

#include "base/check.h"
#include "registry/secret_hash.h"

enum { MAX_COST = 10 };

#define SHA_256 "E2Ab2k6njlWge5iGbSvmvgdE44ZvE8AMgRyrYIoo8yI="
#define SHA_512 "KQjSwo38BHdB/FkKAm/63iN6srp+EmbwEP5JveVItZh6U0qGZVoNF/M2WI5UDNZvZyNLFSu7ZFtLuFdYoTJdZA=="
#define BCRYPT  "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
#define MOSQUITTO(n)                                                                                                           \
    "$7$" n "$nHVjZWwZFTVxC3oL$EKl5KNx5Ta+VpQL0oVdUinhwQJm62zwE9mXmc/h3mYY0mitE2xoKdiVMHc8FsC5co5bEcyvG8Q7xEJ6qTfod+g=="
#define KEY "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="

#define PASSWORD(secrets) "[{\"type\":\"hashed-password\",\"auth-id\":\"s1\",\"secrets\":" secrets "}]"
#define PSK(secrets)      "[{\"type\":\"psk\",\"auth-id\":\"s1\",\"secrets\":" secrets "}]"
#define X509(rest)        "[{\"type\":\"x509-cert\"," rest "}]"
#define RPK(secrets)      "[{\"type\":\"rpk\",\"auth-id\":\"s1\",\"secrets\":" secrets "}]"
#define SCRAM(secrets)    "[{\"type\":\"scram-sha-256\",\"auth-id\":\"s1\",\"secrets\":" secrets "}]"

static err normalise(json_t *value, struct document_fault *fault)
{
    return credentials_document_normalise(value, MAX_COST, fault);
}

static void every_member_is_checked(void **state)
{
    static const struct document_case rows[] = {
        {"[]", NULL, NULL},
        {"{}", "", "list"},
        {"[1]", "/0", "object"},
        {"[{}]", "/0/type", "missing"},
        {"[{\"type\":\"token\"}]", "/0/type", "one of hashed-password"},
        {"[{\"type\":1}]", "/0/type", NULL},
        {"[{\"type\":\"psk\",\"auth-id\":\"a\"}]", "/0/secrets", "missing"},
        {"[{\"type\":\"psk\",\"auth-id\":\"a\",\"secrets\":[]}]", "/0/secrets", "at least 1"},
        {"[{\"type\":\"psk\",\"auth-id\":\"a\",\"secrets\":[1]}]", "/0/secrets/0", "object"},
        {"[{\"type\":\"psk\",\"secrets\":[{\"key\":\"AAAA\"}]}]", "/0/auth-id", "missing"},
        {"[{\"type\":\"psk\",\"auth-id\":\"a b\",\"secrets\":[{\"key\":\"AAAA\"}]}]", "/0/auth-id", "letters"},
        {"[{\"type\":\"psk\",\"auth-id\":\"a\",\"enabled\":1,\"secrets\":[{\"key\":\"AAAA\"}]}]", "/0/enabled", NULL},
        {"[{\"type\":\"psk\",\"auth-id\":\"a\",\"ext\":1,\"secrets\":[{\"key\":\"AAAA\"}]}]", "/0/ext", NULL},
        {"[{\"type\":\"psk\",\"auth-id\":\"a\",\"x\":1,\"secrets\":[{\"key\":\"AAAA\"}]}]", "/0/x", "no such member"},

        {PASSWORD("[{\"pwd-plain\":\"pw\",\"not-before\":\"2026-01-01T00:00:00Z\",\"not-after\":\"2027-01-01T00:00:00Z\","
                  "\"comment\":\"c\"}]"),
         NULL, NULL},
        {PASSWORD("[{\"enabled\":false,\"pwd-plain\":\"pw\"}]"), NULL, NULL},
        {PASSWORD("[{\"enabled\":0,\"pwd-plain\":\"pw\"}]"), "/0/secrets/0/enabled", NULL},
        {PASSWORD("[{\"pwd-plain\":\"pw\",\"not-before\":\"now\"}]"), "/0/secrets/0/not-before", "date and time"},
        {PASSWORD("[{\"pwd-plain\":\"pw\",\"not-before\":\"2027-01-01T00:00:00Z\",\"not-after\":\"2026-01-01T00:00:00Z\"}]"),
         "/0/secrets/0/not-after", "before not-before"},
        {PASSWORD("[{\"pwd-plain\":\"pw\",\"comment\":1}]"), "/0/secrets/0/comment", NULL},
        {PASSWORD("[{\"pwd-plain\":\"pw\",\"key\":\"AAAA\"}]"), "/0/secrets/0/key", "no such member"},
        {PASSWORD("[{}]"), "/0/secrets/0", "neither a secret nor the id"},
        {PASSWORD("[{\"pwd-plain\":\"\"}]"), "/0/secrets/0", "neither"},
        {PASSWORD("[{\"id\":\"x\",\"pwd-plain\":\"\",\"pwd-hash\":\"\",\"salt\":\"\"}]"), NULL, NULL},
        {PASSWORD("[{\"id\":\"x\"},{\"id\":\"x\"}]"), "/0/secrets/1/id", "twice"},
        {PASSWORD("[{\"pwd-plain\":\"1234567890123456789012345678901234567890123456789012345678901234567890123\"}]"),
         "/0/secrets/0/pwd-plain", "at most 72"},
        {PASSWORD("[{\"pwd-plain\":\"pw\",\"pwd-hash\":\"nonsense\",\"hash-function\":\"sha-256\"}]"), NULL, NULL},
        {PASSWORD("[{\"pwd-hash\":\"" SHA_256 "\"}]"), NULL, NULL},
        {PASSWORD("[{\"hash-function\":\"sha-256\",\"salt\":\"AAAA\",\"pwd-hash\":\"" SHA_256 "\"}]"), NULL, NULL},
        {PASSWORD("[{\"hash-function\":\"sha-512\",\"salt\":\"AAAA\",\"pwd-hash\":\"" SHA_512 "\"}]"), NULL, NULL},
        {PASSWORD("[{\"hash-function\":\"sha-512\",\"pwd-hash\":\"" SHA_256 "\"}]"), "/0/secrets/0/pwd-hash", "sha-512"},
        {PASSWORD("[{\"pwd-hash\":\"?\"}]"), "/0/secrets/0/pwd-hash", "base64 of a sha-256"},
        {PASSWORD("[{\"hash-function\":\"md5\",\"pwd-hash\":\"AAAA\"}]"), "/0/secrets/0/hash-function", "one of sha-256"},
        {PASSWORD("[{\"salt\":\"?\",\"pwd-hash\":\"" SHA_256 "\"}]"), "/0/secrets/0/salt", "base64"},
        {PASSWORD("[{\"salt\":\"AAAA\"}]"), "/0/secrets/0/pwd-hash", "missing"},
        {PASSWORD("[{\"hash-function\":\"bcrypt\",\"pwd-hash\":\"" BCRYPT "\"}]"), NULL, NULL},
        {PASSWORD("[{\"hash-function\":\"bcrypt\",\"salt\":\"AAAA\",\"pwd-hash\":\"" BCRYPT "\"}]"), "/0/secrets/0/salt",
         "no use"},
        {PASSWORD(
             "[{\"hash-function\":\"bcrypt\",\"pwd-hash\":\"$2a$11$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\"}]"),
         "/0/secrets/0/pwd-hash", "cost 11, at most 10"},
        {PASSWORD(
             "[{\"hash-function\":\"bcrypt\",\"pwd-hash\":\"$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\"}]"),
         "/0/secrets/0/pwd-hash", "$2a$"},

        {PASSWORD("[{\"hash-function\":\"mosquitto\",\"pwd-hash\":\"" MOSQUITTO("101") "\"}]"), NULL, NULL},
        {PASSWORD("[{\"hash-function\":\"mosquitto\",\"salt\":\"AAAA\",\"pwd-hash\":\"" MOSQUITTO("101") "\"}]"),
         "/0/secrets/0/salt", "no use with mosquitto"},
        {PASSWORD("[{\"hash-function\":\"mosquitto\",\"pwd-hash\":\"" MOSQUITTO("999999") "\"}]"), "/0/secrets/0/pwd-hash",
         "more than 262144 iterations"},
        {PASSWORD("[{\"hash-function\":\"mosquitto\",\"pwd-hash\":\"$argon2id$x\"}]"), "/0/secrets/0/pwd-hash",
         "as mosquitto_passwd writes it"},
        {PASSWORD("[{\"hash-function\":\"sha-512\",\"pwd-hash\":\"" SHA_512 SHA_512 "\"}]"), "/0/secrets/0/pwd-hash",
         "sha-512"},

        {PSK("[{\"key\":\"AAAA\"}]"), NULL, NULL},
        {PSK("[{\"key\":\"?\"}]"), "/0/secrets/0/key", "base64"},
        {PSK("[{\"id\":\"x\"}]"), NULL, NULL},
        {PSK("[{\"comment\":\"x\"}]"), "/0/secrets/0", "neither"},
        {PSK("[{\"pwd-plain\":\"x\"}]"), "/0/secrets/0/pwd-plain", "no such member"},

        {X509("\"auth-id\":\"CN=s4,O=acme\",\"secrets\":[{}]"), NULL, NULL},
        {X509("\"auth-id\":\"device-of-a-template\",\"secrets\":[{\"comment\":\"c\"}]"), NULL, NULL},
        {X509("\"secrets\":[{}]"), "/0/auth-id", "missing, and cert"},
        {X509("\"auth-id\":\"CN=s4\""), "/0/secrets", "missing"},
        {X509("\"auth-id\":\"CN=s4\",\"secrets\":[]"), "/0/secrets", "at least 1"},
        {X509("\"auth-id\":\"CN=s4\",\"secrets\":[{\"key\":\"AAAA\"}]"), "/0/secrets/0/key", "no such member"},
        {X509("\"cert\":\"AAAA\",\"secrets\":[{}]"), "/0/cert", "X.509"},
        {X509("\"cert\":\"AAAA\",\"auth-id\":\"CN=a\",\"secrets\":[{}]"), "/0/auth-id", "exclude"},

        {RPK("[{\"key\":\"AAAA\"}]"), "/0/secrets/0/key", "public key"},
        {RPK("[{\"cert\":\"AAAA\"}]"), "/0/secrets/0/cert", "X.509"},
        {RPK("[{\"cert\":\"AAAA\",\"key\":\"AAAA\"}]"), "/0/secrets/0/key", "exclude"},
        {RPK("[{\"algorithm\":\"DSA\",\"key\":\"AAAA\"}]"), "/0/secrets/0/algorithm", "one of RSA, EC"},
        {RPK("[{}]"), "/0/secrets/0", "neither"},

        {SCRAM("[{\"pwd-plain\":\"pw\"}]"), NULL, NULL},
        {SCRAM("[{\"salt\":\"AAAA\",\"iterations\":4096,\"stored-key\":\"" KEY "\",\"server-key\":\"" KEY "\"}]"), NULL, NULL},
        {SCRAM("[{\"salt\":\"AAAA\",\"stored-key\":\"" KEY "\",\"server-key\":\"" KEY "\"}]"), "/0/secrets/0/iterations",
         "missing"},
        {SCRAM("[{\"salt\":\"AAAA\",\"iterations\":1,\"stored-key\":\"" KEY "\",\"server-key\":\"" KEY "\"}]"),
         "/0/secrets/0/iterations", "4096 to"},
        {SCRAM("[{\"salt\":\"AAAA\",\"iterations\":4096,\"stored-key\":\"AAAA\",\"server-key\":\"" KEY "\"}]"),
         "/0/secrets/0/stored-key", "32 bytes"},

        {"[{\"type\":\"psk\",\"auth-id\":\"a\",\"secrets\":[{\"key\":\"AAAA\"}]},{\"type\":\"psk\",\"auth-id\":\"a\","
         "\"secrets\":[{\"key\":\"AAAA\"}]}]",
         "/1/auth-id", "twice"},
        {"[{\"type\":\"psk\",\"auth-id\":\"a\",\"secrets\":[{\"key\":\"AAAA\"}]},"
         "{\"type\":\"hashed-password\",\"auth-id\":\"a\",\"secrets\":[{\"pwd-plain\":\"x\"}]}]",
         NULL, NULL},
    };

    (void)state;
    document_check_cases(rows, ARRAY_LEN(rows), normalise);
}

static void keys_come_from_certificates(void **state)
{
    static struct certificate_fixture made;
    static char json[8192];
    char *stored;

    (void)state;
    certificate_make("EC", "s4", "ca", &made);
    snprintf(json, sizeof json, X509("\"cert\":\"%s\",\"secrets\":[{\"id\":\"x\"}]"), made.cert);
    stored = document_normal_form(json, normalise);
    assert_string_equal(
        stored,
        "[{\"auth-id\":\"CN=s4,O=acme,C=DE\",\"issuer-dn\":\"CN=ca\",\"secrets\":[{\"id\":\"x\"}],\"type\":\"x509-cert\"}]");
    free(stored);
    snprintf(json, sizeof json, RPK("[{\"id\":\"x\",\"cert\":\"%s\"}]"), made.cert);
    stored = document_normal_form(json, normalise);
    assert_non_null(strstr(stored, made.key));
    assert_non_null(strstr(stored, "\"algorithm\":\"EC\""));
    assert_non_null(strstr(stored, "\"not-after\":\"2027-01-01T00:00:00Z\""));
    assert_null(strstr(stored, "cert\":"));
    free(stored);
    snprintf(json, sizeof json, RPK("[{\"algorithm\":\"EC\",\"key\":\"%s\"}]"), made.key);
    document_check_cases(&(struct document_case){json, NULL, NULL}, 1, normalise);
    snprintf(json, sizeof json, RPK("[{\"key\":\"%s\"}]"), made.key);
    document_check_cases(&(struct document_case){json, "/0/secrets/0/algorithm", "EC"}, 1, normalise);
}

static json_t *read_document(const char *json)
{
    struct document_fault fault = {0};
    json_t *value;

    assert_int_equal(document_parse(str_from(json), false, &value, &fault), E_OK);
    return value;
}

static const json_t *secret_of(const json_t *credentials, size_t i, size_t k)
{
    return json_array_get(json_object_get(json_array_get(credentials, i), "secrets"), k);
}

static void passwords_become_hashes(void **state)
{
    json_t *value = read_document(
        "[{\"type\":\"hashed-password\",\"auth-id\":\"a\",\"secrets\":[{\"pwd-plain\":\"pw\"},{\"pwd-plain\":\"pw2\"}]},"
        "{\"type\":\"scram-sha-256\",\"auth-id\":\"a\",\"secrets\":[{\"pwd-plain\":\"pencil\"}]}]");
    struct document_fault fault = {0};
    char *text;

    (void)state;
    assert_int_equal(normalise(value, &fault), E_OK);
    assert_int_equal(credentials_document_plain(value), 3);
    assert_int_equal(credentials_document_hash(value, 4, &fault), E_OK);
    assert_int_equal(credentials_document_plain(value), 0);
    assert_true(
        secret_hash_matches(SECRET_HASH_BCRYPT, STR(""), document_get_text(secret_of(value, 0, 1), "pwd-hash"), STR("pw2")));
    assert_int_equal(document_get_integer(secret_of(value, 1, 0), "iterations", 0), 4096);
    text = json_dumps(value, JSON_COMPACT);
    assert_null(strstr(text, "pencil"));
    assert_null(strstr(text, "plain"));
    free(text);
    json_decref(value);
}

static void a_secret_named_by_id_keeps_what_is_stored(void **state)
{
    json_t *stored =
        read_document(PASSWORD("[{\"id\":\"one\",\"pwd-hash\":\"H1\",\"hash-function\":\"sha-256\",\"salt\":\"S\"},"
                               "{\"id\":\"two\",\"pwd-hash\":\"H2\",\"hash-function\":\"sha-256\",\"comment\":\"old\"}]"));
    json_t *value = read_document(PASSWORD("[{\"id\":\"one\",\"comment\":\"new\"},{\"pwd-hash\":\"" SHA_256 "\"}]"));
    json_t *unknown = read_document(PASSWORD("[{\"id\":\"three\"}]")), *other = read_document(PSK("[{\"id\":\"one\"}]"));
    struct document_fault fault = {0};

    (void)state;
    assert_int_equal(normalise(value, &fault), E_OK);
    assert_int_equal(credentials_document_merge(value, stored, &fault), E_OK);
    assert_string_equal(document_get_text(secret_of(value, 0, 0), "pwd-hash").p, "H1");
    assert_string_equal(document_get_text(secret_of(value, 0, 0), "salt").p, "S");
    assert_string_equal(document_get_text(secret_of(value, 0, 0), "comment").p, "new");
    assert_string_equal(document_get_text(secret_of(value, 0, 1), "pwd-hash").p, SHA_256);
    assert_null(json_object_get(secret_of(value, 0, 1), "is-new"));

    assert_int_equal(normalise(unknown, &fault), E_OK);
    assert_int_equal(credentials_document_merge(unknown, stored, &fault), E_INVAL);
    assert_string_equal(fault.field, "/0/secrets/0/id");
    fault = (struct document_fault){0};
    assert_int_equal(credentials_document_merge(other, stored, &fault), E_INVAL); /* of another type */
    assert_int_equal(fault.status, 400);
    json_decref(stored);
    json_decref(value);
    json_decref(unknown);
    json_decref(other);
}

static void only_descriptions_are_shown(void **state)
{
    json_t *value = read_document(
        "[{\"type\":\"hashed-password\",\"auth-id\":\"a\",\"secrets\":[{\"id\":\"x\",\"comment\":\"c\",\"pwd-hash\":\"h\","
        "\"hash-function\":\"bcrypt\",\"salt\":\"s\"}]},"
        "{\"type\":\"psk\",\"auth-id\":\"a\",\"secrets\":[{\"id\":\"x\",\"key\":\"AAAA\"}]},"
        "{\"type\":\"rpk\",\"auth-id\":\"a\",\"secrets\":[{\"id\":\"x\",\"key\":\"AAAA\",\"algorithm\":\"EC\"}]}]");
    char *text;

    (void)state;
    credentials_document_conceal(value);
    text = json_dumps(value, JSON_COMPACT);
    assert_string_equal(
        text, "[{\"type\":\"hashed-password\",\"auth-id\":\"a\",\"secrets\":[{\"id\":\"x\",\"comment\":\"c\"}]},"
              "{\"type\":\"psk\",\"auth-id\":\"a\",\"secrets\":[{\"id\":\"x\"}]},"
              "{\"type\":\"rpk\",\"auth-id\":\"a\",\"secrets\":[{\"id\":\"x\",\"key\":\"AAAA\",\"algorithm\":\"EC\"}]}]");
    free(text);
    json_decref(value);
}

static void a_secret_is_valid_within_its_window(void **state)
{
    static const struct {
        const char *json;
        bool want;
    } rows[] = {
        {"{}", true},
        {"{\"enabled\":false}", false},
        {"{\"not-before\":\"2026-01-01T00:00:00Z\"}", true},
        {"{\"not-before\":\"2026-01-01T00:00:00.001Z\"}", false},
        {"{\"not-after\":\"2026-01-01T00:00:00Z\"}", true},
        {"{\"not-after\":\"2025-12-31T23:59:59Z\"}", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *secret = read_document(rows[i].json);

        assert_int_equal(credentials_document_is_valid(secret, 1767225600000), rows[i].want);
        json_decref(secret);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_is_checked),     cmocka_unit_test(keys_come_from_certificates),
        cmocka_unit_test(passwords_become_hashes),     cmocka_unit_test(a_secret_named_by_id_keeps_what_is_stored),
        cmocka_unit_test(only_descriptions_are_shown), cmocka_unit_test(a_secret_is_valid_within_its_window),
    };

    return cmocka_run_group_tests_name("credentials_document", tests, NULL, NULL);
}
