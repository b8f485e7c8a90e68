#include "routes/routes_metrics.h"

#define COUNTER(text, what)                                                                                                    \
    {                                                                                                                          \
        .name = (text), .help = (what), .kind = METRIC_COUNTER                                                                 \
    }
#define GAUGE(text, what)                                                                                                      \
    {                                                                                                                          \
        .name = (text), .help = (what), .kind = METRIC_GAUGE                                                                   \
    }
#define WRITES(how)                                                                                                            \
    {                                                                                                                          \
        .name = "millrace_routes_writes_total", .help = "Changes of routes and waiting commands asked for, by result",         \
        .kind = METRIC_COUNTER, .labels = "result=\"" how "\""                                                                 \
    }

struct metric routes_metrics[ROUTES_COUNTS] = {
    [ROUTES_COUNT_ENTRIES] = GAUGE("millrace_routes", "Subscriptions to commands, of all instances, that are known"),
    [ROUTES_COUNT_GATEWAYS] = GAUGE("millrace_routes_gateways", "Devices whose last gateway is known"),
    [ROUTES_COUNT_INSTANCES] = GAUGE("millrace_routes_instances", "Instances that hold a lease, this one included"),
    [ROUTES_COUNT_QUEUES] = GAUGE("millrace_routes_queues", "Devices for which commands wait"),
    [ROUTES_COUNT_EVENTS] = COUNTER("millrace_routes_changes_total", "Changes of the table that replicas have applied"),
    [ROUTES_COUNT_SKIPPED] =
        COUNTER("millrace_routes_skipped_total", "States of the table that are of a later version, or none"),
    [ROUTES_COUNT_REFILLS] = COUNTER("millrace_routes_refills_total",
                                     "Times that a replica was filled anew: the view was rebuilt, or changes came too fast"),
    [ROUTES_COUNT_CHANGES_DROPPED] =
        COUNTER("millrace_routes_recent_dropped_total", "Times that too many changes waited for other instances to see them"),
    [ROUTES_COUNT_WRITES_ACCEPTED] = WRITES("accepted"),
    [ROUTES_COUNT_WRITES_REFUSED] = WRITES("refused"),
    [ROUTES_COUNT_WRITES_UNLEASED] = WRITES("unleased"),
    [ROUTES_COUNT_WRITES_FAILED] = WRITES("failed"),
    [ROUTES_COUNT_NOTES_DROPPED] =
        COUNTER("millrace_routes_notes_dropped_total", "Gateways heard from that were not noted: too many, or a write failed"),
    [ROUTES_COUNT_GATEWAYS_CLEANED] =
        COUNTER("millrace_routes_gateways_removed_total", "Notes of last gateways that were asked to be removed: too old"),
    [ROUTES_COUNT_RENEWALS] = COUNTER("millrace_routes_renewals_total", "Renewals of the lease that were accepted"),
    [ROUTES_COUNT_PUBLICATIONS] =
        COUNTER("millrace_routes_publications_total", "Times that others were told what this instance has seen and done"),
    [ROUTES_COUNT_LEASES] = COUNTER("millrace_routes_leases_total", "Leases that this process got"),
    [ROUTES_COUNT_LEASES_LATE] =
        COUNTER("millrace_routes_leases_late_total",
                "Times that the lease was not renewed in time, so that nothing was delivered for a while"),
    [ROUTES_COUNT_LEASES_LOST] = COUNTER("millrace_routes_leases_lost_total", "Leases that this process lost"),
    [ROUTES_COUNT_FENCED] = COUNTER("millrace_routes_fenced_total", "Instances that this one has declared dead"),
    [ROUTES_COUNT_ORPHANS] =
        COUNTER("millrace_routes_orphans_total", "Subscriptions of instances that are gone that this one has removed"),
    [ROUTES_COUNT_DONE_DROPPED] =
        COUNTER("millrace_routes_done_dropped_total", "Ranges of done commands that were too many to be kept"),
    [ROUTES_COUNT_REPORTS_DROPPED] =
        COUNTER("millrace_routes_reports_dropped_total", "What this instance could not tell the others: too much waited"),
};
