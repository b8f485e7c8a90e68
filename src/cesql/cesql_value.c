#include "cesql/cesql_value.h"

#include <stdio.h>

#include "base/check.h"

char *cesql_value_memory(struct cesql_memory *memory, size_t n)
{
    if (n > memory->left)
        return NULL;
    memory->left -= n;
    return arena_alloc(memory->arena, MEM_FANOUT, n);
}

struct cesql_value cesql_value_zero(enum cesql_type type)
{
    return (struct cesql_value){.type = type};
}

static bool string_to_integer(struct str s, int32_t *out_value)
{
    bool is_negative = s.n > 0 && s.p[0] == '-';
    bool has_sign = is_negative || (s.n > 0 && s.p[0] == '+');
    uint64_t magnitude;

    if (!str_to_u64(str_from_offset(s, has_sign), (uint64_t)INT32_MAX + is_negative, &magnitude))
        return false;
    *out_value = (int32_t)(is_negative ? -(int64_t)magnitude : (int64_t)magnitude);
    return true;
}

static bool string_to_boolean(struct str s, bool *out_value)
{
    *out_value = str_equal_nocase(s, STR("true"));
    return *out_value || str_equal_nocase(s, STR("false"));
}

static enum cesql_error to_string(struct cesql_memory *memory, struct cesql_value *value)
{
    char text[16];
    int n = snprintf(text, sizeof text, "%d", value->integer);
    char *p;

    if (value->type == CESQL_BOOLEAN) {
        *value = cesql_value_string(value->boolean ? STR("true") : STR("false"));
        return CESQL_OK;
    }
    p = cesql_value_memory(memory, (size_t)n);
    if (p)
        memcpy(p, text, (size_t)n);
    *value = cesql_value_string((struct str){p, p ? (size_t)n : 0});
    return p ? CESQL_OK : CESQL_GENERIC_ERROR;
}

static enum cesql_error to_integer(struct cesql_value *value)
{
    int32_t number = value->boolean;

    if (value->type == CESQL_STRING && !string_to_integer(value->string, &number)) {
        *value = cesql_value_zero(CESQL_INTEGER);
        return CESQL_CAST_ERROR;
    }
    *value = cesql_value_integer(number);
    return CESQL_OK;
}

static enum cesql_error to_boolean(struct cesql_value *value)
{
    bool truth = value->integer != 0;

    if (value->type == CESQL_STRING && !string_to_boolean(value->string, &truth)) {
        *value = cesql_value_zero(CESQL_BOOLEAN);
        return CESQL_CAST_ERROR;
    }
    *value = cesql_value_boolean(truth);
    return CESQL_OK;
}

enum cesql_error cesql_value_cast(struct cesql_memory *memory, enum cesql_type type, struct cesql_value *value)
{
    if (value->type == type)
        return CESQL_OK;
    if (type == CESQL_STRING)
        return to_string(memory, value);
    return type == CESQL_INTEGER ? to_integer(value) : to_boolean(value);
}

struct cesql_value cesql_value_from(enum cesql_type type, struct str text)
{
    struct cesql_value value = cesql_value_string(text);

    /* Casts from a string take no memory. */
    if (type != CESQL_STRING && cesql_value_cast(NULL, type, &value) != CESQL_OK)
        return cesql_value_string(text);
    return value;
}

bool cesql_value_equal(const struct cesql_value *a, const struct cesql_value *b)
{
    DASSERT(a->type == b->type);
    if (a->type == CESQL_STRING)
        return str_equal(a->string, b->string);
    return a->type == CESQL_INTEGER ? a->integer == b->integer : a->boolean == b->boolean;
}
