/* trace_context: a W3C trace context on its way through (https://www.w3.org/TR/trace-context/, level 1): from a user property or
 * header of a message to a record's header. It is passed on as it is, or not at all. Pure functions, any thread. */
#pragma once

#include <stdbool.h>

#include "base/str.h"

enum {
    TRACE_CONTEXT_STATE_BYTES = 8192 /* of tracestate; longer ones are left behind (section 3.3.1.5 asks for 512 at least) */
};

/* All-zero: there is none. Views. */
struct trace_context {
    struct str parent; /* `traceparent` */
    struct str state;  /* `tracestate`, which means nothing without */
};

/* Keeps a property if it is one of the two; of several with one name the first counts. Names have no case (section 3.2). */
void trace_context_take(struct trace_context *context, struct str name, struct str value);

/* Drops a context that is not valid (sections 3.2.2, 3.3), as everyone must who gets one; and a tracestate without it. */
void trace_context_check(struct trace_context *context);
