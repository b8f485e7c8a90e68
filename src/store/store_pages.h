/* store_pages: reads a file of LMDB 0.9 as a stranger's: its pages form trees, every page that can be reached lies within
 * the file, and what its nodes point to lies within the page. A pure function; any thread. */
#pragma once

#include "base/str.h"

/* What is wrong with the file, as a constant text; NULL: whole. */
const char *store_pages_fault(struct str file);
