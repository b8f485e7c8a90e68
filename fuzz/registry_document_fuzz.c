/* Documents and search parameters of the management interface, from anybody who may speak to it. The first byte says which. What was taken once must be taken
 * again in the form in which it is shown. */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/moment.h"
#include "registry/certificate.h"
#include "registry/credentials_document.h"
#include "registry/device_document.h"
#include "registry/dn.h"
#include "registry/registry_search.h"
#include "registry/tenant_document.h"

enum { MAX_COST = 10 };

typedef err (*normalise)(json_t *value, struct document_fault *fault);

static err credentials(json_t *value, struct document_fault *fault)
{
    return credentials_document_normalise(value, MAX_COST, fault);
}

static void check_fault(err e, const struct document_fault *fault)
{
    ASSERT((e == E_OK) == (fault->status == 0));
    ASSERT(e == E_OK || fault->text[0]);
}

static void read_document(struct str text, normalise check, bool is_shown_as_it_is)
{
    struct document_fault fault = {0};
    json_t *value = NULL;
    err e = document_parse(text, true, &value, &fault);

    if (e == E_OK)
        e = check(value, &fault);
    check_fault(e, &fault);
    if (e == E_OK && is_shown_as_it_is)
        ASSERT(check(value, &fault) == E_OK);
    if (e == E_OK && !is_shown_as_it_is) {
        ERR_IGNORE(credentials_document_merge(value, NULL, &fault)); /* secrets named by id are not there */
        credentials_document_conceal(value);
    }
    json_decref(value);
}

static void read_filter(struct str text)
{
    struct registry_search search = {0};
    struct document_fault fault = {0};
    err e = registry_search_add_filter(&search, text, &fault);

    check_fault(e, &fault);
    fault = (struct document_fault){0};
    e = registry_search_add_sort(&search, text, &fault);
    check_fault(e, &fault);
    registry_search_end(&search);
}

/* The pattern ends at the first line feed. */
static void match(struct str text)
{
    bool has_text;
    struct str pattern = str_take(&text, '\n', &has_text);

    (void)registry_search_matches(pattern, text);
    ASSERT(registry_search_matches(text, text) || memchr(text.p ? text.p : "", '?', text.n));
}

static void read_name(struct str text)
{
    char name[DN_BYTES], again[DN_BYTES];
    size_t n, again_n;
    int64_t ms;

    if (dn_canonical(text, name, &n) == E_OK) {
        ASSERT(dn_canonical((struct str){name, n}, again, &again_n) == E_OK);
        ASSERT(str_equal((struct str){name, n}, (struct str){again, again_n}));
        ERR_IGNORE(dn_find((struct str){name, n}, STR("CN"), again, &again_n)); /* or there is none */
    }
    ERR_IGNORE(dn_expand(text, STR("CN=a,O=b"), again, &again_n)); /* or it is no template */
    if (moment_parse(text, &ms) == E_OK) {
        char written[MOMENT_BYTES];
        int64_t same;
        size_t written_n = moment_format(ms, written);

        ASSERT(text.p[0] == '0' || (moment_parse((struct str){written, written_n}, &same) == E_OK && same == ms));
    }
}

static void read_certificate(struct str text)
{
    static struct certificate read;
    const char *algorithm;

    ERR_IGNORE(certificate_read(text, &read));          /* or it is none */
    ERR_IGNORE(certificate_read_key(text, &algorithm)); /* likewise */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data + 1, size ? size - 1 : 0};

    switch (size ? data[0] : 't') {
    case 't':
        read_document(text, tenant_document_normalise, true);
        break;
    case 'd':
        read_document(text, device_document_normalise, true);
        break;
    case 'c':
        read_document(text, credentials, false);
        break;
    case 'f':
        read_filter(text);
        break;
    case 'm':
        match(text);
        break;
    case 'n':
        read_name(text);
        break;
    default:
        read_certificate(text);
        break;
    }
    return 0;
}
