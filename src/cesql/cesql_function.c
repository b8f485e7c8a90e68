#include "cesql/cesql_function.h"

#include "base/check.h"
#include "base/utf8.h"
#include "cesql/cesql_case.h"

/* The code points with the property White_Space, which TRIM takes away. */
static const struct {
    uint32_t first, last;
} whitespace[] = {
    {0x09, 0x0d},     {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
};

/* --- characters --- */

/* The bytes of the first character of a text that is not empty; one that is no UTF-8 counts as a character by itself. */
static size_t first_bytes(struct str s)
{
    uint32_t code_point;
    unsigned n = utf8_read(s, &code_point);

    return n ? n : 1;
}

/* The bytes of the first `n` characters, or of all. */
static size_t bytes_of(struct str s, size_t n)
{
    size_t at = 0;

    for (; n > 0 && at < s.n; n--)
        at += first_bytes(str_from_offset(s, at));
    return at;
}

static size_t count_characters(struct str s)
{
    size_t n = 0;

    for (; s.n > 0; s = str_from_offset(s, first_bytes(s)))
        n++;
    return n;
}

static struct str head_of(struct str s, size_t n)
{
    return (struct str){s.p, bytes_of(s, n)};
}

static struct str without_head(struct str s, size_t n)
{
    return str_from_offset(s, bytes_of(s, n));
}

static bool begins_with_space(struct str s, size_t *out_bytes)
{
    uint32_t code_point;

    *out_bytes = utf8_read(s, &code_point);
    for (size_t i = 0; *out_bytes && i < ARRAY_LEN(whitespace); i++)
        if (code_point >= whitespace[i].first && code_point <= whitespace[i].last)
            return true;
    return false;
}

static size_t utf8_write(uint32_t code_point, char *to)
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t n = code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;

    for (size_t i = n - 1; i > 0; i--, code_point >>= 6)
        to[i] = (char)(0x80 | (code_point & 0x3f));
    to[0] = (char)((n == 1 ? 0 : lead[n]) | code_point);
    return n;
}

/* --- the functions --- */

static enum cesql_error run_int(struct cesql_call *call)
{
    call->result = call->arguments[0];
    return cesql_value_cast(call->memory, CESQL_INTEGER, &call->result);
}

static enum cesql_error run_bool(struct cesql_call *call)
{
    call->result = call->arguments[0];
    return cesql_value_cast(call->memory, CESQL_BOOLEAN, &call->result);
}

static enum cesql_error run_string(struct cesql_call *call)
{
    call->result = call->arguments[0];
    return CESQL_OK;
}

static enum cesql_error run_abs(struct cesql_call *call)
{
    int32_t x = call->arguments[0].integer;

    call->result.integer = x == INT32_MIN ? INT32_MAX : x < 0 ? -x : x;
    return x == INT32_MIN ? CESQL_MATH_ERROR : CESQL_OK;
}

static enum cesql_error run_length(struct cesql_call *call)
{
    call->result.integer = (int32_t)count_characters(call->arguments[0].string);
    return CESQL_OK;
}

/* `separator` between the strings from argument `first` on. */
static enum cesql_error join(struct cesql_call *call, size_t first, struct str separator)
{
    size_t n = 0;
    char *to;

    for (size_t i = first; i < call->n_arguments; i++)
        n += call->arguments[i].string.n + (i > first ? separator.n : 0);
    if (n == 0)
        return CESQL_OK;
    to = cesql_value_memory(call->memory, n);
    if (!to)
        return CESQL_GENERIC_ERROR;
    call->result.string = (struct str){to, n};
    for (size_t i = first; i < call->n_arguments; i++) {
        struct str parts[] = {i > first ? separator : STR(""), call->arguments[i].string};

        for (size_t k = 0; k < ARRAY_LEN(parts); k++)
            to = parts[k].n ? mempcpy(to, parts[k].p, parts[k].n) : to;
    }
    return CESQL_OK;
}

static enum cesql_error run_concat(struct cesql_call *call)
{
    return join(call, 0, STR(""));
}

static enum cesql_error run_concat_ws(struct cesql_call *call)
{
    return join(call, 1, call->arguments[0].string);
}

/* The other case of a character may take more bytes than it does: one more for each byte at most, as for U+023A. */
static enum cesql_error map_characters(struct cesql_call *call, uint32_t (*map)(uint32_t code_point))
{
    struct str s = call->arguments[0].string;
    char *to = cesql_value_memory(call->memory, 2 * s.n);
    size_t n = 0;

