/* store_file: the files of a store's directory, and whether what lies in them can be trusted. LMDB maps its file and follows
 * the page numbers in it unchecked: a file that was cut off or written over would end the process. So it is examined before,
 * unless it is untouched since its orderly end. */
#pragma once

#include "base/err.h"

enum { STORE_PATH_BYTES = 4096 };

#define STORE_FILE_DATA    "data.mdb"
#define STORE_FILE_READERS "lock.mdb"
#define STORE_FILE_OWNER   "owner"   /* locked by the process that has the directory */
#define STORE_FILE_ORDERLY "orderly" /* what the file was like at its end */

/* Puts `directory/name` together and returns `out`, cut to STORE_PATH_BYTES. */
const char *store_file_path(char *out, const char *directory, const char *name);

/* Looks at the file of a directory that is ours. E_OK: there is none, or every page that can be reached in it is whole;
 * E_PROTO, E_IO. */
MUST_USE err store_file_examine(const char *directory, struct errinfo *ei);

/* Notes that the file is closed and complete. A failure costs the next opening an examination. */
void store_file_note_end(const char *directory);

/* Removes the file. */
MUST_USE err store_file_erase(const char *directory, struct errinfo *ei);
