/* command_group: what the designs have in common whose instances share the commands as one consumer group. The router's thread. */
#pragma once

#include "command/command_design.h"

/* The partition's member acts, as long as it is sure of what it knows. */
enum command_turn command_group_turn(struct command_router *r, const struct command *c, const struct command_choice *choice);
