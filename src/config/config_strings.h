/* config_strings: a list of texts in a configuration. A part of config.h. */
#pragma once

#include <stddef.h>

#include "base/str.h"

struct config_strings {
    struct str *items;
    size_t count;
};
