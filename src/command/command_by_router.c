/* router: as shared, but the members of the group are those instances that have the role of a router; others only have devices. docs/adr/0021. */
#include "command/command_group.h"
#include "command/command_router.h"

const struct command_design command_by_router = {
    .name = "router",
    .carrier = COMMAND_CARRIER_TOPICS,
    .is_grouped = true,
    .has_roles = true,
    .turn = command_group_turn,
};
