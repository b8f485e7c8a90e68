#include "registry/tenant_document.h"

#include "base/check.h"
#include "base/moment.h"
#include "registry/certificate.h"
#include "registry/dn.h"
#include "registry/revocation_list.h"
#include "registry/uuid.h"

enum { MAX_CAS = 20, MAX_PERIOD_DAYS = 36600 };
#define MAX_SECONDS (INT64_C(100) * 366 * 24 * 3600)

static const char *const algorithms[] = {"RSA", "EC", NULL};
static const char *const period_modes[] = {"days", "monthly", NULL};
static const char *const sampling_modes[] = {"default", "all", "none", NULL};

static const struct schema_member adapter_members[] = {
    {"type", SCHEMA_TEXT, SCHEMA_REQUIRED, SCHEMA_DEVICE_ID, 1, 100, .help = "The adapter: hono-mqtt, hono-http ..."},
    {"enabled", SCHEMA_BOOL, .help = "Whether the tenant's devices may use it. The default is false."},
    {"device-authentication-required", SCHEMA_BOOL, .help = "Whether devices must log in. The default is true."},
    {"ext", SCHEMA_FREE, .help = "Settings of the adapter, as max-ttd, and anything else."},
};
static const struct schema adapter_schema = {"Adapter", adapter_members, ARRAY_LEN(adapter_members)};

static const struct schema_member registration_limits_members[] = {
    {"max-devices", SCHEMA_INTEGER, .min = -1, .help = "How many devices the tenant may have; -1 is no bound, the default."},
    {"max-credentials-per-device", SCHEMA_INTEGER, .min = -1,
     .help = "How many credentials a device may have; -1 is no bound, the default."},
};
static const struct schema registration_limits_schema = {"RegistrationLimits", registration_limits_members,
                                                         ARRAY_LEN(registration_limits_members)};

static const struct schema_member period_members[] = {
    {"mode", SCHEMA_TEXT, SCHEMA_REQUIRED, .choices = period_modes, .help = "Calendar months, or a number of days."},
    {"no-of-days", SCHEMA_INTEGER, .min = 1, .max = MAX_PERIOD_DAYS, .help = "How many days, with the mode days."},
};
static const struct schema period_schema = {"Period", period_members, ARRAY_LEN(period_members)};

static const struct schema_member data_volume_members[] = {
    {"effective-since", SCHEMA_TEXT, SCHEMA_REQUIRED, SCHEMA_TIME, 1, 64, .help = "From when on it counts."},
    {"max-bytes", SCHEMA_INTEGER, .min = -1, .help = "The most bytes in a period; -1 is no bound, the default."},
    {"period", SCHEMA_OBJECT, .of = &period_schema, .help = "How long a period is."},
};
static const struct schema data_volume_schema = {"DataVolume", data_volume_members, ARRAY_LEN(data_volume_members)};

static const struct schema_member duration_members[] = {
    {"effective-since", SCHEMA_TEXT, SCHEMA_REQUIRED, SCHEMA_TIME, 1, 64, .help = "From when on it counts."},
    {"max-minutes", SCHEMA_INTEGER, .min = -1, .help = "The most minutes in a period; -1 is no bound, the default."},
    {"period", SCHEMA_OBJECT, .of = &period_schema, .help = "How long a period is."},
};
static const struct schema duration_schema = {"ConnectionDuration", duration_members, ARRAY_LEN(duration_members)};

static const struct schema_member resource_limits_members[] = {
    {"max-connections", SCHEMA_INTEGER, .min = -1, .help = "Connections at a time; -1 is no bound, the default."},
    {"max-ttl", SCHEMA_INTEGER, .min = -1, .max = MAX_SECONDS, .help = "The longest time to live of an event, in seconds."},
    {"max-ttl-telemetry-qos0", SCHEMA_INTEGER, .min = -1, .max = MAX_SECONDS, .help = "The same for telemetry with QoS 0."},
    {"max-ttl-telemetry-qos1", SCHEMA_INTEGER, .min = -1, .max = MAX_SECONDS, .help = "The same for telemetry with QoS 1."},
    {"max-ttl-command-response", SCHEMA_INTEGER, .min = -1, .max = MAX_SECONDS, .help = "The same for responses to commands."},
    {"data-volume", SCHEMA_OBJECT, .of = &data_volume_schema, .help = "How much the tenant's devices may send and get."},
    {"connection-duration", SCHEMA_OBJECT, .of = &duration_schema, .help = "How long they may be connected."},
    {"ext", SCHEMA_FREE, .help = "Anything else."},
};
static const struct schema resource_limits_schema = {"ResourceLimits", resource_limits_members,
                                                     ARRAY_LEN(resource_limits_members)};

