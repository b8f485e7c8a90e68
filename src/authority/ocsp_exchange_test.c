#include "authority/ocsp_exchange.h"

#include <time.h>

#include "registry/chain_fixture_test.h"

#include <openssl/ocsp.h>

#include "base/check.h"
#include "base/mem.h"

enum { RESPONSE_BYTES = 8192, HOUR_S = 3600 };

static struct chain_fixture_party root, other, device, neighbour, named, unnamed, over, impostor;

static int make_parties(void **state)
{
    const struct chain_fixture_traits responder = {.extension = "extendedKeyUsage", .value = "OCSPSigning"};

    (void)state;
    root = chain_fixture_issue("root", NULL, (struct chain_fixture_traits){.is_ca = true});
    other = chain_fixture_issue("root", NULL, (struct chain_fixture_traits){.is_ca = true}); /* of the same name */
    device = chain_fixture_issue("device", &root,
                                 (struct chain_fixture_traits){
                                     .extension = "authorityInfoAccess",
                                     .value = "caIssuers;URI:http://ca/root,OCSP;URI:ldap://ca/,OCSP;URI:http://ca:8080/ocsp"});
    neighbour = chain_fixture_issue("neighbour", &root, (struct chain_fixture_traits){0});
    named = chain_fixture_issue("responder", &root, responder);
    unnamed = chain_fixture_issue("responder", &root, (struct chain_fixture_traits){0});
    over = chain_fixture_issue("responder", &root,
                               (struct chain_fixture_traits){
                                   .extension = responder.extension, .value = responder.value, .from_days = -9, .to_days = -1});
    impostor = chain_fixture_issue("responder", &other, responder);
    return 0;
}

static int free_parties(void **state)
{
    struct chain_fixture_party *all[] = {&root, &other, &device, &neighbour, &named, &unnamed, &over, &impostor};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        chain_fixture_free(all[i]);
    return 0;
}

/* What is particular about a response; all-zero but for the signer is one that is good, by its name, from an hour ago to in an hour. */
struct traits {
    const struct chain_fixture_party *signer;
    int status;                              /* V_OCSP_CERTSTATUS_GOOD is 0 */
    int from_s, to_s;                        /* from now; both 0: as above */
    bool is_endless, is_by_key, is_bare;     /* bare: without the signer's certificate */
    const struct chain_fixture_party *about; /* NULL: the device */
    const char *digest;                      /* NULL: SHA256 */
    bool has_nonce, has_other_nonce;
};

static struct str respond(const struct ocsp_exchange *x, const struct traits *t)
{
    static unsigned char der[RESPONSE_BYTES];
    unsigned char *end = der;
    bool is_usual = t->from_s == 0 && t->to_s == 0;
    ASN1_TIME *from = X509_gmtime_adj(NULL, is_usual ? -HOUR_S : t->from_s),
              *to = X509_gmtime_adj(NULL, is_usual ? HOUR_S : t->to_s);
    OCSP_CERTID *id = OCSP_cert_to_id(EVP_sha1(), t->about ? t->about->cert : device.cert, root.cert);
    OCSP_BASICRESP *basic = OCSP_BASICRESP_new();
    OCSP_RESPONSE *response;
    int n;

    assert_non_null(OCSP_basic_add1_status(basic, id, t->status, OCSP_REVOKED_STATUS_NOSTATUS, t->status == 1 ? from : NULL,
                                           from, t->is_endless ? NULL : to));
    if (t->has_nonce)
        assert_true(OCSP_copy_nonce(basic, x->request) > 0);
    if (t->has_other_nonce)
        assert_int_equal(OCSP_basic_add1_nonce(basic, NULL, -1), 1);
    assert_int_equal(OCSP_basic_sign(basic, t->signer->cert, t->signer->key,
                                     EVP_get_digestbyname(t->digest ? t->digest : "SHA256"), NULL,
                                     (t->is_by_key ? OCSP_RESPID_KEY : 0) | (t->is_bare ? OCSP_NOCERTS : 0)),
                     1);
    response = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic);
    n = i2d_OCSP_RESPONSE(response, NULL);
    assert_true(n > 0 && n <= RESPONSE_BYTES);
    (void)i2d_OCSP_RESPONSE(response, &end);
    OCSP_RESPONSE_free(response);
    OCSP_BASICRESP_free(basic);
    OCSP_CERTID_free(id);
    ASN1_TIME_free(from);
    ASN1_TIME_free(to);
    return (struct str){(const char *)der, (size_t)n};
}

