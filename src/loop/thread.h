/* thread: how every thread of the process begins. Signals are the main thread's: all others block every one of them, those of
 * libraries too, which inherit the mask of the thread that starts them. */
#pragma once

#include <pthread.h>

#include "base/err.h"

/* Starts a thread; `name` (at most 15 bytes count) is what top and debuggers show. E_IO when the system gives none: `ei` (may be
 * NULL) says why. Any thread; the caller joins it. */
MUST_USE err thread_start(pthread_t *out_thread, const char *name, void *(*run)(void *), void *context, struct errinfo *ei);
