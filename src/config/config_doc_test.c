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

static void write_whole_list(FILE *to)
{
    config_doc_write_list(to, NULL);
}

static void write_some(FILE *to)
{
    config_doc_write_list(to, "workers log admin.tls");
}

static void a_list_of_some_has_these_and_what_is_below_them(void **state)
{
    static char list[TEXT_BYTES];
    static const char *const there[] = {"\n  workers ", "  log.level ", "  admin.tls.cert "}, *const not_there[] = {
                                                                                                  "admin.listen", "workers_",
                                                                                                  "tenants", "admin.tls_"};

    (void)state;
    write_to(write_some, list);
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        if (!strstr(list, there[i]))
            fail_msg("%s is missing in:\n%s", there[i], list);
    for (size_t i = 0; i < sizeof not_there / sizeof *not_there; i++)
        assert_null(strstr(list, not_there[i]));
}

static void every_option_is_in_manual_and_list(void **state)
{
    static char manual[TEXT_BYTES], list[TEXT_BYTES];

    (void)state;
    write_to(config_doc_write_manual, manual);
    write_to(write_whole_list, list);
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
        cmocka_unit_test(a_list_of_some_has_these_and_what_is_below_them),
    };

    manual_path = argc > 1 ? argv[1] : NULL;
    return cmocka_run_group_tests_name("config_doc", tests, NULL, NULL);
}
