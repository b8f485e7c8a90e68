/* fanout_schema: the configuration of the fan-out as a JSON Schema, written from the tables that read it, so that an editor or a pipeline
 * can tell what is wrong before the fan-out does. docs/fanout-channels.schema.json is its text. */
#pragma once

#include <stdio.h>

#include "fanout/fanout_field.h"

/* The fields of one level and where they are kept. */
struct fanout_level {
    const char *name;
    const struct fanout_field *fields;
    size_t n;
};

/* Of the files that read them. */
extern const struct fanout_level fanout_config_level, fanout_channel_level, fanout_channel_config_level,
    fanout_subscription_level, fanout_delivery_level;

/* All levels, for tests. NULL ends them. */
extern const struct fanout_level *const fanout_schema_levels[];

/* Writes the schema (draft 2020-12). Every text that the reader takes is good to it if its texts are texts (a name 2024 wants quotes). What it finds
 * wrong is wrong; what concerns several fields, how long a time and how large a size may be only the reader knows. */
void fanout_schema_write(FILE *to);
