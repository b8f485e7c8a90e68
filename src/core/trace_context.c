#include "core/trace_context.h"

#include <string.h>
#include <strings.h>

#include "base/utf8.h"

/* version "-" trace-id "-" parent-id "-" flags, in hexadecimal digits (section 3.2.2). */
enum { VERSION_AT = 0, TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53, PARENT_BYTES = 55 };

static bool is_name(struct str name, struct str wanted)
{
    return name.n == wanted.n && strncasecmp(name.p, wanted.p, wanted.n) == 0;
}

void trace_context_take(struct trace_context *context, struct str name, struct str value)
{
    struct str *at = is_name(name, STR("traceparent"))  ? &context->parent
                     : is_name(name, STR("tracestate")) ? &context->state
                                                        : NULL;

    if (at && !at->p)
        *at = value;
}

/* Lower-case hexadecimal digits, and not only zeros where there must be more. */
static bool is_field(struct str text, size_t at, size_t end, bool may_be_zero)
{
    bool is_zero = true;

    for (size_t i = at; i < end; i++) {
        char c = text.p[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        is_zero &= c == '0';
    }
    return may_be_zero || !is_zero;
}

/* A later version may go on behind the fields of the first (section 4.3), with another dash. */
static bool is_valid(struct str text)
{
    if (text.n < PARENT_BYTES || text.n > 2 * PARENT_BYTES || !utf8_is_plain(text))
        return false;
    if (text.p[TRACE_AT - 1] != '-' || text.p[PARENT_AT - 1] != '-' || text.p[FLAGS_AT - 1] != '-')
        return false;
    if (text.n > PARENT_BYTES && (text.p[PARENT_BYTES] != '-' || memcmp(text.p, "00", 2) == 0))
        return false;
    return memcmp(text.p, "ff", 2) != 0 && is_field(text, VERSION_AT, TRACE_AT - 1, true) &&
           is_field(text, TRACE_AT, PARENT_AT - 1, false) && is_field(text, PARENT_AT, FLAGS_AT - 1, false) &&
           is_field(text, FLAGS_AT, PARENT_BYTES, true);
}

void trace_context_check(struct trace_context *context)
{
    if (!is_valid(context->parent))
        *context = (struct trace_context){0};
    if (context->state.n > TRACE_CONTEXT_STATE_BYTES)
        context->state = (struct str){0};
}
