#include "registry/tenant_document.h"

#include "registry/certificate_fixture_test.h"
#include "registry/document_fixture_test.h"

#include "base/check.h"

#define LIMITS(text)   "{\"resource-limits\":" text "}"
#define VOLUME(text)   LIMITS("{\"data-volume\":" text "}")
#define DURATION(text) LIMITS("{\"connection-duration\":" text "}")

static void every_member_is_checked(void **state)
{
    static const struct document_case rows[] = {
        {"{}", NULL, NULL},
        {"[]", "", "object"},
        {"{\"unknown\":1}", "/unknown", "no such member"},
        {"{\"id\":\"t\"}", "/id", "no such member"},
        {"{\"enabled\":false}", NULL, NULL},
        {"{\"enabled\":\"yes\"}", "/enabled", "true or false"},
        {"{\"enabled\":null}", "/enabled", "true or false"},
        {"{\"alias\":\"acme-1\"}", NULL, NULL},
        {"{\"alias\":\"\"}", "/alias", "empty"},
        {"{\"alias\":\"Acme\"}", "/alias", "small letters"},
        {"{\"alias\":\"-a\"}", "/alias", "small letters"},
        {"{\"alias\":\"a_b\"}", "/alias", "small letters"},
        {"{\"alias\":1}", "/alias", "text"},
        {"{\"ext\":{\"messaging-type\":\"kafka\",\"a\":[{\"b\":null}]}}", NULL, NULL},
        {"{\"ext\":[]}", "/ext", "object"},
        {"{\"adapters\":[{\"type\":\"hono-mqtt\",\"enabled\":true,\"device-authentication-required\":true,\"ext\":{\"max-ttd\":"
         "30}}]}",
         NULL, NULL},
        {"{\"adapters\":[]}", "/adapters", "at least 1"},
        {"{\"adapters\":{}}", "/adapters", "list"},
        {"{\"adapters\":[1]}", "/adapters/0", "object"},
        {"{\"adapters\":[{}]}", "/adapters/0/type", "missing"},
        {"{\"adapters\":[{\"type\":\"\"}]}", "/adapters/0/type", "empty"},
        {"{\"adapters\":[{\"type\":\"a\",\"enabled\":1}]}", "/adapters/0/enabled", "true or false"},
        {"{\"adapters\":[{\"type\":\"a\",\"device-authentication-required\":0}]}", "/adapters/0/device-authentication-required",
         NULL},
        {"{\"adapters\":[{\"type\":\"a\",\"ext\":1}]}", "/adapters/0/ext", "object"},
        {"{\"adapters\":[{\"type\":\"a\",\"more\":1}]}", "/adapters/0/more", "no such member"},
        {"{\"adapters\":[{\"type\":\"a\"},{\"type\":\"b\"},{\"type\":\"a\"}]}", "/adapters/2/type", "twice"},
        {"{\"defaults\":{\"ttl\":60,\"content-type\":\"text/plain\",\"x\":1.5,\"y\":true}}", NULL, NULL},
        {"{\"defaults\":{\"a/b~c\":{}}}", "/defaults/a~1b~0c", "text, a number"},
        {"{\"defaults\":{\"\":1}}", "/defaults/", "name"},
        {"{\"defaults\":{\"a\":null}}", "/defaults/a", NULL},
        {"{\"minimum-message-size\":4096}", NULL, NULL},
        {"{\"minimum-message-size\":-1}", "/minimum-message-size", "0 to 2147483647"},
        {"{\"minimum-message-size\":1.0}", "/minimum-message-size", "whole number"},
        {"{\"registration-limits\":{\"max-devices\":1000,\"max-credentials-per-device\":2}}", NULL, NULL},
        {"{\"registration-limits\":{\"max-devices\":-1,\"max-credentials-per-device\":-1}}", NULL, NULL},
        {"{\"registration-limits\":{\"max-devices\":-2}}", "/registration-limits/max-devices", "-1 to"},
        {"{\"registration-limits\":{\"max-credentials-per-device\":\"2\"}}", "/registration-limits/max-credentials-per-device",
         NULL},
        {"{\"registration-limits\":{\"x\":1}}", "/registration-limits/x", "no such member"},
        {LIMITS("{\"max-connections\":500,\"max-ttl\":3600,\"max-ttl-telemetry-qos0\":10,\"max-ttl-telemetry-qos1\":60,"
                "\"max-ttl-command-response\":30}"),
         NULL, NULL},
        {LIMITS("{\"max-connections\":-2}"), "/resource-limits/max-connections", NULL},
        {LIMITS("{\"max-ttl\":-2}"), "/resource-limits/max-ttl", NULL},
        {LIMITS("{\"max-ttl\":9999999999999}"), "/resource-limits/max-ttl", NULL},
        {LIMITS("{\"max-ttl-telemetry-qos0\":\"1\"}"), "/resource-limits/max-ttl-telemetry-qos0", NULL},
        {LIMITS("{\"max-ttl-telemetry-qos1\":null}"), "/resource-limits/max-ttl-telemetry-qos1", NULL},
        {LIMITS("{\"max-ttl-command-response\":true}"), "/resource-limits/max-ttl-command-response", NULL},
        {LIMITS("{\"ext\":{\"a\":1}}"), NULL, NULL},
        {VOLUME("{\"effective-since\":\"2026-01-01T00:00:00Z\",\"max-bytes\":1000000,\"period\":{\"mode\":\"monthly\"}}"), NULL,
         NULL},
        {VOLUME("{\"max-bytes\":1}"), "/resource-limits/data-volume/effective-since", "missing"},
        {VOLUME("{\"effective-since\":\"2026-02-30T00:00:00Z\"}"), "/resource-limits/data-volume/effective-since",
         "date and time"},
        {VOLUME("{\"effective-since\":\"2026-01-01T00:00:00Z\",\"max-bytes\":-2}"), "/resource-limits/data-volume/max-bytes",
         NULL},
        {VOLUME("{\"effective-since\":\"2026-01-01T00:00:00Z\",\"period\":{}}"), "/resource-limits/data-volume/period/mode",
         "missing"},
        {VOLUME("{\"effective-since\":\"2026-01-01T00:00:00Z\",\"period\":{\"mode\":\"weekly\"}}"),
         "/resource-limits/data-volume/period/mode", "one of days, monthly"},
        {DURATION("{\"effective-since\":\"2026-01-01T00:00:00Z\",\"max-minutes\":10000,\"period\":{\"mode\":\"days\",\"no-of-"
                  "days\":30}}"),
         NULL, NULL},
        {DURATION("{\"effective-since\":\"2026-01-01T00:00:00Z\",\"period\":{\"mode\":\"days\"}}"),
         "/resource-limits/connection-duration/period/no-of-days", "missing"},
        {DURATION("{\"effective-since\":\"2026-01-01T00:00:00Z\",\"period\":{\"mode\":\"days\",\"no-of-days\":0}}"),
         "/resource-limits/connection-duration/period/no-of-days", NULL},
        {DURATION("{\"effective-since\":\"yesterday\"}"), "/resource-limits/connection-duration/effective-since", NULL},
        {DURATION("{\"effective-since\":\"2026-01-01T00:00:00Z\",\"max-minutes\":1.5}"),
         "/resource-limits/connection-duration/max-minutes", NULL},
        {"{\"tracing\":{\"sampling-mode\":\"default\",\"sampling-mode-per-auth-id\":{\"sensor1\":\"all\"}}}", NULL, NULL},
        {"{\"tracing\":{\"sampling-mode\":\"some\"}}", "/tracing/sampling-mode", "one of default, all, none"},
        {"{\"tracing\":{\"sampling-mode-per-auth-id\":{\"sensor1\":\"some\"}}}", "/tracing/sampling-mode-per-auth-id/sensor1",
         NULL},
        {"{\"trust-anchor-group\":\"g1\"}", NULL, NULL},
        {"{\"trust-anchor-group\":\"\"}", "/trust-anchor-group", NULL},
        {"{\"downstream-message-mapper\":\"m\",\"upstream-message-mapper\":\"n\"}", NULL, NULL},
        {"{\"downstream-message-mapper\":\"\"}", "/downstream-message-mapper", NULL},
        {"{\"trusted-ca\":[]}", NULL, NULL},
        {"{\"trusted-ca\":{}}", "/trusted-ca", "list"},
        {"{\"trusted-ca\":[{}]}", "/trusted-ca/0/subject-dn", "missing, and cert"},
        {"{\"trusted-ca\":[{\"subject-dn\":\"CN=a\"}]}", "/trusted-ca/0/public-key", "missing, and cert"},
        {"{\"trusted-ca\":[{\"subject-dn\":\"nobody\",\"public-key\":\"AAAA\"}]}", "/trusted-ca/0/subject-dn",
         "distinguished name"},
        {"{\"trusted-ca\":[{\"subject-dn\":\"CN=a\",\"public-key\":\"AAAA\"}]}", "/trusted-ca/0/public-key", "public key"},
        {"{\"trusted-ca\":[{\"subject-dn\":\"CN=a\",\"public-key\":\"?\"}]}", "/trusted-ca/0/public-key", "base64"},
        {"{\"trusted-ca\":[{\"cert\":\"AAAA\"}]}", "/trusted-ca/0/cert", "X.509"},
        {"{\"trusted-ca\":[{\"cert\":\"AAAA\",\"subject-dn\":\"CN=a\"}]}", "/trusted-ca/0/subject-dn", "exclude"},
        {"{\"trusted-ca\":[{\"cert\":\"AAAA\",\"not-after\":\"2026-01-01T00:00:00Z\"}]}", "/trusted-ca/0/not-after", "exclude"},
        {"{\"trusted-ca\":[{\"algorithm\":\"DSA\"}]}", "/trusted-ca/0/algorithm", "one of RSA, EC"},
        {"{\"trusted-ca\":[{\"auto-provisioning-enabled\":1}]}", "/trusted-ca/0/auto-provisioning-enabled", NULL},
        {"{\"trusted-ca\":[{\"auto-provision-as-gateway\":1}]}", "/trusted-ca/0/auto-provision-as-gateway", NULL},
        {"{\"trusted-ca\":[{\"ocsp-revocation-enabled\":1}]}", "/trusted-ca/0/ocsp-revocation-enabled", NULL},
        {"{\"trusted-ca\":[{\"ocsp-nonce-enabled\":1}]}", "/trusted-ca/0/ocsp-nonce-enabled", NULL},
        {"{\"trusted-ca\":[{\"ocsp-responder-uri\":\"ftp://x\"}]}", "/trusted-ca/0/ocsp-responder-uri", "URI"},
        {"{\"trusted-ca\":[{\"ocsp-responder-cert\":\"?\"}]}", "/trusted-ca/0/ocsp-responder-cert", "base64"},
        {"{\"trusted-ca\":[{\"id\":\"a b\"}]}", "/trusted-ca/0/id", NULL},
        {"{\"trusted-ca\":[{\"x\":1}]}", "/trusted-ca/0/x", "no such member"},
    };

    (void)state;
    document_check_cases(rows, ARRAY_LEN(rows), tenant_document_normalise);
}