static const struct schema_member tracing_members[] = {
    {"sampling-mode", SCHEMA_TEXT, .choices = sampling_modes, .help = "Whether traces of the tenant are recorded."},
    {"sampling-mode-per-auth-id", SCHEMA_MAP, .choices = sampling_modes, .help = "The same for single devices, by auth-id."},
};
static const struct schema tracing_schema = {"Tracing", tracing_members, ARRAY_LEN(tracing_members)};

static const struct schema_member ca_members[] = {
    {"id", SCHEMA_TEXT, 0, SCHEMA_DEVICE_ID, 1, SCHEMA_MAX_ID_BYTES, .help = "Given if it is not there."},
    {"cert", SCHEMA_TEXT, SCHEMA_WRITE_ONLY, SCHEMA_BASE64, 1, SCHEMA_MAX_TEXT_BYTES,
     .help = "The CA's certificate, DER in base64: instead of name, key and validity, which are taken from it."},
    {"subject-dn", SCHEMA_TEXT, 0, SCHEMA_DN, 1, DN_BYTES, .help = "The CA's name (RFC 2253)."},
    {"public-key", SCHEMA_TEXT, 0, SCHEMA_BASE64, 1, CERTIFICATE_KEY_BYTES, .help = "Its public key, DER in base64."},
    {"algorithm", SCHEMA_TEXT, .choices = algorithms, .help = "Of the key. The default is RSA."},
    {"not-before", SCHEMA_TEXT, 0, SCHEMA_TIME, 1, 64, .help = "Before that it is not trusted."},
    {"not-after", SCHEMA_TEXT, 0, SCHEMA_TIME, 1, 64, .help = "After that it is not trusted."},
    {"auth-id-template", SCHEMA_TEXT, .min = 1, .max = 256,
     .help = "What of a client's certificate is its auth-id: a text with {{subject-dn}}, {{subject-cn}}, {{subject-ou}}, "
             "{{subject-o}}."},
    {"auto-provisioning-enabled", SCHEMA_BOOL, .help = "Whether unknown devices with its certificates are registered."},
    {"auto-provision-as-gateway", SCHEMA_BOOL, .help = "Whether they are then gateways that may register devices."},
    {"auto-provisioning-device-id-template", SCHEMA_TEXT, .min = 1, .max = 256,
     .help = "Their ids, a text as of auth-id-template."},
    {"crl", SCHEMA_TEXT, 0, SCHEMA_BASE64, 1, SCHEMA_MAX_TEXT_BYTES,
     .help = "A list of what it has revoked, DER in base64; longer ones go into authentication.revocation.crl_dir."},
    {"ocsp-revocation-enabled", SCHEMA_BOOL, .help = "Whether a responder is asked if a certificate is revoked."},
    {"ocsp-responder-uri", SCHEMA_TEXT, 0, SCHEMA_URI, 1, 1024, .help = "Which one, instead of that in the certificate."},
    {"ocsp-responder-cert", SCHEMA_TEXT, 0, SCHEMA_BASE64, 1, SCHEMA_MAX_TEXT_BYTES, .help = "Whose answers it signs."},
    {"ocsp-nonce-enabled", SCHEMA_BOOL, .help = "Whether requests have a nonce."},
};
static const struct schema ca_schema = {"TrustedCA", ca_members, ARRAY_LEN(ca_members)};

static const struct schema_member tenant_members[] = {
    {"enabled", SCHEMA_BOOL, .help = "If false, none of its devices can connect. The default is true."},
    {"alias", SCHEMA_TEXT, 0, SCHEMA_ALIAS, 1, 63,
     .help = "Another name, for the host name that a TLS client asks for. Unique."},
    {"ext", SCHEMA_FREE, .help = "Anything."},
    {"adapters", SCHEMA_LIST, .min = 1, .max = 32, .of = &adapter_schema,
     .help = "Those it uses; absent: all, with authentication."},
    {"defaults", SCHEMA_SCALARS, .help = "Headers of its devices' records that neither device nor message set."},
    {"minimum-message-size", SCHEMA_INTEGER, .max = INT32_MAX, .help = "A payload counts as a multiple of that many bytes."},
    {"registration-limits", SCHEMA_OBJECT, .of = &registration_limits_schema, .help = "How much may be registered."},
    {"resource-limits", SCHEMA_OBJECT, .of = &resource_limits_schema, .help = "How much may be used."},
    {"tracing", SCHEMA_OBJECT, .of = &tracing_schema, .help = "What is traced."},
    {"trust-anchor-group", SCHEMA_TEXT, 0, SCHEMA_DEVICE_ID, 1, SCHEMA_MAX_ID_BYTES,
     .help = "Tenants of one group may trust the same CA."},
    {"trusted-ca", SCHEMA_LIST, .max = MAX_CAS, .of = &ca_schema, .help = "CAs of its devices' certificates."},
    {"downstream-message-mapper", SCHEMA_TEXT, .min = 1, .max = 249, .help = "What rewrites its devices' messages, by name."},
    {"upstream-message-mapper", SCHEMA_TEXT, .min = 1, .max = 249, .help = "What rewrites commands, by name."},
};
const struct schema tenant_schema = {"Tenant", tenant_members, ARRAY_LEN(tenant_members)};

