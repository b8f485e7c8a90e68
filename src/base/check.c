#include "base/check.h"

#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FRAMES_MAX = 64 };

void check_failed(const char *expression, const char *file, int line)
{
    void *frames[FRAMES_MAX];

    fprintf(stderr, "%s:%d: assertion failed: %s (thread %d)\n", file, line, expression, (int)gettid());
    backtrace_symbols_fd(frames, backtrace(frames, FRAMES_MAX), STDERR_FILENO);
    abort();
}