static void a_certificate_becomes_name_key_and_validity(void **state)
{
    static const char *const algorithms[] = {"EC", "RSA"};
    static struct certificate_fixture made;
    static char json[16384], want[16384];
    char *stored;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(algorithms); i++) {
        certificate_make(algorithms[i], "ca, \"one\"", "root", &made);
        snprintf(json, sizeof json, "{\"trusted-ca\":[{\"id\":\"ca1\",\"cert\":\"%s\"}]}", made.cert);
        snprintf(want, sizeof want,
                 "{\"trusted-ca\":[{\"algorithm\":\"%s\",\"id\":\"ca1\",\"not-after\":\"2027-01-01T00:00:00Z\","
                 "\"not-before\":\"2026-01-01T00:00:00Z\",\"public-key\":\"%s\","
                 "\"subject-dn\":\"CN=ca\\\\, \\\\\\\"one\\\\\\\",O=acme,C=DE\"}]}",
                 algorithms[i], made.key);
        stored = document_normal_form(json, tenant_document_normalise);
        assert_string_equal(stored, want);
        free(stored);
    }
}

static void a_name_and_a_key_are_taken_as_they_are(void **state)
{
    static struct certificate_fixture ec, other;
    static char json[16384];
    char *stored;

    (void)state;
    certificate_make("EC", "ca", "root", &ec);
    certificate_make("D", "ca", "root", &other);
    snprintf(json, sizeof json,
             "{\"trusted-ca\":[{\"subject-dn\":\"cn=ca ,  O = acme\",\"public-key\":\"%s\",\"algorithm\":\"EC\"}]}", ec.key);
    stored = document_normal_form(json, tenant_document_normalise);
    assert_non_null(strstr(stored, "\"subject-dn\":\"CN=ca,O=acme\""));
    assert_non_null(strstr(stored, "\"id\":\""));
    free(stored);

    snprintf(json, sizeof json, "{\"trusted-ca\":[{\"subject-dn\":\"CN=ca\",\"public-key\":\"%s\"}]}", ec.key);
    document_check_cases(&(struct document_case){json, "/trusted-ca/0/algorithm", "EC"}, 1, tenant_document_normalise);
    snprintf(json, sizeof json, "{\"trusted-ca\":[{\"subject-dn\":\"CN=ca\",\"public-key\":\"%s\"}]}", other.key);
    document_check_cases(&(struct document_case){json, "/trusted-ca/0/algorithm", "neither"}, 1, tenant_document_normalise);
    snprintf(json, sizeof json, "{\"trusted-ca\":[{\"cert\":\"%s\"}]}", other.cert);
    document_check_cases(&(struct document_case){json, "/trusted-ca/0/cert", "neither"}, 1, tenant_document_normalise);
    snprintf(json, sizeof json,
             "{\"trusted-ca\":[{\"subject-dn\":\"CN=ca\",\"public-key\":\"%s\",\"algorithm\":\"EC\","
             "\"not-before\":\"2027-01-01T00:00:00Z\",\"not-after\":\"2026-01-01T00:00:00Z\"}]}",
             ec.key);
    document_check_cases(&(struct document_case){json, "/trusted-ca/0/not-after", "before"}, 1, tenant_document_normalise);
    snprintf(json, sizeof json, "{\"trusted-ca\":[{\"cert\":\"%s\",\"auth-id-template\":\"{{subject-sn}}\"}]}", ec.cert);
    document_check_cases(&(struct document_case){json, "/trusted-ca/0/auth-id-template", "placeholder"}, 1,
                         tenant_document_normalise);
    snprintf(json, sizeof json,
             "{\"trusted-ca\":[{\"cert\":\"%s\",\"auto-provisioning-device-id-template\":\"dev-{{subject-cn}}-{{x\"}]}",
             ec.cert);
    document_check_cases(&(struct document_case){json, "/trusted-ca/0/auto-provisioning-device-id-template", NULL}, 1,
                         tenant_document_normalise);
    snprintf(json, sizeof json, "{\"trusted-ca\":[{\"cert\":\"%s\",\"id\":\"a\"},{\"cert\":\"%s\",\"id\":\"a\"}]}", ec.cert,
             ec.cert);
    document_check_cases(&(struct document_case){json, "/trusted-ca/1/id", "twice"}, 1, tenant_document_normalise);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_is_checked),
        cmocka_unit_test(a_certificate_becomes_name_key_and_validity),
        cmocka_unit_test(a_name_and_a_key_are_taken_as_they_are),
    };

    return cmocka_run_group_tests_name("tenant_document", tests, NULL, NULL);
}
