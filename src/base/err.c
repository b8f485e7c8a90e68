#include "base/err.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

err errinfo_set(struct errinfo *ei, err code, const char *format, ...)
{
    va_list args;

    if (!ei)
        return code;
    ei->code = code;
    va_start(args, format);
    vsnprintf(ei->text, sizeof ei->text, format, args);
    va_end(args);
    return code;
}

const char *err_name(err code)
{
    static const char *const names[] = {
        [E_OK] = "E_OK",         [E_AGAIN] = "E_AGAIN",     [E_LIMIT] = "E_LIMIT",   [E_NOMEM] = "E_NOMEM",
        [E_INVAL] = "E_INVAL",   [E_PROTO] = "E_PROTO",     [E_DENIED] = "E_DENIED", [E_NOTFOUND] = "E_NOTFOUND",
        [E_CLOSED] = "E_CLOSED", [E_TIMEOUT] = "E_TIMEOUT", [E_BUSY] = "E_BUSY",     [E_IO] = "E_IO",
    };

    return (size_t)code < sizeof names / sizeof *names ? names[code] : "E_?";
}
