/* uuid: random names (RFC 9562, version 4). Any thread. */
#pragma once

#include "base/str.h"

enum { UUID_BYTES = 37 }; /* with a NUL */

/* Writes a new one into `to` and returns it. */
struct str uuid_make(char to[UUID_BYTES]);