static void an_answer_counts_if_it_is_from_whom_the_ca_says(void **state)
{
    static const struct {
        const char *what;
        struct traits traits;
        enum ocsp_status want;
    } rows[] = {
        {"by the CA", {.signer = &root}, OCSP_GOOD},
        {"by the CA, without its certificate", {.signer = &root, .is_bare = true}, OCSP_GOOD},
        {"by the CA, known by its key", {.signer = &root, .is_bare = true, .is_by_key = true}, OCSP_GOOD},
        {"revoked", {.signer = &root, .status = V_OCSP_CERTSTATUS_REVOKED}, OCSP_REVOKED},
        {"unknown", {.signer = &root, .status = V_OCSP_CERTSTATUS_UNKNOWN}, OCSP_UNKNOWN},
        {"by whom it has named", {.signer = &named}, OCSP_GOOD},
        {"revoked, by whom it has named", {.signer = &named, .status = V_OCSP_CERTSTATUS_REVOKED}, OCSP_REVOKED},
        {"by whom it has named, who is not shown", {.signer = &named, .is_bare = true}, OCSP_UNTRUSTED},
        {"by somebody it has not named for that", {.signer = &unnamed}, OCSP_UNTRUSTED},
        {"by the device", {.signer = &device}, OCSP_UNTRUSTED},
        {"by somebody whose time is over", {.signer = &over}, OCSP_UNTRUSTED},
        {"by somebody whom another CA of that name has named", {.signer = &impostor}, OCSP_UNTRUSTED},
        {"by another CA of that name", {.signer = &other}, OCSP_UNTRUSTED},
        {"with a digest that is too weak", {.signer = &root, .digest = "SHA1"}, OCSP_UNTRUSTED},
        {"about another certificate", {.signer = &root, .about = &neighbour}, OCSP_MALFORMED},
        {"over", {.signer = &root, .from_s = -2 * HOUR_S, .to_s = -HOUR_S}, OCSP_OLD},
        {"over, as far as clocks may differ", {.signer = &root, .from_s = -2 * HOUR_S, .to_s = -100}, OCSP_GOOD},
        {"from the future", {.signer = &root, .from_s = HOUR_S, .to_s = 2 * HOUR_S}, OCSP_OLD},
        {"without an end", {.signer = &root, .from_s = -HOUR_S, .is_endless = true}, OCSP_GOOD},
        {"without an end, of long ago", {.signer = &root, .from_s = -30 * HOUR_S, .is_endless = true}, OCSP_OLD},
    };
    int64_t now_s = (int64_t)time(NULL), until_s;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct ocsp_exchange x;

        assert_int_equal(ocsp_exchange_init(&x, device.cert, root.cert, (struct str){0}, false), E_OK);
        if (ocsp_exchange_read(&x, respond(&x, &rows[i].traits), now_s, &until_s) != rows[i].want)
            fail_msg("%s", rows[i].what);
        if (rows[i].traits.is_endless && rows[i].want == OCSP_GOOD)
            assert_int_equal(until_s, now_s + OCSP_EXCHANGE_FRESH_S);
        ocsp_exchange_fini(&x);
    }
}

static void a_responder_that_the_tenant_gives_is_the_only_one(void **state)
{
    struct traits traits = {.signer = &unnamed};
    int64_t now_s = (int64_t)time(NULL), until_s;
    char text[4096] = "";
    struct ocsp_exchange x;

    (void)state;
    (void)base64_encode(chain_fixture_der(&unnamed), text);
    assert_int_equal(ocsp_exchange_init(&x, device.cert, root.cert, str_from(text), false), E_OK);
    assert_int_equal(ocsp_exchange_read(&x, respond(&x, &traits), now_s, &until_s), OCSP_GOOD);
    assert_in_range(until_s, now_s + HOUR_S - 60, now_s + HOUR_S + 60);
    traits.is_bare = true;
    assert_int_equal(ocsp_exchange_read(&x, respond(&x, &traits), now_s, &until_s), OCSP_GOOD);
    assert_int_equal(ocsp_exchange_read(&x, respond(&x, &(struct traits){.signer = &root}), now_s, &until_s), OCSP_UNTRUSTED);
    assert_int_equal(ocsp_exchange_read(&x, respond(&x, &(struct traits){.signer = &named}), now_s, &until_s), OCSP_UNTRUSTED);
    ocsp_exchange_fini(&x);
    assert_int_equal(ocsp_exchange_init(&x, device.cert, root.cert, STR("AAAA"), false), E_INVAL);
    ocsp_exchange_fini(&x);
}

