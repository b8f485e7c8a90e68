#include "core/to_mqtt_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"
#include "base/mem.h"

/* What a match may cost: steps, depth and memory. Some hundred steps are usual. */
enum { MATCH_STEPS = 100000, MATCH_DEPTH = 1000, MATCH_HEAP_KIB = 1024, MESSAGE_BYTES = 160 };

struct group {
    struct str name;
    uint32_t number;
};

struct to_mqtt_pattern {
    pcre2_code *code;
    pcre2_match_context *bounds;
    struct group *groups;
    size_t n_groups;
};

struct to_mqtt_match {
    pcre2_match_data *data;
};

/* PCRE2 keeps names by the alphabet, each with its number in two bytes before it. */
static void read_groups(struct to_mqtt_pattern *p)
{
    uint32_t count = 0, entry_bytes = 0;
    PCRE2_SPTR table = NULL;

    pcre2_pattern_info(p->code, PCRE2_INFO_NAMECOUNT, &count);
    pcre2_pattern_info(p->code, PCRE2_INFO_NAMEENTRYSIZE, &entry_bytes);
    pcre2_pattern_info(p->code, PCRE2_INFO_NAMETABLE, &table);
    p->groups = mem_alloc_zero(MEM_MESSAGE, count * sizeof *p->groups + 1);
    for (uint32_t i = 0; i < count; i++, table += entry_bytes) {
        struct group group = {str_from((const char *)table + 2), (uint32_t)table[0] << 8 | table[1]};
        size_t at = p->n_groups++;

        for (; at > 0 && p->groups[at - 1].number > group.number; at--)
            p->groups[at] = p->groups[at - 1];
        p->groups[at] = group;
    }
}

err to_mqtt_pattern_new(struct str text, struct to_mqtt_pattern **out_pattern, struct errinfo *ei)
{
    char why[MESSAGE_BYTES] = "";
    int code;
    PCRE2_SIZE at;
    struct to_mqtt_pattern *p;
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)text.p, text.n, PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &code, &at, NULL);

    if (!compiled) {
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return errinfo_set(ei, E_INVAL, "is no regular expression: %s (at character %zu)", why, (size_t)at + 1);
    }
    p = mem_alloc(MEM_MESSAGE, sizeof *p);
    *p = (struct to_mqtt_pattern){.code = compiled, .bounds = pcre2_match_context_create(NULL)};
    ASSERT(p->bounds);
    pcre2_set_match_limit(p->bounds, MATCH_STEPS);
    pcre2_set_depth_limit(p->bounds, MATCH_DEPTH);
    pcre2_set_heap_limit(p->bounds, MATCH_HEAP_KIB);
    read_groups(p);
    *out_pattern = p;
    return E_OK;
}

void to_mqtt_pattern_free(struct to_mqtt_pattern *p)
{
    if (!p)
        return;
    pcre2_match_context_free(p->bounds);
    pcre2_code_free(p->code);
    mem_free(MEM_MESSAGE, p->groups);
    mem_free(MEM_MESSAGE, p);
}

size_t to_mqtt_pattern_count_groups(const struct to_mqtt_pattern *p)
{
    return p->n_groups;
}

struct str to_mqtt_pattern_group(const struct to_mqtt_pattern *p, size_t i)
{
    return p->groups[i].name;
}

struct to_mqtt_match *to_mqtt_pattern_new_match(const struct to_mqtt_pattern *p)
{
    struct to_mqtt_match *m = mem_alloc(MEM_MESSAGE, sizeof *m);

    m->data = pcre2_match_data_create_from_pattern(p->code, NULL);
    ASSERT(m->data);
    return m;
}

void to_mqtt_pattern_free_match(struct to_mqtt_match *m)
{
    if (!m)
        return;
    pcre2_match_data_free(m->data);
    mem_free(MEM_MESSAGE, m);
}

static err failure(int code)
{
    if (code == PCRE2_ERROR_NOMATCH)
        return E_NOTFOUND;
    return code == PCRE2_ERROR_NOMEMORY ? E_NOMEM : E_LIMIT;
}

err to_mqtt_pattern_match(const struct to_mqtt_pattern *p, struct to_mqtt_match *m, struct str subject, struct str *out_groups)
{
    const char *text = subject.p ? subject.p : "";
    int n = pcre2_match(p->code, (PCRE2_SPTR)text, subject.n, 0, 0, m->data, p->bounds);
    const PCRE2_SIZE *at;

    if (n < 0)
        return failure(n);
    at = pcre2_get_ovector_pointer(m->data);
    for (size_t i = 0; i < p->n_groups; i++) {
        size_t number = p->groups[i].number;
        bool took_part = number < (size_t)n && at[2 * number] != PCRE2_UNSET && at[2 * number + 1] >= at[2 * number];

        out_groups[i] = took_part ? (struct str){text + at[2 * number], at[2 * number + 1] - at[2 * number]} : (struct str){0};
    }
    return E_OK;
}
