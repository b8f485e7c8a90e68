#include "fanout/fanout_schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

enum { TEXT_BYTES = 64 << 10, PROPERTY_BYTES = 128 };

static const char *schema_path;
static char text[TEXT_BYTES];

static void write_schema(void)
{
    FILE *to = fmemopen(text, sizeof text, "w");

    assert_non_null(to);
    fanout_schema_write(to);
    assert_int_equal(fclose(to), 0);
}

static void the_schema_in_docs_is_what_the_tables_say(void **state)
{
    static char kept[TEXT_BYTES];
    FILE *file = schema_path ? fopen(schema_path, "r") : NULL;

    (void)state;
    if (!file)
        skip(); /* run by hand, without the path of the schema */
    kept[fread(kept, 1, sizeof kept - 1, file)] = '\0';
    assert_int_equal(fclose(file), 0);
    write_schema();
    if (strcmp(text, kept) != 0)
        fail_msg("docs/fanout-channels.schema.json is out of date: run tools/gen-config-doc");
}

static bool is_custom(const struct fanout_field *f)
{
    return f->type == FANOUT_FIELD_CUSTOM || f->type == FANOUT_FIELD_NODE;
}

static void every_name_of_every_field_is_in_it(void **state)
{
    char property[PROPERTY_BYTES];

    (void)state;
    write_schema();
    for (size_t i = 0; fanout_schema_levels[i]; i++) {
        const struct fanout_level *level = fanout_schema_levels[i];

        for (size_t k = 0; k < level->n; k++) {
            const struct fanout_field *f = &level->fields[k];

            if (is_custom(f) != (f->schema != NULL))
                fail_msg("%s.%s: a custom field, and no other, says its schema itself", level->name, f->names[0].p);
            for (size_t name = 0; name < FANOUT_FIELD_NAMES && f->names[name].n; name++) {
                (void)snprintf(property, sizeof property, "        \"%s\": ", f->names[name].p);
                if (!strstr(text, property))
                    fail_msg("%s is missing", f->names[name].p);
            }
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_schema_in_docs_is_what_the_tables_say),
        cmocka_unit_test(every_name_of_every_field_is_in_it),
    };

    schema_path = argc > 1 ? argv[1] : NULL;
    return cmocka_run_group_tests_name("fanout_schema", tests, NULL, NULL);
}
