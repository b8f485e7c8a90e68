#include "config/report.h"

#include <stdarg.h>
#include <stdio.h>

enum { EXCERPT_BYTES = 60 };

/* Values come from the file, and a file may hold escape sequences. UTF-8 passes. */
static void disarm(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

void report_error(struct config_errors *errors, const char *file, unsigned line, const char *format, ...)
{
    struct errinfo *ei = &errors->items[errors->count];
    va_list args;

    if (errors->count == CONFIG_MAX_ERRORS) {
        errors->omitted++;
        return;
    }
    errors->count++;
    *ei = (struct errinfo){.code = E_INVAL, .file = file, .line = line};
    va_start(args, format);
    (void)vsnprintf(ei->text, sizeof ei->text, format, args); /* cut at the end of the buffer, as the header of errinfo says */
    va_end(args);
    disarm(ei->text);
}

struct str report_excerpt(struct str value)
{
    if (value.n > EXCERPT_BYTES)
        value.n = EXCERPT_BYTES;
    return value;
}
