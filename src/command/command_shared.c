/* shared: the instances are members of one consumer group. A partition's commands are its member's, which passes them on to the instance of the
 * device by a topic. docs/adr/0021. */
#include "command/command_group.h"
#include "command/command_router.h"

const struct command_design command_shared = {
    .name = "shared",
    .carrier = COMMAND_CARRIER_TOPICS,
    .is_grouped = true,
    .turn = command_group_turn,
};
