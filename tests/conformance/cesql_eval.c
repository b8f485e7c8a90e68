/* Evaluates CESQL expressions for cesql_kit.py. Standard input has lines of words, texts in hexadecimal:
 *
 *     attribute NAME string|integer|boolean VALUE     adds an attribute to the event
 *     evaluate EXPRESSION                             prints `TYPE VALUE ERROR`, and begins a new event
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "cesql/cesql.h"

enum { MAX_ATTRIBUTES = 64, MAX_WORDS = 4 };

struct attribute {
    struct str name;
    struct cesql_value value;
};

struct event {
    struct attribute attributes[MAX_ATTRIBUTES];
    size_t n;
};

static const char *const type_names[] = {[CESQL_STRING] = "string", [CESQL_INTEGER] = "integer", [CESQL_BOOLEAN] = "boolean"};

static bool find(const void *context, struct str name, struct cesql_value *out_value)
{
    const struct event *event = context;

    for (size_t i = 0; i < event->n; i++) {
        if (!str_equal(event->attributes[i].name, name))
            continue;
        *out_value = event->attributes[i].value;
        return true;
    }
    return false;
}

static struct str from_hex(struct arena *a, const char *hex)
{
    size_t n = strlen(hex) / 2;
    char *p = arena_alloc(a, MEM_CONFIG, n + 1);

    for (size_t i = 0; i < n; i++) {
        char digits[] = {hex[2 * i], hex[2 * i + 1], '\0'};

        p[i] = (char)strtoul(digits, NULL, 16);
    }
    return (struct str){p, n};
}

static void add_attribute(struct arena *a, struct event *event, char *const *words)
{
    struct attribute *attribute = &event->attributes[event->n++];

    attribute->name = from_hex(a, words[1]);
    attribute->value.string = from_hex(a, words[3]);
    for (size_t i = 0; i < ARRAY_LEN(type_names); i++)
        if (strcmp(words[2], type_names[i]) == 0)
            attribute->value.type = (enum cesql_type)i;
    attribute->value.integer = (int32_t)strtol(attribute->value.string.p, NULL, 10);
    attribute->value.boolean = str_equal(attribute->value.string, STR("true"));
}

static void evaluate(struct arena *a, const struct event *event, const char *expression_hex)
{
    const struct cesql_attributes attributes = {find, event};
    struct cesql_value value = {.type = CESQL_BOOLEAN};
    enum cesql_error error = CESQL_PARSE_ERROR;
    const struct cesql *expression;
    struct arena scratch = {0};

    if (cesql_compile(a, from_hex(a, expression_hex), &expression, NULL) == E_OK)
        error = cesql_evaluate(expression, &attributes, &scratch, &value);
    printf("%s ", type_names[value.type]);
    if (value.type == CESQL_STRING)
        for (size_t i = 0; i < value.string.n; i++)
            printf("%02x", (unsigned char)value.string.p[i]);
    else
        printf("%" PRId32, value.type == CESQL_INTEGER ? value.integer : value.boolean);
    printf(" %s\n", cesql_error_name(error));
    arena_free(&scratch, MEM_FANOUT);
}

int main(void)
{
    struct arena arena = {0};
    struct event event = {.n = 0};
    char *line = NULL;
    size_t size = 0;

    while (getline(&line, &size, stdin) > 0) {
        char *words[MAX_WORDS] = {"", "", "", ""}, *rest = line;

        for (size_t i = 0; i < MAX_WORDS && rest; i++)
            words[i] = strsep(&rest, " \n");
        if (strcmp(words[0], "attribute") == 0 && event.n < MAX_ATTRIBUTES) {
            add_attribute(&arena, &event, words);
        } else if (strcmp(words[0], "evaluate") == 0) {
            evaluate(&arena, &event, words[1]);
            event.n = 0;
            arena_free(&arena, MEM_CONFIG);
        } else {
            fprintf(stderr, "not understood: %s\n", words[0]);
            return 1;
        }
    }
    free(line);
    return 0;
}