static err check_adapters(const json_t *tenant, struct document_fault *fault)
{
    struct document_place place = document_member(NULL, "adapters");
    const json_t *adapters = json_object_get(tenant, "adapters");

    for (size_t i = 0; i < json_array_size(adapters); i++)
        for (size_t k = 0; k < i; k++)
            if (str_equal(document_get_text(json_array_get(adapters, i), "type"),
                          document_get_text(json_array_get(adapters, k), "type"))) {
                struct document_place element = document_element(&place, i), here = document_member(&element, "type");

                return document_refuse(fault, 400, &here, "is there twice");
            }
    return E_OK;
}

static err check_period(const json_t *tenant, const char *name, struct document_fault *fault)
{
    const json_t *limits = json_object_get(tenant, "resource-limits");
    const json_t *period = json_object_get(json_object_get(limits, name), "period");
    struct document_place outer = document_member(NULL, "resource-limits"), limit = document_member(&outer, name),
                          place = document_member(&limit, "period"), here = document_member(&place, "no-of-days");

    if (str_equal(document_get_text(period, "mode"), STR("days")) && !json_object_get(period, "no-of-days"))
        return document_refuse(fault, 400, &here, "is missing: the mode is days");
    return E_OK;
}

static void set_time(json_t *object, const char *name, int64_t ms)
{
    char text[MOMENT_BYTES];

    document_set_text(object, name, (struct str){text, moment_format(ms, text)});
}

/* What a certificate says takes the place of the certificate. */
static err take_certificate(json_t *ca, const struct document_place *place, struct document_fault *fault)
{
    static const char *const derived[] = {"subject-dn", "public-key", "not-before", "not-after"};
    struct document_place here = document_member(place, "cert");
    struct certificate cert;

    for (size_t i = 0; i < ARRAY_LEN(derived); i++) {
        struct document_place other = document_member(place, derived[i]);

        if (json_object_get(ca, derived[i]))
            return document_refuse(fault, 400, &other, "and cert exclude each other: it is taken from the certificate");
    }
    if (certificate_read(document_get_text(ca, "cert"), &cert) != E_OK)
        return document_refuse(fault, 400, &here, "is not an X.509 certificate (DER in base64)");
    if (!cert.algorithm)
        return document_refuse(fault, 400, &here, "has a key that is neither RSA nor EC");
    (void)json_object_del(ca, "cert"); /* it is there */
    document_set_text(ca, "subject-dn", (struct str){cert.subject, cert.subject_n});
    document_set_text(ca, "public-key", (struct str){cert.key, cert.key_n});
    document_set_text(ca, "algorithm", str_from(cert.algorithm));
    set_time(ca, "not-before", cert.not_before_ms);
    set_time(ca, "not-after", cert.not_after_ms);
    return E_OK;
}

static err take_key(json_t *ca, const struct document_place *place, struct document_fault *fault)
{
    struct document_place name = document_member(place, "subject-dn"), key = document_member(place, "public-key"),
                          algorithm = document_member(place, "algorithm");
    const char *is = NULL;
    char dn[DN_BYTES];
    size_t n;

    if (!json_object_get(ca, "subject-dn"))
        return document_refuse(fault, 400, &name, "is missing, and cert, too");
    if (!json_object_get(ca, "public-key"))
        return document_refuse(fault, 400, &key, "is missing, and cert, too");
    if (!json_object_get(ca, "algorithm"))
        document_set_text(ca, "algorithm", STR("RSA"));
    if (certificate_read_key(document_get_text(ca, "public-key"), &is) != E_OK)
        return document_refuse(fault, 400, &key, "is not a public key (DER of SubjectPublicKeyInfo in base64)");
    if (!is || !str_equal(document_get_text(ca, "algorithm"), str_from(is)))
        return document_refuse(fault, 400, &algorithm, "is not that of the key, %s", is ? is : "which is neither RSA nor EC");
    if (dn_canonical(document_get_text(ca, "subject-dn"), dn, &n) != E_OK)
        return document_refuse(fault, 400, &name, "is too long");
    document_set_text(ca, "subject-dn", (struct str){dn, n});
    return E_OK;
}

