#include "config/setter.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "config/nearest.h"
#include "config/value.h"

static bool refuse(struct setter_reason *why, const char *format, ...) PRINTF_LIKE(2, 3);

static bool refuse(struct setter_reason *why, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return false;
}

static bool check_range(const struct option *o, int64_t value, struct setter_reason *why)
{
    char least[VALUE_TEXT_BYTES], most[VALUE_TEXT_BYTES];

    if (value >= o->min && value <= o->max)
        return true;
    if (o->type == OPTION_SIZE)
        return refuse(why, "must be from %s to %s", value_size_text(o->min, least), value_size_text(o->max, most));
    if (o->type == OPTION_DURATION)
        return refuse(why, "must be from %s to %s", value_duration_text(o->min, least), value_duration_text(o->max, most));
    return refuse(why, "must be from %" PRId64 " to %" PRId64, o->min, o->max);
}

static bool set_bool(const struct option *o, struct str text, void *to, struct setter_reason *why)
{
    bool value;

    (void)o;
    if (!value_to_bool(text, &value))
        return refuse(why, "expected true or false");
    memcpy(to, &value, sizeof value);
    return true;
}

static bool set_integer(const struct option *o, struct str text, void *to, struct setter_reason *why)
{
    int64_t value = 0;

    if (o->type == OPTION_NUMBER && !value_to_number(text, &value))
        return refuse(why, "expected a whole number");
    if (o->type == OPTION_SIZE && !value_to_size(text, &value))
        return refuse(why, "expected a size such as 65536, 64KiB or 1MiB");
    if (o->type == OPTION_DURATION && !value_to_duration(text, &value))
        return refuse(why, "expected a duration such as 250ms, 30s or 1h");
    if (!check_range(o, value, why))
        return false;
    memcpy(to, &value, sizeof value);
    return true;
}

static bool set_text(const struct option *o, struct str text, void *to, struct setter_reason *why)
{
    if (text.n < (size_t)o->min && text.n)
        return refuse(why, "is too short (at least %" PRId64 " bytes)", o->min);
    if (text.n < (size_t)o->min)
        return refuse(why, "must not be empty");
    if (text.n > (size_t)o->max)
        return refuse(why, "is too long (at most %" PRId64 " bytes)", o->max);
    if (!option_has_only(o->characters, text))
        return refuse(why, "may only have %s", option_characters_name(o->characters));
    memcpy(to, &text, sizeof text);
    return true;
}

static bool set_address(const struct option *o, struct str text, void *to, struct setter_reason *why)
{
    struct config_address address = {.host = STR(""), .text = text};

    if (text.n == 0 && (o->flags & OPTION_REQUIRED))
        return refuse(why, "must not be empty");
    if (text.n && !value_to_address(text, &address.host, &address.port))
        return refuse(why, "expected HOST:PORT, as in 0.0.0.0:1883 or [::1]:1883");
    memcpy(to, &address, sizeof address);
    return true;
}

bool setter_find_choice(const struct option *o, struct str text, int *out_value, struct setter_reason *why)
{
    struct nearest near = {.word = text};
    struct str best;

    for (int i = 0; o->choices[i]; i++) {
        if (str_equal(text, str_from(o->choices[i]))) {
            *out_value = i;
            return true;
        }
        nearest_offer(&near, str_from(o->choices[i]));
    }
    best = nearest_result(&near);
    if (best.n)
        return refuse(why, "unknown value (did you mean %.*s?)", STR_ARG(best));
    size_t n = (size_t)snprintf(why->text, sizeof why->text, "unknown value; one of");
    for (int i = 0; o->choices[i] && n < sizeof why->text; i++)
        n += (size_t)snprintf(why->text + n, sizeof why->text - n, "%s %s", i ? "," : "", o->choices[i]);
    return false;
}

static bool set_choice(const struct option *o, struct str text, void *to, struct setter_reason *why)
{
    int value;

    if (!setter_find_choice(o, text, &value, why))
        return false;
    memcpy(to, &value, sizeof value);
    return true;
}

typedef bool (*setter)(const struct option *o, struct str text, void *to, struct setter_reason *why);

static const setter setters[OPTION_TYPES] = {
    [OPTION_BOOL] = set_bool, [OPTION_NUMBER] = set_integer,  [OPTION_SIZE] = set_integer,  [OPTION_DURATION] = set_integer,
    [OPTION_TEXT] = set_text, [OPTION_ADDRESS] = set_address, [OPTION_CHOICE] = set_choice,
};

bool setter_write(const struct option *o, struct str text, void *to, struct setter_reason *why)
{
    return setters[o->type](o, text, to, why);
}

void setter_write_default(const struct option *o, void *to)
{
    static const struct str no_text = STR_INIT("");
    struct config_address nowhere = {.host = no_text, .text = no_text};
    struct setter_reason why;

    if (o->initial)
        ASSERT(setter_write(o, str_from(o->initial), to, &why));
    else if (o->type == OPTION_TEXT)
        memcpy(to, &no_text, sizeof no_text);
    else if (o->type == OPTION_ADDRESS)
        memcpy(to, &nowhere, sizeof nowhere);
}