    if (!to)
        return CESQL_GENERIC_ERROR;
    while (s.n > 0) {
        uint32_t code_point;
        unsigned bytes = utf8_read(s, &code_point);

        if (bytes)
            n += utf8_write(map(code_point), to + n);
        else
            to[n++] = s.p[0];
        s = str_from_offset(s, bytes ? bytes : 1);
    }
    call->result.string = (struct str){to, n};
    return CESQL_OK;
}

static enum cesql_error run_lower(struct cesql_call *call)
{
    return map_characters(call, cesql_case_lower);
}

static enum cesql_error run_upper(struct cesql_call *call)
{
    return map_characters(call, cesql_case_upper);
}

static enum cesql_error run_trim(struct cesql_call *call)
{
    struct str s = call->arguments[0].string;
    size_t bytes, end = 0;

    while (begins_with_space(s, &bytes))
        s = str_from_offset(s, bytes);
    for (size_t at = 0; at < s.n;) {
        bool is_space = begins_with_space(str_from_offset(s, at), &bytes);

        at += bytes ? bytes : 1;
        end = is_space ? end : at;
    }
    call->result.string = (struct str){s.p, end};
    return CESQL_OK;
}

static enum cesql_error run_left(struct cesql_call *call)
{
    int32_t n = call->arguments[1].integer;

    call->result = call->arguments[0];
    if (n < 0)
        return CESQL_FUNCTION_EVALUATION_ERROR;
    call->result.string = head_of(call->result.string, (size_t)n);
    return CESQL_OK;
}

static enum cesql_error run_right(struct cesql_call *call)
{
    int32_t n = call->arguments[1].integer;
    size_t length;

    call->result = call->arguments[0];
    if (n < 0)
        return CESQL_FUNCTION_EVALUATION_ERROR;
    length = count_characters(call->result.string);
    if (length > (size_t)n)
        call->result.string = without_head(call->result.string, length - (size_t)n);
    return CESQL_OK;
}

static enum cesql_error run_substring(struct cesql_call *call)
{
    int64_t length = (int64_t)count_characters(call->arguments[0].string), position = call->arguments[1].integer;
    int64_t n = call->n_arguments > 2 ? call->arguments[2].integer : length;

    if (position > length || position < -length || n < 0)
        return CESQL_FUNCTION_EVALUATION_ERROR;
    if (position == 0)
        return CESQL_OK;
    position = position > 0 ? position - 1 : length + position;
    call->result.string = head_of(without_head(call->arguments[0].string, (size_t)position), (size_t)n);
    return CESQL_OK;
}

static const struct cesql_function functions[] = {
    {STR_INIT("abs"), 1, 1, PARAMETER_INTEGER, PARAMETER_INTEGER, CESQL_INTEGER, run_abs},
    {STR_INIT("bool"), 1, 1, PARAMETER_ANY, PARAMETER_ANY, CESQL_BOOLEAN, run_bool},
    {STR_INIT("concat"), 0, SIZE_MAX, PARAMETER_STRING, PARAMETER_STRING, CESQL_STRING, run_concat},
    {STR_INIT("concat_ws"), 1, SIZE_MAX, PARAMETER_STRING, PARAMETER_STRING, CESQL_STRING, run_concat_ws},
    {STR_INIT("int"), 1, 1, PARAMETER_ANY, PARAMETER_ANY, CESQL_INTEGER, run_int},
    {STR_INIT("left"), 2, 2, PARAMETER_STRING, PARAMETER_INTEGER, CESQL_STRING, run_left},
    {STR_INIT("length"), 1, 1, PARAMETER_STRING, PARAMETER_STRING, CESQL_INTEGER, run_length},
    {STR_INIT("lower"), 1, 1, PARAMETER_STRING, PARAMETER_STRING, CESQL_STRING, run_lower},
    {STR_INIT("right"), 2, 2, PARAMETER_STRING, PARAMETER_INTEGER, CESQL_STRING, run_right},
    {STR_INIT("string"), 1, 1, PARAMETER_STRING, PARAMETER_STRING, CESQL_STRING, run_string},
    {STR_INIT("substring"), 2, 3, PARAMETER_STRING, PARAMETER_INTEGER, CESQL_STRING, run_substring},
    {STR_INIT("trim"), 1, 1, PARAMETER_STRING, PARAMETER_STRING, CESQL_STRING, run_trim},
    {STR_INIT("upper"), 1, 1, PARAMETER_STRING, PARAMETER_STRING, CESQL_STRING, run_upper},
};

const struct cesql_function *cesql_function_find(struct str name, size_t n_arguments)
{
    for (size_t i = 0; i < ARRAY_LEN(functions); i++)
        if (str_equal_nocase(functions[i].name, name) && n_arguments >= functions[i].n_least &&
            n_arguments <= functions[i].n_most)
            return &functions[i];
    return NULL;
}
