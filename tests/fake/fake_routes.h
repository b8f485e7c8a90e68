/* fake_routes: the routes of one instance that is alone, in memory and at once: everything of routes/routes.h that the command plane asks for.
 * One thread. */
#pragma once

#include "routes/routes.h"

/* Empty, for so many workers of this process; their mail brings the answers. To be freed; NULL is a no-op. */
struct routes *fake_routes_new(struct workers *workers);
void fake_routes_free(struct routes *routes);
