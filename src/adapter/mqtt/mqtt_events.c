#include "adapter/mqtt/mqtt_events.h"

#include <stdio.h>

#include "adapter/mqtt/mqtt_connection_events.h"
#include "adapter/mqtt/mqtt_rules.h"
#include "base/check.h"
#include "base/jsonw.h"
#include "core/message.h"

enum { NAME_BYTES = 64 };

/* An event being written. */
struct event {
    struct mqtt_worker *mw;
    const struct rule *rule;
    struct rule_message message;
    char user[MQTT_RULES_USER_BYTES];
    err e;
};

static void put(struct event *ev, struct str text)
{
    if (ev->e == E_OK)
        ev->e = buf_append(&ev->mw->event, MEM_ADAPTER, text);
}

static void put_string(struct event *ev, struct str text)
{
    if (ev->e == E_OK)
        ev->e = jsonw_string(&ev->mw->event, MEM_ADAPTER, text);
}

static void put_member(struct event *ev, struct str name, struct str value)
{
    put(ev, STR(",\""));
    put(ev, name);
    put(ev, STR("\":"));
    put_string(ev, value);
}

static void put_number(struct event *ev, struct str name, uint64_t value)
{
    if (ev->e == E_OK)
        ev->e = buf_printf(&ev->mw->event, MEM_ADAPTER, ",\"%.*s\":%llu", STR_ARG(name), (unsigned long long)value);
}

static void put_bool(struct event *ev, struct str name, bool value)
{
    put(ev, STR(",\""));
    put(ev, name);
    put(ev, value ? STR("\":true") : STR("\":false"));
}

/* A reason as the specification names it, in small letters with `_` between the words. */
static void put_reason(struct event *ev, const char *name)
{
    char text[NAME_BYTES];
    size_t n = 0;

    for (; name[n] && n < sizeof text; n++) {
        char c = name[n];

        text[n] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
        if (!(text[n] >= 'a' && text[n] <= 'z') && !(c >= '0' && c <= '9'))
            text[n] = '_';
    }
    put_member(ev, STR("reason"), (struct str){text, n});
}

/* Whether a rule wants the event; begins the text then. */
static bool begin(struct event *ev, struct mqtt_worker *mw, enum rule_source source, const struct principal *principal,
                  struct str client_id)
{
    ev->rule = rule_table_find_event(mqtt_rule_table(mw), source, principal->tenant->id);
    if (!ev->rule)
        return false;
    ev->mw = mw;
    ev->e = E_OK;
    ev->message = (struct rule_message){
        .event = str_from(rule_table_source_name(source)),
        .content_type = STR("application/json"),
    };
    mqtt_rules_set_sender(&ev->message, principal, client_id, ev->user);
    buf_consume(&mw->event, buf_size(&mw->event));
    put(ev, STR("{\"event\":\""));
    put(ev, ev->message.event);
    put(ev, STR("\""));
    put_number(ev, STR("time"), loop_wall_ms());
    put_member(ev, STR("tenant"), ev->message.tenant);
    put_member(ev, STR("client_id"), client_id);
    if (ev->message.user.n) {
        put_member(ev, STR("user"), ev->message.user);
        put_member(ev, STR("device_id"), ev->message.device_id);
    }
    return true;
}

static void end(struct event *ev)
{
    put(ev, STR("}"));
    /* Without memory the event is told with an empty text rather than not at all. */
    ev->message.payload = ev->e == E_OK ? buf_str(&ev->mw->event) : (struct str){0};
    mqtt_rules_send_event(ev->mw, ev->rule, &ev->message);
}

static bool begin_of(struct event *ev, struct mqtt_conn *c, enum rule_source source)
{
    return begin(ev, c->mw, source, &c->ss->principal, session_client_id(c->ss));
}

void mqtt_events_tell_connect(struct mqtt_conn *c, const struct mqtt_connect *connect, bool is_present)
{
    static const char *const versions[] = {
        [MQTT_VERSION_3_1] = "3.1", [MQTT_VERSION_3_1_1] = "3.1.1", [MQTT_VERSION_5] = "5.0"};
    struct event ev;

    mqtt_connection_events_tell(c, true);
    if (!begin_of(&ev, c, RULE_SOURCE_CONNECT))
        return;
    put_member(&ev, STR("protocol"), str_from(versions[connect->version]));
    put_member(&ev, STR("listener"), mqtt_conn_listener(c)->id);
    put_number(&ev, STR("keep_alive_s"), c->keep_alive_s);
    put_bool(&ev, STR("clean_start"), connect->clean_start);
    put_bool(&ev, STR("session_present"), is_present);
    end(&ev);
}

void mqtt_events_tell_disconnect(struct mqtt_conn *c, enum mqtt_end by, enum mqtt_reason code)
{
    static const char *const ends[] = {
        [MQTT_END_CLIENT] = "client", [MQTT_END_SERVER] = "server", [MQTT_END_NETWORK] = "network"};
    struct event ev;

    if (c->state != MQTT_OPEN || !c->ss || c->is_end_told)
        return;
    c->is_end_told = true;
    mqtt_connection_events_tell(c, false);
    if (!begin_of(&ev, c, RULE_SOURCE_DISCONNECT))
        return;
    put_member(&ev, STR("by"), str_from(ends[by]));
    if (by == MQTT_END_NETWORK) {
        put_member(&ev, STR("reason"), STR("connection_lost"));
    } else {
        put_reason(&ev, code == MQTT_REASON_SUCCESS ? "Normal disconnection" : mqtt_reason_name(code));
        put_number(&ev, STR("code"), code);
    }
    end(&ev);
}

void mqtt_events_tell_subscribe(struct mqtt_conn *c, const struct mqtt_subscribe *packet, const uint8_t *reasons)
{
    struct mqtt_subscription wanted;
    struct event ev;
    size_t n = 0;

    if (!begin_of(&ev, c, RULE_SOURCE_SUBSCRIBE))
        return;
    put(&ev, STR(",\"filters\":["));
    for (struct str rest = packet->filters; mqtt_subscribe_next(packet, &rest, &wanted); n++) {
        put(&ev, n ? STR(",{\"filter\":") : STR("{\"filter\":"));
        put_string(&ev, wanted.filter.text);
        put_number(&ev, STR("code"), reasons[n]);
        put(&ev, STR("}"));
    }
    put(&ev, STR("]"));
    end(&ev);
}

void mqtt_events_tell_session_end(void *context, struct shard *shard, const struct session *ss, bool is_replaced)
{
    struct mqtt_worker *mw = mqtt_worker_of(context, shard);
    struct event ev;

    if (!begin(&ev, mw, RULE_SOURCE_SESSION_END, &ss->principal, session_client_id(ss)))
        return;
    put_member(&ev, STR("reason"), is_replaced ? STR("replaced") : STR("expired"));
    end(&ev);
}
