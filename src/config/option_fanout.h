/* option_fanout: the rows of the fan-out, which is a part of its own, for the table in option_table.c. */
#pragma once

#define FANOUT_OPTIONS(in_config, range)                                                                                       \
    {.path = "fanout",                                                                                                         \
     .type = OPTION_SECTION,                                                                                                   \
     .help = "The fan-out of CloudEvents over HTTP, see FANOUT.md. It is there when this section is, even an empty one; with " \
             "no listeners and no kafka beside it the process is nothing else."},                                              \
        {.path = "fanout.listen",                                                                                              \
         .type = OPTION_ADDRESS,                                                                                               \
         .initial = "0.0.0.0:11235",                                                                                           \
         in_config(fanout.listen),                                                                                             \
         .help = "Where events come in, by HTTP/1.1 or HTTP/2 with prior knowledge."},                                         \
        {.path = "fanout.config_dir",                                                                                          \
         .type = OPTION_TEXT,                                                                                                  \
         .initial = "/etc/config/fanout_sidecar",                                                                              \
         range(1, 4000),                                                                                                       \
         in_config(fanout.config_dir),                                                                                         \
         .help = "The folder with the channels, in the file channels.yaml or else multiChannelFanoutConfig, the name that "    \
                 "Knative's first sidecar used. It is watched; a change holds within a second, a broken one changes "          \
                 "nothing."},                                                                                                  \
        {.path = "fanout.sources",                                                                                             \
         .type = OPTION_STRINGS,                                                                                               \
         range(0, 2),                                                                                                          \
         in_config(fanout.sources),                                                                                            \
         .help = "Where channels come from: file, put (PUT /config at the administration port, kept in data_dir), or both; "   \
                 "of two the first that has something counts. The default is file alone."},                                    \
        {.path = "fanout.isolate_channels",                                                                                    \
         .type = OPTION_BOOL,                                                                                                  \
         .initial = "false",                                                                                                   \
         in_config(fanout.isolates_channels),                                                                                  \
         .help = "What becomes of a configuration in which a channel is wrong. false: nothing of it is taken over. true: "     \
                 "the other channels are; that one stays as it was, or is left out (503) when it was not there. Neither "      \
                 "for PUT /config nor for write-config and check, which refuse it in any case."},                              \
        {.path = "fanout.put_token",                                                                                           \
         .type = OPTION_TEXT,                                                                                                  \
         .flags = OPTION_SECRET,                                                                                               \
         range(0, 1024),                                                                                                       \
         in_config(fanout.put_token),                                                                                          \
         .help = "What PUT /config, DELETE /config and changes below /parked must show, as Authorization: Bearer TOKEN. "      \
                 "Without one they are open to whoever reaches the port, so admin.listen must be on the loopback address."},   \
        {.path = "fanout.grace",                                                                                               \
         .type = OPTION_DURATION,                                                                                              \
         .initial = "5s",                                                                                                      \
         range(0, 3600 * 1000),                                                                                                \
         in_config(fanout.grace_ms),                                                                                           \
         .help = "How long an orderly stop still takes events after /readyz says no, so that load balancers can notice. "      \
                 "drain_timeout begins after it."},                                                                            \
        {.path = "fanout.park_max_bytes",                                                                                      \
         .type = OPTION_SIZE,                                                                                                  \
         .initial = "1GiB",                                                                                                    \
         range(1 << 20, 1LL << 36),                                                                                            \
         in_config(fanout.park_max_bytes),                                                                                     \
         .help = "How many bytes of events may be parked in data_dir (on_exhausted: park). Past it the delivery has failed, "  \
                 "and the sender is told so."},                                                                                \
        {.path = "fanout.park_delay",                                                                                          \
         .type = OPTION_DURATION,                                                                                              \
         .initial = "30s",                                                                                                     \
         range(10, 3600 * 1000),                                                                                               \
         in_config(fanout.park_delay_ms),                                                                                      \
         .help = "How long a parked event rests before it is tried again; twice as long after each attempt in vain, up to "    \
                 "park_delay_max. Each rest is shortened at random, at most to its half."},                                    \
        {.path = "fanout.park_delay_max",                                                                                      \
         .type = OPTION_DURATION,                                                                                              \
         .initial = "10m",                                                                                                     \
         range(10, 24 * 3600 * 1000),                                                                                          \
         in_config(fanout.park_delay_max_ms),                                                                                  \
         .help = "The longest such rest. A parked event is never given up."},                                                  \
        {.path = "fanout.stateless",                                                                                           \
         .type = OPTION_SECTION,                                                                                               \
         .help = "Events that bring their own list of subscriptions. Off without a token."},                                   \
        {.path = "fanout.stateless.token",                                                                                     \
         .type = OPTION_TEXT,                                                                                                  \
         .flags = OPTION_SECRET,                                                                                               \
         range(0, 1024),                                                                                                       \
         in_config(fanout.stateless_token),                                                                                    \
         .help = "What such a request must show, as Authorization: Bearer TOKEN."},                                            \
    {                                                                                                                          \
        .path = "fanout.stateless.allow", .type = OPTION_STRINGS, range(0, 64), in_config(fanout.stateless_allow),             \
        .help =                                                                                                                \
            "The only targets such a request may name, none by default: HOST, HOST:PORT, *.DOMAIN with or without a port, or " \
            "kafka:TOPIC."                                                                                                     \
    }
