#include "fanout/fanout_schema.h"

#include <inttypes.h>

#include "base/check.h"
#include "config/value.h"

const struct fanout_level *const fanout_schema_levels[] = {
    &fanout_config_level,       &fanout_channel_level,  &fanout_channel_config_level,
    &fanout_subscription_level, &fanout_delivery_level, NULL,
};

/* What values of some types look like, and what several fields have in common. */
static const char common[] =
    "    \"duration\": {\"type\": [\"string\", \"integer\", \"null\"], \"minimum\": 0, \"maximum\": 0, "
    "\"pattern\": \"^(0|[0-9]+(ms|s|m|h|d)|"
    "P(?!$)([0-9]+W)?([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+([.,][0-9]+)?S)?)?)$\"},\n"
    "    \"size\": {\"type\": [\"string\", \"integer\", \"null\"], \"minimum\": 0, \"pattern\": "
    "\"^[0-9]+(B|KiB|MiB|GiB)?$\"},\n"
    "    \"target\": {\"description\": \"an http or https URL, HOST[:PORT][/PATH], h2c://HOST:PORT/PATH or kafka:TOPIC\", "
    "\"anyOf\": [{\"type\": [\"string\", \"null\"], \"maxLength\": 2048}, "
    "{\"type\": \"object\", \"properties\": {\"uri\": {\"type\": [\"string\", \"null\"]}, \"url\": {\"type\": [\"string\", "
    "\"null\"]}}, "
    "\"additionalProperties\": {\"type\": \"null\"}}]},\n"
    "    \"words\": {\"anyOf\": [{\"type\": [\"string\", \"null\"]}, "
    "{\"type\": \"array\", \"maxItems\": 64, \"items\": {\"type\": [\"string\", \"null\"]}}]},\n"
    "    \"attributes\": {\"type\": \"object\", \"minProperties\": 1, \"propertyNames\": {\"pattern\": "
    "\"^(?!data$)[a-z][a-z0-9]*$\"}, "
    "\"additionalProperties\": {\"type\": [\"string\", \"number\", \"boolean\"], \"minLength\": 1}},\n"
    "    \"filters\": {\"type\": \"array\", \"minItems\": 1, \"items\": {\"$ref\": \"#/$defs/filter\"}},\n"
    "    \"filter\": {\"type\": \"object\", \"minProperties\": 1, \"maxProperties\": 1, \"additionalProperties\": false, "
    "\"properties\": {\"exact\": {\"$ref\": \"#/$defs/attributes\"}, \"prefix\": {\"$ref\": \"#/$defs/attributes\"}, "
    "\"suffix\": {\"$ref\": \"#/$defs/attributes\"}, \"all\": {\"$ref\": \"#/$defs/filters\"}, \"any\": {\"$ref\": "
    "\"#/$defs/filters\"}, "
    "\"not\": {\"$ref\": \"#/$defs/filter\"}, \"sql\": {\"$ref\": \"#/$defs/expression\"}, \"cesql\": {\"$ref\": "
    "\"#/$defs/expression\"}}},\n"
    "    \"expression\": {\"description\": \"CloudEvents SQL\", \"type\": [\"string\", \"number\", \"boolean\"], "
    "\"minLength\": 1}\n";

static void write_choices(FILE *to, const struct fanout_field *f)
{
    fputs("{\"enum\": [", to);
    for (size_t i = 0; f->choices[i]; i++) {
        uint64_t number;

        fprintf(to, "\"%s\", ", f->choices[i]);
        if (str_to_u64(str_from(f->choices[i]), UINT32_MAX, &number)) /* YAML takes it for one */
            fprintf(to, "%s, ", f->choices[i]);
    }
    fprintf(to, "null], \"default\": \"%s\"}", f->choices[f->initial]);
}

