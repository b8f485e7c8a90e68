#include "command/command_design.h"

#include "base/check.h"
#include "command/command_group.h"
#include "command/command_router.h"

enum command_turn command_group_turn(struct command_router *r, const struct command *c, const struct command_choice *choice)
{
    (void)c;
    (void)choice;
    return routes_is_leased(r->replica) ? COMMAND_TURN_ACT : COMMAND_TURN_WAIT;
}

const struct command_design *command_design_of(int routing)
{
    static const struct command_design *const designs[] = {
        [CONFIG_ROUTING_DIRECT] = &command_direct,
        [CONFIG_ROUTING_ROUTER] = &command_by_router,
        [CONFIG_ROUTING_SHARED] = &command_shared,
        [CONFIG_ROUTING_LINK] = &command_by_link,
    };

    ASSERT(routing >= 0 && (size_t)routing < ARRAY_LEN(designs));
    return designs[routing];
}