static err check_validity(const json_t *ca, const struct document_place *place, struct document_fault *fault)
{
    struct document_place here = document_member(place, "not-after");
    int64_t from, to;

    if (moment_parse(document_get_text(ca, "not-before"), &from) == E_OK &&
        moment_parse(document_get_text(ca, "not-after"), &to) == E_OK && to < from)
        return document_refuse(fault, 400, &here, "is before not-before");
    return E_OK;
}

static err check_template(const json_t *ca, const char *name, const struct document_place *place, struct document_fault *fault)
{
    struct document_place here = document_member(place, name);

    if (!dn_is_template(document_get_text(ca, name)))
        return document_refuse(fault, 400, &here, "has a placeholder that is none of {{subject-dn}}, -cn, -ou, -o");
    return E_OK;
}

static err check_list(const json_t *ca, const struct document_place *place, struct document_fault *fault)
{
    struct document_place here = document_member(place, "crl");
    struct str list = document_get_text(ca, "crl");
    const char *what =
        list.n ? revocation_list_fault(list, document_get_text(ca, "subject-dn"), document_get_text(ca, "public-key")) : NULL;

    return what ? document_refuse(fault, 400, &here, "%s", what) : E_OK;
}

static err check_responder(const json_t *ca, const struct document_place *place, struct document_fault *fault)
{
    struct document_place here = document_member(place, "ocsp-responder-cert");
    struct str text = document_get_text(ca, "ocsp-responder-cert");
    struct certificate cert;

    if (text.n && certificate_read(text, &cert) != E_OK)
        return document_refuse(fault, 400, &here, "is not an X.509 certificate (DER in base64)");
    return E_OK;
}

static err normalise_ca(json_t *ca, const struct document_place *place, struct document_fault *fault)
{
    char id[UUID_BYTES];
    err e = json_object_get(ca, "cert") ? take_certificate(ca, place, fault) : take_key(ca, place, fault);

    if (e == E_OK)
        e = check_validity(ca, place, fault);
    if (e == E_OK)
        e = check_template(ca, "auth-id-template", place, fault);
    if (e == E_OK)
        e = check_template(ca, "auto-provisioning-device-id-template", place, fault);
    if (e == E_OK)
        e = check_list(ca, place, fault);
    if (e == E_OK)
        e = check_responder(ca, place, fault);
    if (e == E_OK && !json_object_get(ca, "id"))
        document_set_text(ca, "id", uuid_make(id));
    return e;
}

const json_t *tenant_document_find_ca(const json_t *tenant, struct str subject_dn)
{
    const json_t *cas = json_object_get(tenant, "trusted-ca");

    for (size_t i = 0; i < json_array_size(cas); i++)
        if (str_equal(document_get_text(json_array_get(cas, i), "subject-dn"), subject_dn))
            return json_array_get(cas, i);
    return NULL;
}

static err normalise_cas(json_t *tenant, struct document_fault *fault)
{
    struct document_place place = document_member(NULL, "trusted-ca");
    json_t *cas = json_object_get(tenant, "trusted-ca");

    for (size_t i = 0; i < json_array_size(cas); i++) {
        struct document_place here = document_element(&place, i), id = document_member(&here, "id");
        json_t *ca = json_array_get(cas, i);

        if (normalise_ca(ca, &here, fault) != E_OK)
            return E_INVAL;
        for (size_t k = 0; k < i; k++)
            if (str_equal(document_get_text(json_array_get(cas, k), "id"), document_get_text(ca, "id")))
                return document_refuse(fault, 400, &id, "is there twice");
    }
    return E_OK;
}

err tenant_document_normalise(json_t *tenant, struct document_fault *fault)
{
    err e = schema_check(&tenant_schema, tenant, NULL, fault);

    if (e == E_OK)
        e = check_adapters(tenant, fault);
    if (e == E_OK)
        e = check_period(tenant, "data-volume", fault);
    if (e == E_OK)
        e = check_period(tenant, "connection-duration", fault);
    return e == E_OK ? normalise_cas(tenant, fault) : e;
}
