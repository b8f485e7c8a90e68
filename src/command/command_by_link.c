/* link: as router, but commands are passed on by a connection from instance to instance. docs/adr/0021. */
#include "command/command_group.h"
#include "command/command_router.h"

const struct command_design command_by_link = {
    .name = "link",
    .carrier = COMMAND_CARRIER_LINK,
    .is_grouped = true,
    .has_roles = true,
    .turn = command_group_turn,
};
