#include "config/config_doc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/option.h"

enum { TEXT_BYTES = 256 << 10 };

static const char *manual_path;

static void write_to(void (*write)(FILE *), char *out)
{
    FILE *to = fmemopen(out, TEXT_BYTES, "w");

    assert_non_null(to);
    write(to);
    assert_int_equal(fclose(to), 0);
}

static void the_manual_in_docs_is_what_the_table_says(void **state)
{
    static char now[TEXT_BYTES], kept[TEXT_BYTES];
    FILE *file = manual_path ? fopen(manual_path, "r") : NULL;

    (void)state;
    if (!file)
        skip(); /* run by hand, without the path of the manual */
    kept[fread(kept, 1, sizeof kept - 1, file)] = '\0';
    assert_int_equal(fclose(file), 0);
    write_to(config_doc_write_manual, now);
    if (strcmp(now, kept) != 0)
        fail_msg("docs/CONFIGURATION.md is out of date: run tools/gen-config-doc");
}

static void every_option_is_in_manual_and_list(void **state)
{
    static char manual[TEXT_BYTES], list[TEXT_BYTES];

    (void)state;
    write_to(config_doc_write_manual, manual);
    write_to(config_doc_write_list, list);
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &option_table[i];
        char quoted[128];

        (void)snprintf(quoted, sizeof quoted, "`%s`", o->path);
        if (o->type == OPTION_SECTION) {
            assert_non_null(strstr(manual, o->help));
            continue;
        }
        assert_non_null(strstr(manual, quoted));
        if (o->type != OPTION_LIST && o->type != OPTION_MAP)
            assert_non_null(strstr(list, o->path));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_manual_in_docs_is_what_the_table_says),
        cmocka_unit_test(every_option_is_in_manual_and_list),
    };

    manual_path = argc > 1 ? argv[1] : NULL;
    return cmocka_run_group_tests_name("config_doc", tests, NULL, NULL);
}