static void write_type(FILE *to, const struct fanout_field *f)
{
    char min[VALUE_TEXT_BYTES], max[VALUE_TEXT_BYTES], initial[VALUE_TEXT_BYTES];

    switch (f->type) {
    case FANOUT_FIELD_CUSTOM:
    case FANOUT_FIELD_NODE:
        fprintf(to, f->is_needed ? "%s" : "{\"anyOf\": [{\"type\": \"null\"}, %s]}", f->schema);
        break;
    case FANOUT_FIELD_TEXT:
        fprintf(to, "{\"type\": [\"string\", \"null\"], \"minLength\": %" PRId64 ", \"maxLength\": %" PRId64 "}", f->min,
                f->max);
        break;
    case FANOUT_FIELD_BOOL:
        fprintf(to, "{\"enum\": [true, false, \"true\", \"false\", null], \"default\": %s}", f->initial ? "true" : "false");
        break;
    case FANOUT_FIELD_CHOICE:
        write_choices(to, f);
        break;
    case FANOUT_FIELD_NUMBER:
        fprintf(to,
                "{\"type\": [\"integer\", \"string\", \"null\"], \"minimum\": %" PRId64 ", \"maximum\": %" PRId64
                ", \"pattern\": \"^[0-9]+$\", \"default\": %" PRId64 "}",
                f->min, f->max, f->initial);
        break;
    case FANOUT_FIELD_DURATION:
        fprintf(to, "{\"$ref\": \"#/$defs/duration\", \"description\": \"from %s to %s\", \"default\": \"%s\"}",
                value_duration_text(f->min, min), value_duration_text(f->max, max), value_duration_text(f->initial, initial));
        break;
    case FANOUT_FIELD_SIZE:
        fprintf(to, "{\"$ref\": \"#/$defs/size\", \"description\": \"from %s to %s\", \"default\": \"%s\"}",
                value_size_text(f->min, min), value_size_text(f->max, max), value_size_text(f->initial, initial));
        break;
    case FANOUT_FIELD_IGNORED:
        fputs("true", to);
        break;
    }
}

static size_t n_names(const struct fanout_field *f)
{
    size_t n = 0;

    while (n < FANOUT_FIELD_NAMES && f->names[n].n)
        n++;
    return n;
}

/* Other names of a field are the same thing. */
static void write_properties(FILE *to, const struct fanout_level *level)
{
    for (size_t i = 0; i < level->n; i++) {
        const struct fanout_field *f = &level->fields[i];

        fprintf(to, "%s        \"%s\": ", i ? ",\n" : "", f->names[0].p);
        write_type(to, f);
        for (size_t k = 1; k < n_names(f); k++)
            fprintf(to, ",\n        \"%s\": {\"$ref\": \"#/$defs/%s/properties/%s\"}", f->names[k].p, level->name,
                    f->names[0].p);
    }
}

/* Only one of them may be given. */
static void write_clashes(FILE *to, const struct fanout_level *level)
{
    const char *before = ",\n      \"not\": {\"anyOf\": [";
    bool has_any = false;

    for (size_t i = 0; i < level->n; i++)
        for (size_t a = 0; a < n_names(&level->fields[i]); a++)
            for (size_t b = a + 1; b < n_names(&level->fields[i]); b++) {
                fprintf(to, "%s\n        {\"required\": [\"%s\", \"%s\"]}", has_any ? "," : before, level->fields[i].names[a].p,
                        level->fields[i].names[b].p);
                has_any = true;
            }
    if (has_any)
        fputs("]}", to);
}

static void write_needed(FILE *to, const struct fanout_level *level)
{
    bool has_any = false;

    for (size_t i = 0; i < level->n; i++)
        if (level->fields[i].is_needed) {
            fprintf(to, "%s\"%s\"", has_any ? ", " : "      \"required\": [", level->fields[i].names[0].p);
            has_any = true;
        }
    if (has_any)
        fputs("],\n", to);
}

static void write_level(FILE *to, const struct fanout_level *level)
{
    fprintf(to, "    \"%s\": {\n      \"type\": \"object\",\n", level->name);
    write_needed(to, level);
    fputs("      \"additionalProperties\": false,\n      \"properties\": {\n", to);
    write_properties(to, level);
    fputs("}", to);
    write_clashes(to, level);
    fputs("},\n", to);
}

void fanout_schema_write(FILE *to)
{
    fputs("{\n"
          "  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
          "  \"$comment\": \"Written by tools/gen-config-doc from the tables in src/fanout. Change it there.\",\n"
          "  \"title\": \"Channels of Millrace's fan-out: channels.yaml or multiChannelFanoutConfig, see FANOUT.md\",\n"
          "  \"anyOf\": [{\"type\": \"null\"}, {\"$ref\": \"#/$defs/configuration\"}],\n"
          "  \"$defs\": {\n",
          to);
    for (size_t i = 0; fanout_schema_levels[i]; i++)
        write_level(to, fanout_schema_levels[i]);
    fputs(common, to);
    fputs("  }\n}\n", to);
}
