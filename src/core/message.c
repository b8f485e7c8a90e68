#include "core/message.h"

#include "base/mem.h"

enum { MS_PER_S = 1000 };

struct message *message_new(struct str tenant, struct str topic, struct str payload, size_t properties_bytes)
{
    struct message *m = mem_try_alloc(MEM_MESSAGE, sizeof *m + tenant.n + topic.n + payload.n + properties_bytes);
    char *at;

    if (!m)
        return NULL;
    memset(m, 0, sizeof *m);
    atomic_init(&m->refs, 1);
    at = m->bytes;
    m->properties = (struct str){at, properties_bytes};
    at += properties_bytes;
    m->tenant = str_put(&at, tenant);
    m->topic = str_put(&at, topic);
    m->payload = str_put(&at, payload);
    return m;
}

char *message_properties(struct message *m)
{
    return m->bytes;
}

void message_set_client_id(struct message *m, size_t properties_bytes, struct str id)
{
    if (id.n)
        memcpy(m->bytes + properties_bytes, id.p, id.n);
    m->client_id = (struct str){m->bytes + properties_bytes, id.n};
    m->properties.n = properties_bytes;
}

struct message *message_ref(struct message *m)
{
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

void message_unref(struct message *m)
{
    if (m && atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) == 1)
        mem_free(MEM_MESSAGE, m);
}

bool message_is_alive(const struct message *m, uint64_t now_ms, uint32_t *out_left_s)
{
    uint64_t waited_s = now_ms > m->received_ms ? (now_ms - m->received_ms) / MS_PER_S : 0;

    if (!m->has_expiry) {
        *out_left_s = 0;
        return true;
    }
    if (waited_s >= m->expiry_s)
        return false;
    *out_left_s = m->expiry_s - (uint32_t)waited_s;
    return true;
}
