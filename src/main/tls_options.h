/* tls_options: from what the configuration says about TLS, and the files it names, to what connections are set up with. Main thread; reads
 * files. */
#pragma once

#include "config/config.h"
#include "registry/generation.h"

struct registry;

/* `file` is that of the configuration, for messages and for relative paths. `tickets` are those of the generation before, whose
 * sessions can then still be resumed; NULL: there is none. `registry` has the pre-shared keys; NULL: there are none. The caller owns `*out_tls`, written only on success. E_INVAL: each address
 * whose TLS is no good is in `errors`, with the file that is to blame. */
MUST_USE err tls_options_make(const struct config *config, const char *file, struct tls_tickets *tickets,
                              struct registry *registry, struct generation_tls *out_tls, struct config_errors *errors);

/* The same of requests to https servers alone, which tls_options_make() leaves out where nobody may come to need it: trusting the
 * system's authorities means reading them all, 40 ms and 5 MB. */
MUST_USE err tls_options_make_client(const struct config *config, const char *file, struct tls **out_tls,
                                     struct config_errors *errors);

/* Whether connections of both would be set up alike. */
bool tls_options_is_same(const struct generation_tls *a, const struct generation_tls *b);

/* Calls `each` with the path of every file that the configuration names for TLS. */
void tls_options_list_files(const struct config *config, const char *file, void (*each)(void *context, const char *path),
                            void *context);

/* A path of the configuration as it is from here: relative ones count from the folder of its file. In the arena. */
struct arena;
const char *tls_options_path(struct arena *a, const char *file, struct str path);

/* Seconds since 1970 when the first of our certificates is over; 0: there is none. */
int64_t tls_options_not_after(const struct generation_tls *set);
