/* kafka_acls: the least permissions in Kafka with which a configuration works, as arguments of kafka-acls.sh: of Millrace itself, and of
 * a tenant's applications, which then see nothing of other tenants. Main thread. */
#pragma once

#include <stdio.h>

#include "config/config.h"

struct rule_table;

/* Prints them, one line a resource, under a comment for each principal. */
void kafka_acls_print(FILE *to, const struct config *config, const struct rule_table *rules);
