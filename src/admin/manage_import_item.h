/* manage_import_item: one line of an import on its way: it is read, compared with what is there, its passwords are hashed, and it is written. Only for
 * admin/manage_import*. */
#pragma once

#include "admin/manage_call.h"

/* What becomes of a line. */
enum manage_outcome {
    MANAGE_LINE_CREATED,
    MANAGE_LINE_UPDATED,
    MANAGE_LINE_UNCHANGED, /* it is there as the line says */
    MANAGE_LINE_EXISTING,  /* it is there, but not so, and was left alone */
    MANAGE_LINE_FAILED,
    MANAGE_LINE_OUTCOMES,
};

/* One import. */
struct manage_import {
    struct manage_call *call;
    bool is_update, is_dry;
    struct str rest; /* of the body */
    size_t line, counts[MANAGE_LINE_OUTCOMES];
    unsigned n_items, n_hashes;  /* under way */
    size_t n_item_bytes;         /* of their lines */
    json_t *errors, *left_alone; /* the latter: numbers of lines */
    struct task task;
    struct table_barrier barrier;
};

/* Begins with a line, whose number is import->line. It ends, perhaps at once, by being counted, and then runs the import's task. */
void manage_import_item_begin(struct manage_import *import, struct str line);
