/* utf8: checks text from outside. Pure functions, any thread. */
#pragma once

#include "base/str.h"

/* Whether `s` is well-formed UTF-8 as MQTT demands: no overlong form, no surrogate, nothing past U+10FFFF and no U+0000
 * [MQTT-1.5.4-1, 1.5.4-2]. The empty string is valid. Cost is linear; eight ASCII bytes are tested at a time. */
bool utf8_is_valid(struct str s);
