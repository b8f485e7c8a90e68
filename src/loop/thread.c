#include "loop/thread.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 16 }; /* of Linux */

err thread_start(pthread_t *out_thread, const char *name, void *(*run)(void *), void *context, struct errinfo *ei)
{
    char shown[NAME_BYTES];
    sigset_t all, before;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(out_thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return errinfo_set(ei, E_IO, "cannot start the thread %s: %s", name, strerror(failed));
    snprintf(shown, sizeof shown, "%s", name);
    (void)pthread_setname_np(*out_thread, shown); /* only for people who look at threads */
    return E_OK;
}
