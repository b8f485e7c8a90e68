#include "authority/webhook_answer.h"

#include <string.h>

#include "base/check.h"
#include "registry/document.h"

enum { TTL_MAX_S = 366 * 24 * 3600 };

static const struct {
    struct str name;
    enum authority_verdict verdict;
} results[] = {
    {STR_INIT("allow"), AUTHORITY_ALLOWED},
    {STR_INIT("deny"), AUTHORITY_DENIED},
    {STR_INIT("ignore"), AUTHORITY_NONE},
};

static bool read_result(const json_t *answer, enum authority_verdict *out)
{
    struct str text = document_get_text(answer, "result");

    for (size_t i = 0; i < ARRAY_LEN(results); i++)
        if (str_equal(results[i].name, text)) {
            *out = results[i].verdict;
            return true;
        }
    return false;
}

/* A name that may be left out. */
static bool read_name(const json_t *answer, const char *member, char to[SCHEMA_MAX_ID_BYTES], uint16_t *out_n)
{
    const json_t *value = json_object_get(answer, member);
    struct str text = document_text(value);

    if (!value)
        return true;
    if (text.n == 0 || text.n > SCHEMA_MAX_ID_BYTES)
        return false;
    memcpy(to, text.p, text.n);
    *out_n = (uint16_t)text.n;
    return true;
}

static bool read_ttl(const json_t *answer, int64_t *out_s)
{
    const json_t *value = json_object_get(answer, "ttl");

    *out_s = value ? json_integer_value(value) : 0;
    return !value || (json_is_integer(value) && *out_s > 0 && *out_s <= TTL_MAX_S);
}

err webhook_answer_read(struct str body, struct webhook_answer *out)
{
    struct document_fault fault = {0};
    json_t *answer;
    bool is_good;

    *out = (struct webhook_answer){0};
    if (body.n > WEBHOOK_ANSWER_BYTES_MAX || document_parse(body, false, &answer, &fault) != E_OK)
        return E_INVAL;
    is_good = read_result(answer, &out->verdict) && read_ttl(answer, &out->ttl_s) &&
              read_name(answer, "tenant", out->who.tenant, &out->who.tenant_n) &&
              read_name(answer, "device", out->who.device, &out->who.device_n) &&
              (out->verdict != AUTHORITY_ALLOWED || out->who.device_n);
    json_decref(answer);
    return is_good ? E_OK : E_INVAL;
}
