#include "registry/principal.h"

#include "registry/registry.h"

struct principal principal_copy(const struct principal *principal)
{
    if (principal->tenant && principal->tenant->registry)
        (void)registry_ref(principal->tenant->registry); /* held by the copy */
    return *principal;
}

void principal_release(struct principal *principal)
{
    if (principal->tenant)
        registry_unref(principal->tenant->registry);
    *principal = (struct principal){0};
}
