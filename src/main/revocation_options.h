/* revocation_options: the revocation lists of tenants' CAs from the folder that the configuration names. Main thread; reads files. */
#pragma once

#include "config/config.h"

struct revocation_lists;

/* `file` is that of the configuration, for messages and for relative paths. The caller owns a reference to `*out_lists`, which is NULL when the configuration
 * names no folder. E_INVAL: the folder or one of its lists is no good, which is in `errors`. */
MUST_USE err revocation_options_load(const struct config *config, const char *file, struct revocation_lists **out_lists,
                                     struct config_errors *errors);

/* Calls `each` with the path of the folder and of every list in it. */
void revocation_options_list_files(const struct config *config, const char *file, void (*each)(void *context, const char *path),
                                   void *context);
