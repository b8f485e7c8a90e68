/* mqtt_pending: publishes of a connection whose outcome is not known yet. PUBACK and PUBREC leave in the order of the PUBLISH
 * packets [MQTT-4.6.0-2, 4.6.0-3], but delivery reports come by partition; so every publish at QoS 1 or 2 that finds
 * others before it takes a place in the connection's list, and acknowledgements leave from its front.
 *
 * A place outlives its connection: the delivery report must find it. What a QoS 2 message came to is noted in the session, so
 * that the client, when it comes back and sends it again, is told by PUBREC and does not store it twice; if that is not known
 * yet, the place moves to the new connection. */
#pragma once

#include "adapter/ledger.h"
#include "adapter/mqtt/mqtt_conn.h"
#include "adapter/mqtt/mqtt_metrics.h"
#include "core/property_bag.h"
#include "core/sink.h"

struct mqtt_error_note;

struct mqtt_pending {
    struct delivery delivery;
    struct mqtt_pending *next;
    struct mqtt_conn *conn; /* NULL: gone, or nobody waits (QoS 0, a will) */
    struct mqtt_worker *mw;
    struct unsettled unsettled;   /* QoS 2: the session, if it lives */
    struct mqtt_error_note *note; /* NULL: nobody subscribed to its errors. Owned */
    uint16_t packet_id;
    uint8_t qos;
    uint8_t route;      /* enum ledger_route */
    uint8_t refusal;    /* enum ledger_refusal, when is_refused */
    uint8_t on_error;   /* enum property_bag_on_error */
    uint8_t n_expected; /* outcomes that have not come yet, of several records */
    bool is_settled;
    bool is_refused;
    bool is_terminal; /* a refusal that closes whatever `on_error` says */
};

/* A place for a publish that goes to Kafka; it counts for nothing until mqtt_pending_enter(), or goes back by
 * mqtt_pending_drop(). Never NULL. */
struct mqtt_pending *mqtt_pending_new(struct mqtt_conn *c, enum ledger_route route, uint8_t qos, uint16_t packet_id,
                                      enum property_bag_on_error on_error);

/* The same for a will, which has no connection: it only stands in the ledger, to be counted as waiting by the caller. */
struct mqtt_pending *mqtt_pending_new_will(struct mqtt_worker *mw, enum ledger_route route);

/* The sink has taken the record: the place goes to the end of the connection's list (QoS 0: only into the ledger) and waits
 * for its delivery's mail, which cannot come before this turn's handlers have returned. At QoS 2 the packet identifier has
 * been noted in the session. */
void mqtt_pending_enter(struct mqtt_conn *c, struct mqtt_pending *p);
void mqtt_pending_drop(struct mqtt_pending *p);

/* A QoS 2 message came again: its place, if its outcome is not known and it came on an earlier connection, joins this one's
 * list. False: the outcome is known. */
bool mqtt_pending_adopt(struct mqtt_conn *c, uint16_t packet_id);

/* For a publish that becomes several records, whose deliveries are others': before it is entered, that `n` outcomes will be noted;
 * each of them. With the last one the place is settled and must not be touched any more: refused if any was, with the first
 * failure's reason. */
void mqtt_pending_expect(struct mqtt_pending *p, unsigned n);
void mqtt_pending_note(struct mqtt_pending *p, enum outcome outcome);

/* Acknowledges a publish that needs nothing more, in its turn. Counts nothing: the caller has. */
void mqtt_pending_acknowledge(struct mqtt_conn *c, enum ledger_route route, uint8_t qos, uint16_t packet_id);

/* Refuses a publish in its turn: by reason code where the version has one, as the device asked by `on_error`
 * (docs/DEVICES.md), else by closing. Counts it. */
void mqtt_pending_refuse(struct mqtt_conn *c, enum ledger_route route, uint8_t qos, uint16_t packet_id,
                         enum property_bag_on_error on_error, enum ledger_refusal why);

/* The same for a place of mqtt_pending_new(), which it takes, with what the caller has put into `note` and `is_terminal`. */
void mqtt_pending_refuse_place(struct mqtt_conn *c, struct mqtt_pending *p, enum ledger_refusal why);

/* The connection goes: its places stand alone from now on. */
void mqtt_pending_orphan(struct mqtt_conn *c);

/* The reason code of a refusal in PUBACK, PUBREC and DISCONNECT (docs/wire/mqtt.md). */
enum mqtt_reason mqtt_pending_reason(enum ledger_refusal why);
