/* Files that `millrace import` is given: passwords and access of Mosquitto, exports of Hono. The first byte says which. What is in the list at the end must go
 * as lines of JSON. */
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "main/import_hono.h"
#include "main/import_mosquitto.h"

static void tell(void *context, enum import_kind kind, struct import_place place, const char *text)
{
    (void)kind;
    ASSERT(context && place.file && text[0]);
}

static void check_text(const char *before, const char *text, const char *behind)
{
    char whole[8192];
    int n = snprintf(whole, sizeof whole, "%s%s%s", before, text, behind);
    json_t *value;

    if (n < 0 || (size_t)n >= sizeof whole)
        return;
    value = json_loads(whole, 0, NULL);
    ASSERT(value);
    json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct import_list list = {.tell = tell, .context = &list};
    struct import_acl_counts counts = {0};
    struct str text = {(const char *)data + 1, size - 1};
    struct errinfo ei = {0};

    if (size == 0)
        return 0;
    list.only_tenant = data[0] & 1 ? "t" : NULL;
    if (data[0] & 2) {
        ERR_IGNORE(import_hono_read(&list, "file", text, &ei)); /* as far as it goes */
        import_hono_check(&list);
    } else {
        import_mosquitto_read_passwords(&list, STR("t"), "file", text);
        import_mosquitto_read_acl(&list, STR("t"), "file", text, &counts);
        ASSERT(counts.n_held + counts.n_gateway <= counts.n_lines);
    }
    for (const struct import_tenant *ten = list.tenants; ten; ten = ten->next)
        for (const struct import_device *d = ten->first; d; d = d->next) {
            if (d->device)
                check_text("", d->device, "");
            if (d->credentials)
                check_text("[", d->credentials, "]");
        }
    import_list_fini(&list);
    ASSERT(mem_used(MEM_REGISTRY) == 0);
    return 0;
}
