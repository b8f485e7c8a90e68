/* mqtt_rules: what clients publish to ordinary topics, and what happens to clients, as records by the table of rules
 * (core/rule_table.h).
 *
 * The records of one message go all or not at all as far as room is concerned: room for all is taken first, then subscribers get
 * the message, then the records are submitted. Its sender hears of it when the strictest class of the rule is met: with `quorum`
 * when all are stored, the first failure giving the reason; with `received` at once. Runs on the worker. */
#pragma once

#include "adapter/ledger.h"
#include "adapter/mqtt/mqtt_conn.h"
#include "adapter/mqtt/mqtt_metrics.h"
#include "core/rule_record.h"

enum { MQTT_RULES_USER_BYTES = 400 };

/* A rule's refusal among the adapter's. */
enum ledger_refusal mqtt_rules_refusal(enum rule_refusal refusal);

/* For the records on their way; one a worker. */
struct slab mqtt_rules_slab(void);

/* A publish to which `rule` applies, with the segments that rule_table_find() gave. HANDLE_WAIT: no room, or a topic is being
 * made; nothing has happened. */
enum handle mqtt_rules_publish(struct mqtt_conn *c, const struct mqtt_publish *publish, struct str topic,
                               const struct rule *rule, const struct str *segments);

/* The same for a will, which nobody waits for and which waits for nothing. */
void mqtt_rules_publish_will(struct mqtt_worker *mw, const struct principal *principal, struct message *will,
                             const struct rule *rule, const struct str *segments);

/* An event: its payload, a JSON text, becomes the value. Without room it is dropped and counted. */
void mqtt_rules_send_event(struct mqtt_worker *mw, const struct rule *rule, const struct rule_message *event);

/* Who a client is, for templates: everything that a rule's message says of a sender. `user` holds MQTT_RULES_USER_BYTES and lives as
 * long as the message is used. */
void mqtt_rules_set_sender(struct rule_message *m, const struct principal *principal, struct str client_id, char *user);
