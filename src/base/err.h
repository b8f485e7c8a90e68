/* err: the one way a fallible function says how it went. Data never shares the return value. */
#pragma once

#include <stdbool.h>

typedef enum err {
    E_OK,
    E_AGAIN,    /* nothing wrong: more input, or a later call, is needed */
    E_LIMIT,    /* a configured bound was reached */
    E_NOMEM,    /* an allocation sized by a peer failed */
    E_INVAL,    /* the caller's or peer's input breaks a rule */
    E_PROTO,    /* a peer broke its protocol */
    E_DENIED,   /* not permitted */
    E_NOTFOUND, /* there is no such thing */
    E_CLOSED,   /* the other side has gone */
    E_TIMEOUT,  /* a time limit passed */
    E_BUSY,     /* in use by somebody else */
    E_IO,       /* the operating system or a library failed; the details went to errno or an errinfo */
} err;

#define MUST_USE                         __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_at, first_at) __attribute__((format(printf, format_at, first_at)))

/* For the rare failure that changes nothing; the reason stands beside it. */
#define ERR_IGNORE(call)                                                                                                       \
    do {                                                                                                                       \
        err ignored_ = (call);                                                                                                 \
        (void)ignored_;                                                                                                        \
    } while (0)

/* What a person reads when start-up, configuration or an administration request fails. Owned by the caller, all-zero is
 * empty. `file` is borrowed and lives as long as what was read from it; `line` counts from 1, 0 is unknown. */
struct errinfo {
    err code;
    bool is_retriable;
    const char *file;
    unsigned line;
    char text[256];
};

/* Fills `ei` (which may be NULL) with a code and a formatted text, and returns `code`, so that a failing function can end
 * with `return errinfo_set(ei, E_INVAL, ...)`. Text past the end of the buffer is cut. */
err errinfo_set(struct errinfo *ei, err code, const char *format, ...) PRINTF_LIKE(3, 4);

/* The name of a code for logs, as in "E_LIMIT". Never NULL. */
const char *err_name(err code);
