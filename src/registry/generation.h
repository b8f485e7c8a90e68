/* generation: one state of everything that a reload can change: the configuration, the registry made of it, and the compiled
 * rules. Immutable and shared by reference count, any thread. Each worker holds one and uses nothing else while it handles a
 * packet, so that every publish sees exactly one generation; a reload gives it the next (adapter/mqtt/mqtt_reload.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

struct registry;
struct rule_table;
struct tls;
struct tls_tickets;
struct to_mqtt_rules;

/* What TLS is set up with (loop/tls.h); all-zero is none. References that the generation owns. */
struct generation_tls {
    struct tls **listeners; /* of each listener of the configuration; NULL: it is plain */
    size_t n_listeners;
    struct tls *admin;           /* NULL: plain */
    struct tls *client;          /* where we are the client of an https URL */
    struct tls *link_server;     /* of connections between instances (command.link); NULL: there are none, */
    struct tls *link_client;     /* then this one is NULL too */
    struct tls_tickets *tickets; /* of this process, handed on from generation to generation */
};

struct generation {
    uint64_t number; /* from 1 */
    struct config *config;
    struct registry *registry;
    struct rule_table *rules;      /* never NULL */
    struct to_mqtt_rules *to_mqtt; /* NULL: whoever made it has nothing read from Kafka; set before it is shared, and owned */
    struct generation_tls tls;     /* set before it is shared, and owned */
};

/* Takes the caller's references to `config` and `rules` and builds the registry. `rules` NULL: none. The caller owns one
 * reference. Never fails. */
struct generation *generation_new(uint64_t number, struct config *config, struct rule_table *rules);

/* Takes and gives back a reference. The last generation_unref() frees; NULL is a no-op. */
struct generation *generation_ref(struct generation *generation);
void generation_unref(struct generation *generation);

/* Releases what it holds, and leaves none. */
void generation_free_tls(struct generation_tls *set);

/* Of a listener, by its index in the configuration; NULL: it is plain. Borrowed. */
static inline struct tls *generation_listener_tls(const struct generation *generation, size_t index)
{
    return index < generation->tls.n_listeners ? generation->tls.listeners[index] : NULL;
}
