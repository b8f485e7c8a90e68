#include "config/config_doc.h"

#include <inttypes.h>
#include <string.h>

#include "config/option.h"
#include "config/value.h"

/* What cannot be read off the table. */
static const char introduction[] =
    "# Configuration\n"
    "\n"
    "<!-- Written by tools/gen-config-doc from src/config/option_table.c. Change it there. -->\n"
    "\n"
    "`millrace serve -c FILE` reads one YAML file; `millrace check -c FILE` says whether it is good. The smallest one:\n"
    "\n"
    "```yaml\n"
    "kafka: {bootstrap: \"k1:9092,k2:9092\"}\n"
    "listeners:\n"
    "  - {mqtt: \"0.0.0.0:1883\"}\n"
    "tenants:\n"
    "  demo:\n"
    "    devices:\n"
    "      sensor-1: {password: \"file:/run/secrets/sensor-1\"}\n"
    "      gateway-1: {password: \"env:GATEWAY_PASSWORD\"}\n"
    "      sensor-2: {via: gateway-1}\n"
    "```\n"
    "\n"
    "## Rules\n"
    "\n"
    "- Unknown keys, keys given twice and values of the wrong type or range are errors, told with file, line and the nearest\n"
    "  valid name. Nothing starts while there is one.\n"
    "- A key without a value (`kafka:`) is as good as left out.\n"
    "- The file is one document of at most 16 MiB and 16 levels, without anchors, aliases and tags.\n"
    "- Any option can be set on the command line, where it outranks the file: `--set limits.receive_maximum=100`,\n"
    "  `--set 'listeners[0].mqtt=0.0.0.0:1884'`, `--set tenants.demo.enabled=false`. A name with a dot in it is written in "
    "double\n"
    "  quotes: `--set 'tenants.\"a.b\".enabled=false'`. Lists and maps are given as YAML: `--set 'listeners=[{mqtt: "
    "\"[::1]:1883\"}]'`.\n"
    "- The file is read at the start, on SIGHUP and whenever it changes. Options marked *reloadable* are taken over then; a "
    "change\n"
    "  of any other is refused together with everything else in the file, and the log names it. See OPERATIONS.md.\n"
    "\n"
    "| Type | Written as |\n"
    "| --- | --- |\n"
    "| size | a whole number of bytes, or with `KiB`, `MiB`, `GiB`: `64KiB` |\n"
    "| duration | a whole number with `ms`, `s`, `m`, `h` or `d`: `250ms`, `30s`, `1h`; `0` needs no unit |\n"
    "| HOST:PORT | a name, an IPv4 address or an IPv6 address in brackets: `0.0.0.0:1883`, `[::1]:1883` |\n"
    "| secret | the text itself, or where it is kept: `file:PATH` (relative to the folder of the configuration "
    "file; one line end at its end is dropped) or `env:NAME`. Secrets are never printed |\n";

static void write_range(FILE *to, const struct option *o)
{
    char least[VALUE_TEXT_BYTES], most[VALUE_TEXT_BYTES];

    switch (o->type) {
    case OPTION_NUMBER:
        fprintf(to, ", %" PRId64 " to %" PRId64, o->min, o->max);
        break;
    case OPTION_SIZE:
        fprintf(to, ", %s to %s", value_size_text(o->min, least), value_size_text(o->max, most));
        break;
    case OPTION_DURATION:
        fprintf(to, ", %s to %s", value_duration_text(o->min, least), value_duration_text(o->max, most));
        break;
    case OPTION_TEXT:
        if (o->min > 1)
            fprintf(to, ", %" PRId64 " to %" PRId64 " bytes", o->min, o->max);
        else
            fprintf(to, ", at most %" PRId64 " bytes", o->max);
        break;
    default:
        break;
    }
    if (o->characters != OPTION_ANY)
        fprintf(to, "%s%s", o->type == OPTION_MAP ? ", names of " : " of ", option_characters_name(o->characters));
}

static void write_choices(FILE *to, const struct option *o)
{
    for (size_t i = 0; o->choices && o->choices[i]; i++)
        fprintf(to, "%s`%s`", i ? ", " : ": ", o->choices[i]);
}

static void write_option(FILE *to, const struct option *o)
{
    fprintf(to, "- **`%s`** (%s", o->path,
            o->type == OPTION_TEXT && (o->flags & OPTION_SECRET) ? "secret" : option_type_name(o->type));
    write_choices(to, o);
    write_range(to, o);
    if (o->initial)
        fprintf(to, ", default `%s`", o->initial);
    fprintf(to, "%s%s): %s\n", o->flags & OPTION_REQUIRED ? ", required" : "",
            o->flags & OPTION_RELOADABLE ? ", reloadable" : "", o->help);
}

/* The first name of a path, as in `kafka` of `kafka.bootstrap`. */
static struct str top_of(const char *path)
{
    return (struct str){path, strcspn(path, ".[")};
}

void config_doc_write_manual(FILE *to)
{
    struct str top = {0};

    fputs(introduction, to);
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &option_table[i];
        struct str now = top_of(o->path);

        if (!str_equal(top, now))
            fprintf(to, "\n## %.*s\n\n", STR_ARG(now));
        top = now;
        if (o->type == OPTION_SECTION && now.n == strlen(o->path))
            fprintf(to, "%s\n\n", o->help);
        else
            write_option(to, o);
    }
}

/* Whether a path is one of these, or below one. */
static bool is_among(struct str path, const char *paths)
{
    struct str rest = str_from(paths);
    bool has_more = true;

    while (has_more) {
        struct str one = str_take(&rest, ' ', &has_more);

        if (str_starts_with(path, one) && (path.n == one.n || path.p[one.n] == '.' || path.p[one.n] == '['))
            return true;
    }
    return false;
}

void config_doc_write_list(FILE *to, const char *paths)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &option_table[i];

        if (paths && !is_among(str_from(o->path), paths))
            continue;
        if (o->type == OPTION_SECTION || o->type == OPTION_LIST || o->type == OPTION_MAP)
            continue;
        fprintf(to, "  %-58s %s%s%s\n", o->path, option_type_name(o->type), o->initial ? ", default " : "",
                o->initial ? o->initial : "");
    }
}
