#include "adapter/mqtt/mqtt_aliases.h"

#include <string.h>

#include "base/mem.h"

struct mqtt_aliases {
    uint16_t maximum;
    struct str topics[]; /* by alias - 1; owned */
};

err mqtt_aliases_set(struct mqtt_aliases **aliases, uint16_t maximum, uint16_t alias, struct str topic)
{
    struct mqtt_aliases *all = *aliases;
    char *copy = mem_try_alloc(MEM_ADAPTER, topic.n);

    if (!all) {
        size_t size = sizeof *all + maximum * sizeof *all->topics;

        all = mem_try_alloc(MEM_ADAPTER, size);
        if (all) {
            memset(all, 0, size);
            all->maximum = maximum;
            *aliases = all;
        }
    }
    if (!copy || !all) {
        mem_free(MEM_ADAPTER, copy);
        return E_NOMEM;
    }
    memcpy(copy, topic.p, topic.n);
    mem_free(MEM_ADAPTER, (void *)(uintptr_t)all->topics[alias - 1].p);
    all->topics[alias - 1] = (struct str){copy, topic.n};
    return E_OK;
}

struct str mqtt_aliases_find(const struct mqtt_aliases *aliases, uint16_t alias)
{
    return aliases && alias <= aliases->maximum ? aliases->topics[alias - 1] : (struct str){0};
}

void mqtt_aliases_free(struct mqtt_aliases *aliases)
{
    if (!aliases)
        return;
    for (uint16_t i = 0; i < aliases->maximum; i++)
        mem_free(MEM_ADAPTER, (void *)(uintptr_t)aliases->topics[i].p);
    mem_free(MEM_ADAPTER, aliases);
}
