/* option_tenant: the rows of what a tenant may use, for the table in option_table.c, named as in Hono's registry. */
#pragma once

/* What of `what` may be used in a period: `max_key` bounds it, `max_help` says in what. */
#define TENANT_ALLOWANCE_OPTIONS(in_tenant, range, what, member, max_key, what_help, max_help)                                 \
    {.path = "tenants.*.resource-limits." what, .type = OPTION_SECTION, .flags = OPTION_RELOADABLE, .help = what_help},        \
        {.path = "tenants.*.resource-limits." what ".effective-since",                                                         \
         .type = OPTION_TEXT,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "1970-01-01T00:00:00Z",                                                                                    \
         range(1, 64),                                                                                                         \
         in_tenant(limits.member.since),                                                                                       \
         .help = "From when on it counts (RFC 3339). A month in which it begins is allowed the share of its remaining days."}, \
        {.path = "tenants.*.resource-limits." what "." max_key,                                                                \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "-1",                                                                                                      \
         range(-1, INT64_MAX),                                                                                                 \
         in_tenant(limits.member.max),                                                                                         \
         .help = max_help},                                                                                                    \
        {.path = "tenants.*.resource-limits." what ".period",                                                                  \
         .type = OPTION_SECTION,                                                                                               \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .help = "How long a period is."},                                                                                     \
        {.path = "tenants.*.resource-limits." what ".period.mode",                                                             \
         .type = OPTION_CHOICE,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "monthly",                                                                                                 \
         .choices = period_choices,                                                                                            \
         in_tenant(limits.member.period),                                                                                      \
         .help = "Calendar months in UTC, or a number of days from effective-since on."},                                      \
    {                                                                                                                          \
        .path = "tenants.*.resource-limits." what ".period.no-of-days", .type = OPTION_NUMBER, .flags = OPTION_RELOADABLE,     \
        .initial = "30", range(1, 36600), in_tenant(limits.member.days), .help = "How many days, with the mode days."          \
    }

#define TENANT_LIMIT_OPTIONS(in_tenant, range)                                                                                 \
    {.path = "tenants.*.minimum-message-size",                                                                                 \
     .type = OPTION_NUMBER,                                                                                                    \
     .flags = OPTION_RELOADABLE,                                                                                               \
     .initial = "0",                                                                                                           \
     range(0, INT32_MAX),                                                                                                      \
     in_tenant(limits.minimum_message_size),                                                                                   \
     .help = "For resource-limits.data-volume a payload counts as a multiple of that many bytes; 0: as it is."},               \
        {.path = "tenants.*.resource-limits.max-connections",                                                                  \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "-1",                                                                                                      \
         range(-1, INT64_MAX),                                                                                                 \
         in_tenant(limits.max_connections),                                                                                    \
         .help = "How many MQTT connections the tenant may have at a time, in this instance; -1 is no bound."},                \
        TENANT_ALLOWANCE_OPTIONS(                                                                                              \
            in_tenant, range, "data-volume", data_volume, "max-bytes",                                                         \
            "How much payload its devices may send and get in telemetry, events, commands and responses.",                     \
            "The most bytes in a period, in this instance; -1 is no bound."),                                                  \
        TENANT_ALLOWANCE_OPTIONS(in_tenant, range, "connection-duration", connection_duration, "max-minutes",                  \
                                 "How long its MQTT clients may be connected, all together. Looked at when one connects.",     \
                                 "The most minutes in a period, in this instance; -1 is no bound.")
