/* cesql_case: a character's other case, one for one: the simple mappings of Unicode 14 (UnicodeData.txt). Any thread. */
#pragma once

#include <stdint.h>

/* The character itself when it has no such case, or only one of several characters. */
uint32_t cesql_case_lower(uint32_t code_point);
uint32_t cesql_case_upper(uint32_t code_point);
