/* option_command: the rows of commands to devices, for the table in option_table.c, whose units they use. */
#pragma once

#include "config/option.h"
#include "config/option_tls.h"

static const char *const notices_choices[] = {[CONFIG_NOTICES_HONO] = "hono", [CONFIG_NOTICES_ALL] = "all", NULL};

static const char *const routing_choices[] = {
    [CONFIG_ROUTING_DIRECT] = "direct",
    [CONFIG_ROUTING_ROUTER] = "router",
    [CONFIG_ROUTING_SHARED] = "shared",
    [CONFIG_ROUTING_LINK] = "link",
    NULL,
};

static const char *const command_policy_choices[] = {
    [CONFIG_COMMAND_REFUSE] = "refuse", [CONFIG_COMMAND_QUEUE] = "queue", NULL};

static const char *const command_role_choices[] = {[CONFIG_COMMAND_ROLE_ALL] = "all",
                                                   [CONFIG_COMMAND_ROLE_ADAPTER] = "adapter",
                                                   [CONFIG_COMMAND_ROLE_ROUTER] = "router",
                                                   NULL};

#define COMMAND_OPTIONS(IN_CONFIG, RANGE)                                                                                      \
    {.path = "command", .type = OPTION_SECTION, .help = "Commands of applications to devices (docs/COMMANDS.md)."},            \
        {.path = "command.routing",                                                                                            \
         .type = OPTION_CHOICE,                                                                                                \
         .initial = "direct",                                                                                                  \
         .choices = routing_choices,                                                                                           \
         IN_CONFIG(command.routing),                                                                                           \
         .help = "How a command finds the instance that its device is connected to; the same for all instances. direct: each " \
                 "instance reads all commands. router: the instances with that role share the commands and pass them on by a " \
                 "topic for each instance. shared: all instances do. link: as router, by a connection instead of a topic."},   \
        {.path = "command.role",                                                                                               \
         .type = OPTION_CHOICE,                                                                                                \
         .initial = "all",                                                                                                     \
         .choices = command_role_choices,                                                                                      \
         IN_CONFIG(command.role),                                                                                              \
         .help = "With the routing router or link: whether this instance passes commands on (router), has devices that take "  \
                 "commands (adapter), or both."},                                                                              \
        {.path = "command.shared",                                                                                             \
         .type = OPTION_BOOL,                                                                                                  \
         .initial = "true",                                                                                                    \
         IN_CONFIG(command.is_shared),                                                                                         \
         .help = "Whether there may be other instances that have devices of the same tenants; then which has which is kept "   \
                 "in Kafka. An instance with the embedded Kafka is alone in any case."},                                       \
        {.path = "command.lease",                                                                                              \
         .type = OPTION_DURATION,                                                                                              \
         .initial = "5s",                                                                                                      \
         RANGE(1000, 5 * 60 * 1000),                                                                                           \
         IN_CONFIG(command.lease_ms),                                                                                          \
         .help = "For how long the others wait for an instance that says nothing, before they take it for dead."},             \
        {.path = "command.notices",                                                                                            \
         .type = OPTION_CHOICE,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "hono",                                                                                                    \
         .choices = notices_choices,                                                                                           \
         IN_CONFIG(command.notices),                                                                                           \
         .help =                                                                                                               \
             "Which commands that are not delivered an application is told of by a record in "                                 \
             "hono.command_response.TENANT. hono: those that ask for a response, unless their time to live has elapsed or "    \
             "their key is not their device, as Eclipse Hono does. all: every one that has a correlation id."},                \
        {.path = "command.ack_topic",                                                                                          \
         .type = OPTION_TEXT,                                                                                                  \
         .initial = "response",                                                                                                \
         RANGE(1, 200),                                                                                                        \
         .characters = OPTION_TOPIC,                                                                                           \
         IN_CONFIG(command.ack_topic),                                                                                         \
         .help = "Where notices of delivery go that a command asks for (ack-required). response: to "                          \
                 "hono.command_response.TENANT, with the failures. Any other text begins the name of a topic of their own: "   \
                 "TEXT.TENANT."},                                                                                              \
        {.path = "command.ack_timeout",                                                                                        \
         .type = OPTION_DURATION,                                                                                              \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "1s",                                                                                                      \
         RANGE(10, MS_PER_H),                                                                                                  \
         IN_CONFIG(command.ack_timeout_ms),                                                                                    \
         .help = "How long a device that takes commands with QoS 1 has to acknowledge one; then the application is told that " \
                 "it is not known to have arrived (503). It may have, and its response may still come."},                      \
        {.path = "command.resend_interval",                                                                                    \
         .type = OPTION_DURATION,                                                                                              \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "0",                                                                                                       \
         RANGE(0, 60 * 60 * 1000),                                                                                             \
         IN_CONFIG(command.resend_interval_ms),                                                                                \
         .help =                                                                                                               \
             "After how long an MQTT 3.1.1 client is sent a command again (DUP, QoS 1) that it has not acknowledged, until "   \
             "ack_timeout. 0: never, as MQTT 5 demands; a session that is resumed is sent it again in any case."},             \
        {.path = "command.policy",                                                                                             \
         .type = OPTION_CHOICE,                                                                                                \
         .initial = "refuse",                                                                                                  \
         .choices = command_policy_choices,                                                                                    \
         IN_CONFIG(command.policy),                                                                                            \
         .help = "What becomes of a command for a device that nobody is subscribed for. refuse: the application is told at "   \
                 "once. queue: if it has a ttl, it is kept until the device is back or the time has elapsed."},                \
        {.path = "command.queue_per_device",                                                                                   \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "100",                                                                                                     \
         RANGE(1, 100000),                                                                                                     \
         IN_CONFIG(command.queue_per_device),                                                                                  \
         .help = "How many commands are kept for one device; one more is refused (429)."},                                     \
        {.path = "command.queue_per_tenant",                                                                                   \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "10000",                                                                                                   \
         RANGE(1, 10000000),                                                                                                   \
         IN_CONFIG(command.queue_per_tenant),                                                                                  \
         .help = "How many commands are kept for all devices of a tenant; one more is refused (429)."},                        \
        {.path = "command.message_id_in_topic",                                                                                \
         .type = OPTION_BOOL,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "false",                                                                                                   \
         IN_CONFIG(command.has_message_id_in_topic),                                                                           \
         .help = "Whether the topic of a command to an MQTT 3.1.1 client ends with /?message-id=ID, since it cannot be told "  \
                 "the message id otherwise."},                                                                                 \
        {.path = "command.link", .type = OPTION_SECTION, .help = "The connections between instances, with the routing link."}, \
        {.path = "command.link.listen",                                                                                        \
         .type = OPTION_ADDRESS,                                                                                               \
         IN_CONFIG(command.link_listen),                                                                                       \
         .help = "Where other instances connect to, with the routing link."},                                                  \
        {.path = "command.link.advertise",                                                                                     \
         .type = OPTION_TEXT,                                                                                                  \
         RANGE(0, 300),                                                                                                        \
         IN_CONFIG(command.link_advertise),                                                                                    \
         .help = "HOST:PORT by which others reach that; the default is the host's name and the port that is listened at."},    \
        TLS_OPTIONS("command.link.tls", offsetof(struct config, command) + offsetof(struct config_command, link_tls))
