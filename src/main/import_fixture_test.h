/* For tests of what imports read: a list, and what it tells. Include it in one file of a test. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "main/import_list.h"

static struct {
    struct import_list list;
    char told[4096];
} import_fixture;

/* What is told goes to `tell`, which adds it to what was told. For a set-up. */
static inline int import_fixture_begin(void (*tell)(void *context, enum import_kind kind, struct import_place place,
                                                    const char *text))
{
    import_fixture.list = (struct import_list){.tell = tell};
    import_fixture.told[0] = '\0';
    return 0;
}

static inline int import_fixture_tear_down(void **state)
{
    (void)state;
    import_list_fini(&import_fixture.list);
    assert_int_equal(mem_used(MEM_REGISTRY), 0);
    return 0;
}
