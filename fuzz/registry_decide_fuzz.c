/* Requests to the owner of the registry's table, one a line, as they come out of Kafka. Whatever they are, they end with a reply; and what belongs together
 * is there together: log-ins have their device, devices are counted, aliases have their tenant. */
#include "registry/registry_decide.h"

#include <stdint.h>
#include <stdio.h>

#include "registry/table_fixture_test.h"

#include "registry/registry_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool has_device(struct table *t, struct str login, struct str device)
{
    char key[2 * TABLE_KEY_MAX];
    struct str tenant;
    bool more, found;
    int n;

    (void)str_take(&login, '/', &more);
    tenant = str_take(&login, '/', &more);
    n = snprintf(key, sizeof key, "d/%.*s/%.*s", STR_ARG(tenant), STR_ARG(device));
    (void)table_fixture_find(t, (struct str){key, (size_t)n}, &found);
    return found;
}

static bool has_tenant(struct table *t, struct str tenant)
{
    char key[2 * TABLE_KEY_MAX];
    int n = snprintf(key, sizeof key, "t/%.*s", STR_ARG(tenant));
    bool found;

    (void)table_fixture_find(t, (struct str){key, (size_t)n}, &found);
    return found;
}

static void check(struct table *t)
{
    uint64_t n_devices = 0, n_counted = 0, n;

    for (size_t i = 0; i < t->count; i++) {
        struct str key = t->entries[i].key, value = t->entries[i].value;

        ASSERT(key.n > 2 && key.p[1] == '/');
        ASSERT(key.p[0] != 'l' || has_device(t, key, value));
        ASSERT(key.p[0] != 'a' || has_tenant(t, value));
        n_devices += key.p[0] == 'd';
        if (key.p[0] == 'n') {
            ASSERT(str_to_u64(value, INT64_MAX, &n));
            n_counted += n;
        }
    }
    ASSERT(n_devices == n_counted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct table_ops ops = {.decide = registry_decide};
    static struct table t = {.ops = &ops};
    struct str rest = {(const char *)data, size};
    bool has_more = true;

    while (has_more) {
        struct str request = str_take(&rest, '\n', &has_more);
        struct buf answer = {0};
        struct registry_reply reply;
        enum table_verdict verdict = table_fixture_decide(&t, request, &answer);

        ASSERT(registry_request_read_reply(buf_str(&answer), &reply) == E_OK);
        ASSERT((verdict == TABLE_REFUSED) == (reply.fault.status != 0));
        buf_free(&answer, MEM_TABLE);
        check(&t);
    }
    table_fixture_free(&t);
    return 0;
}