static void a_nonce_has_to_come_back(void **state)
{
    static const struct {
        struct traits traits;
        enum ocsp_status want;
    } rows[] = {
        {{.signer = &root, .has_nonce = true}, OCSP_GOOD},
        {{.signer = &root}, OCSP_REPLAYED},
        {{.signer = &root, .has_other_nonce = true}, OCSP_REPLAYED},
    };
    int64_t now_s = (int64_t)time(NULL), until_s;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct ocsp_exchange x;

        assert_int_equal(ocsp_exchange_init(&x, device.cert, root.cert, (struct str){0}, true), E_OK);
        assert_int_equal(ocsp_exchange_read(&x, respond(&x, &rows[i].traits), now_s, &until_s), rows[i].want);
        ocsp_exchange_fini(&x);
    }
}

static void what_is_no_answer_tells_nothing(void **state)
{
    static const char try_later[] = {0x30, 0x03, 0x0a, 0x01, 0x03};
    const struct {
        struct str body;
        enum ocsp_status want;
    } rows[] = {
        {STR(""), OCSP_MALFORMED},
        {STR("nonsense"), OCSP_MALFORMED},
        {chain_fixture_der(&device), OCSP_MALFORMED},
        {{try_later, sizeof try_later}, OCSP_REFUSED},
    };
    int64_t now_s = (int64_t)time(NULL), until_s;
    struct ocsp_exchange x;
    struct str whole;

    (void)state;
    assert_int_equal(ocsp_exchange_init(&x, device.cert, root.cert, (struct str){0}, false), E_OK);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(ocsp_exchange_read(&x, rows[i].body, now_s, &until_s), rows[i].want);
    whole = respond(&x, &(struct traits){.signer = &root});
    for (size_t n = 0; n < whole.n; n++)
        assert_int_not_equal(ocsp_exchange_read(&x, (struct str){whole.p, n}, now_s, &until_s), OCSP_GOOD);
    ocsp_exchange_fini(&x);
}

static void a_request_is_about_the_certificate(void **state)
{
    struct buf request = {0};
    struct ocsp_exchange x;
    OCSP_REQUEST *read;
    const unsigned char *p;

    (void)state;
    assert_int_equal(ocsp_exchange_init(&x, device.cert, root.cert, (struct str){0}, true), E_OK);
    assert_int_equal(ocsp_exchange_write(&x, &request), E_OK);
    p = (const unsigned char *)buf_str(&request).p;
    read = d2i_OCSP_REQUEST(NULL, &p, (long)buf_size(&request));
    assert_non_null(read);
    assert_int_equal(OCSP_request_onereq_count(read), 1);
    assert_int_equal(OCSP_id_cmp(OCSP_onereq_get0_id(OCSP_request_onereq_get0(read, 0)), x.id), 0);
    assert_true(OCSP_REQUEST_get_ext_by_NID(read, NID_id_pkix_OCSP_Nonce, -1) >= 0);
    OCSP_REQUEST_free(read);
    buf_free(&request, MEM_HTTP);
    ocsp_exchange_fini(&x);
}

static void a_certificate_says_whom_to_ask(void **state)
{
    char uri[OCSP_EXCHANGE_URI_BYTES];

    (void)state;
    assert_true(str_equal((struct str){uri, ocsp_exchange_find_uri(device.cert, uri)}, STR("http://ca:8080/ocsp")));
    assert_int_equal(ocsp_exchange_find_uri(neighbour.cert, uri), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_counts_if_it_is_from_whom_the_ca_says),
        cmocka_unit_test(a_responder_that_the_tenant_gives_is_the_only_one),
        cmocka_unit_test(a_nonce_has_to_come_back),
        cmocka_unit_test(what_is_no_answer_tells_nothing),
        cmocka_unit_test(a_request_is_about_the_certificate),
        cmocka_unit_test(a_certificate_says_whom_to_ask),
    };

    return cmocka_run_group_tests_name("ocsp_exchange", tests, make_parties, free_parties);
}
