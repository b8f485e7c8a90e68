/* overlay: puts settings of the command line, `path=value`, into a tree as if the file had said so. Main thread.
 *
 * A path names an option as CONFIGURATION.md does, with the number of an element in brackets and the name in place of `*`:
 * `listeners[0].mqtt`, `tenants.demo.enabled`, `kafka.properties.security.protocol`. A name with a dot in it is written in
 * double quotes: `tenants."a.b".enabled`. The element after the last is added. A value that begins with `[` or `{` is
 * YAML. */
#pragma once

#include "base/arena.h"
#include "config/tree.h"

/* A setting without `=` or with a path that leads nowhere is told in `errors` and changes nothing that matters then;
 * whether the value is good is found when the tree is bound. New nodes live in `a` and have line 0. `root` is a map. */
void overlay_apply(struct arena *a, struct tree_node *root, struct str setting, struct config_errors *errors);
