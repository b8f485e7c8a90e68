#include "adapter/mqtt/mqtt_handshake.h"

#include <stdio.h>
#include <sys/random.h>

#include "adapter/mqtt/mqtt_commands.h"
#include "adapter/mqtt/mqtt_events.h"
#include "adapter/mqtt/mqtt_expiry.h"
#include "adapter/mqtt/mqtt_handlers.h"
#include "adapter/mqtt/mqtt_login.h"
#include "adapter/mqtt/mqtt_metrics.h"
#include "adapter/mqtt/mqtt_publish_in.h"
#include "base/check.h"
#include "base/log.h"
#include "core/message.h"
#include "loop/loop.h"
#include "loop/tls_peer.h"
#include "registry/device_token.h"
#include "registry/usage.h"

enum {
    ASSIGNED_ID_BYTES = 23, /* what every 3.1 server accepts, and what fits inside a session */
    RECEIVE_MAXIMUM_DEFAULT = 65535,
};

/* One row a result of the registry (docs/DEVICES.md). 3.1.1 return codes follow from the reasons. */
static const enum mqtt_reason reasons[REGISTRY_RESULTS] = {
    [REGISTRY_OK] = MQTT_REASON_SUCCESS,
    [REGISTRY_BAD_CREDENTIALS] = MQTT_REASON_BAD_USER_NAME_OR_PASSWORD,
    [REGISTRY_ADAPTER_DISABLED] = MQTT_REASON_NOT_AUTHORIZED,
    [REGISTRY_DEVICE_DISABLED] = MQTT_REASON_NOT_AUTHORIZED,
    [REGISTRY_TENANT_REFUSED] = MQTT_REASON_NOT_AUTHORIZED,
    [REGISTRY_UNAVAILABLE] = MQTT_REASON_SERVER_UNAVAILABLE,
    [REGISTRY_PENDING] = MQTT_REASON_SERVER_UNAVAILABLE, /* not an answer */
};

void mqtt_handshake_drop(struct mqtt_handover *handover)
{
    if (!handover)
        return;
    principal_release(&handover->principal);
    stream_drop(&handover->parts);
    mem_free(MEM_ADAPTER, handover);
}

/* A refused client is told, as far as its version has a word for it, and closed [MQTT-3.1.4-1, 3.2.2-7]. */
static enum handle tell_refused(struct mqtt_conn *c, enum mqtt_reason reason)
{
    LOG_INFO(LOG_MQTT, "connect.refused", F_INT("code", reason), F_TEXT("reason", mqtt_reason_name(reason)));
    if (c->version != MQTT_VERSION_NONE) {
        struct mqtt_encoder e = mqtt_conn_encoder(c);

        ERR_IGNORE(mqtt_connect_encode_connack(&e, false, reason, NULL)); /* the connection closes in any case */
    }
    mqtt_conn_finish(c);
    return HANDLE_DONE;
}

static enum handle refuse(struct mqtt_conn *c, enum mqtt_reason reason)
{
    mqtt_metrics_connect_refused(reason);
    return tell_refused(c, reason);
}

/* Its tenant has used up what it may use: as Hono has it, 0x97, and 0x05 before 5.0. */
static enum handle refuse_for(struct mqtt_conn *c, enum usage_verdict verdict, struct str tenant)
{
    mqtt_metrics_connect_limited(verdict);
    LOG_INFO(LOG_MQTT, "connect.limited", F_STR("tenant", tenant), F_TEXT("limit", usage_verdict_name(verdict)));
    return tell_refused(c, c->version == MQTT_VERSION_5 ? MQTT_REASON_QUOTA_EXCEEDED : MQTT_REASON_NOT_AUTHORIZED);
}

static enum registry_result authenticate(struct mqtt_conn *c, const struct mqtt_connect *connect, struct principal *out,
                                         int64_t *out_expires_at_s)
{
    const struct config_listener *listener = mqtt_conn_listener(c);
    struct registry_login login = {
        .tenant = listener->tenant,
        .is_tenant_fixed = listener->is_tenant_fixed,
        .is_anonymous_allowed = listener->is_anonymous,
        .adapter = CONFIG_ADAPTER_MQTT,
        .has_user_name = connect->has_user_name,
        .has_password = connect->has_password,
        .user_name = connect->user_name,
        .password = connect->password,
        .peer = c->stream.tls ? tls_peer_of(c->stream.tls) : NULL,
        .client_id = connect->client_id,
        .listener = listener->id,
        .peer_fd = c->stream.io.fd,
        .out_expires_at_s = out_expires_at_s,
    };
    enum registry_result result;

    if (connect->has_password && device_token_is_one(connect->password)) {
        login.token = connect->password;
        device_token_names_of_client(connect->client_id, &login.token_tenant, &login.token_auth_id);
    }
    result = mqtt_login_ask(c, &login, out);
    if (c->stream.tls && result != REGISTRY_PENDING)
        tls_peer_forget(c->stream.tls); /* who it is does not change any more */
    return result;
}

/* What the packet asks for that does not depend on who sent it. */
static enum mqtt_reason check(const struct mqtt_conn *c, const struct mqtt_connect *connect)
{
    const struct config_limits *limits = mqtt_limits(c->mw);

    if (connect->client_id.n == 0 && (connect->version == MQTT_VERSION_3_1 || !connect->clean_start) &&
        connect->version != MQTT_VERSION_5)
        return MQTT_REASON_CLIENT_IDENTIFIER_NOT_VALID; /* [MQTT-3.1.3-8 of 3.1.1] */
    if (mqtt_property_has(&connect->properties, MQTT_PROPERTY_AUTHENTICATION_METHOD))
        return MQTT_REASON_BAD_AUTHENTICATION_METHOD; /* none is offered yet (section 4.12) */
    if (connect->has_will && connect->will.topic_levels > limits->topic_levels)
        return MQTT_REASON_TOPIC_NAME_INVALID;
    if (connect->has_will && mqtt_publish_in_is_reserved(connect->will.topic))
        return MQTT_REASON_NOT_AUTHORIZED; /* as a PUBLISH there */
    if (limits->max_connections && atomic_load(&c->mw->adapter->n_connections) > limits->max_connections)
        return MQTT_REASON_SERVER_BUSY;
    return MQTT_REASON_SUCCESS;
}

/* A client identifier that nobody has and whose session is at home here. */
static void assign_client_id(struct mqtt_worker *mw, struct str tenant, char id[ASSIGNED_ID_BYTES + 1])
{
    uint64_t random[2];

    do {
        ASSERT(getrandom(random, sizeof random, 0) == (ssize_t)sizeof random);
        snprintf(id, ASSIGNED_ID_BYTES + 1, "auto-%018llx", (unsigned long long)(random[0] ^ random[1]));
    } while (broker_home(mw->adapter->broker, tenant, (struct str){0}, (struct str){id, ASSIGNED_ID_BYTES}) != mw->worker->id);
}

static void on_handover(struct mail *m)
{
    struct mqtt_handover *handover = CONTAINER_OF(m, struct mqtt_handover, mail);

    mqtt_conn_adopt(handover->to, handover);
}

/* Sends the connection to its home. Takes the principal. */
static enum handle hand_over(struct mqtt_conn *c, unsigned home, struct str unread, struct principal *principal,
                             int64_t expires_at_s)
{
    struct mqtt_handover *handover = mem_alloc_zero(MEM_ADAPTER, sizeof *handover);

    handover->mail.on_mail = on_handover;
    handover->to = &c->mw->adapter->workers[home];
    handover->principal = *principal;
    handover->expires_at_s = expires_at_s;
    handover->listener = c->listener;
    c->state = MQTT_CLOSING;
    wheel_stop(&c->timer);
    if (stream_release(&c->stream, unread, &handover->parts) != E_OK) {
        mqtt_handshake_drop(handover);
        stream_close(&c->stream, E_NOMEM);
        return HANDLE_DONE;
    }
    mqtt_metrics_count(MQTT_COUNT_HANDED_OVER, 1);
    mailbox_post(&handover->to->worker->loop.mailbox, &handover->mail);
    return HANDLE_DONE;
}

static struct message *will_message(const struct mqtt_connect *connect, struct str tenant, struct str client_id)
{
    const struct mqtt_will *will = &connect->will;
    size_t properties_bytes = mqtt_publish_forward_size(&will->properties);
    struct message *m = message_new(tenant, will->topic, will->payload, properties_bytes + client_id.n);

    if (!m)
        return NULL;
    mqtt_publish_forward_write(message_properties(m), &will->properties);
    message_set_client_id(m, properties_bytes, client_id);
    m->qos = will->qos;
    m->retain = will->is_retained;
    m->has_expiry = mqtt_property_has(&will->properties, MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL);
    m->expiry_s = m->has_expiry ? will->properties.message_expiry_interval : 0;
    return m;
}

static uint32_t number(const struct mqtt_properties *props, enum mqtt_property which, uint32_t value, uint32_t otherwise)
{
    return mqtt_property_has(props, which) ? value : otherwise;
}

/* Before 5.0 a session that is not clean lives until a clean one replaces it. */
static uint32_t expiry_of(const struct mqtt_connect *connect)
{
    const struct mqtt_properties *props = &connect->properties;

    if (connect->version != MQTT_VERSION_5)
        return connect->clean_start ? 0 : SESSION_NEVER_EXPIRES;
    return number(props, MQTT_PROPERTY_SESSION_EXPIRY_INTERVAL, props->session_expiry_interval, 0);
}

/* The client's keep-alive time, or ours where the configuration has a lower bound on it [MQTT-3.1.2-21]. */
static uint16_t keep_alive_of(const struct mqtt_conn *c, const struct mqtt_connect *connect)
{
    uint64_t maximum = mqtt_limits(c->mw)->keep_alive_maximum_ms / 1000;

    if (connect->version != MQTT_VERSION_5 || maximum == 0 || (connect->keep_alive && connect->keep_alive <= maximum))
        return connect->keep_alive;
    return (uint16_t)(maximum < UINT16_MAX ? maximum : UINT16_MAX);
}

static bool wants_response_information(const struct mqtt_properties *props)
{
    return number(props, MQTT_PROPERTY_REQUEST_RESPONSE_INFORMATION, props->request_response_information, 0) != 0;
}

/* How many topic aliases we may set: what the client allows, 0 if it says nothing [MQTT-3.1.2-26, 3.1.2-27]. */
static uint16_t aliases_out_of(const struct mqtt_conn *c, const struct mqtt_properties *props)
{
    uint32_t allowed = number(props, MQTT_PROPERTY_TOPIC_ALIAS_MAXIMUM, props->topic_alias_maximum, 0);
    uint64_t ours = mqtt_limits(c->mw)->outgoing_topic_aliases;

    return (uint16_t)(allowed < ours ? allowed : ours);
}

/* Counts the connection for its tenant, if that may have one more; one that it takes over is one less. */
static enum usage_verdict count_in(struct mqtt_conn *c, const struct session_request *request)
{
    bool takes_over = session_is_linked(c->mw->shard, &request->principal, request->client_id);

    return usage_connect(request->principal.tenant, takes_over, (int64_t)loop_wall_ms());
}

/* As session_attach(), for one that was counted. */
static struct session *attach(struct mqtt_conn *c, const struct session_request *request, bool *out_is_present)
{
    struct principal who = principal_copy(&request->principal);
    struct session *ss = session_attach(c->mw->shard, request, &c->link, out_is_present);

    if (!ss)
        usage_disconnect(who.tenant, (int64_t)loop_wall_ms());
    principal_release(&who);
    return ss;
}

/* E_LIMIT: the client takes no packet as large as its CONNACK. */
static err welcome(struct mqtt_conn *c, const struct mqtt_connect *connect, bool is_present, struct str assigned_id)
{
    struct mqtt_encoder encoder = mqtt_conn_encoder(c);
    uint16_t keep_alive = keep_alive_of(c, connect);
    struct str information = mqtt_conn_listener(c)->response_information;
    struct mqtt_properties props = {0};
    err e;

    if (c->topic_alias_maximum)
        mqtt_property_set_number(&props, MQTT_PROPERTY_TOPIC_ALIAS_MAXIMUM, c->topic_alias_maximum);
    mqtt_property_set_number(&props, MQTT_PROPERTY_MAXIMUM_PACKET_SIZE, c->max_packet_bytes);
    mqtt_property_set_number(&props, MQTT_PROPERTY_RECEIVE_MAXIMUM, c->receive_maximum);
    mqtt_property_set_number(&props, MQTT_PROPERTY_SHARED_SUBSCRIPTION_AVAILABLE, 0);
    if (assigned_id.n)
        mqtt_property_set_text(&props, MQTT_PROPERTY_ASSIGNED_CLIENT_IDENTIFIER, assigned_id);
    if (keep_alive != connect->keep_alive)
        mqtt_property_set_number(&props, MQTT_PROPERTY_SERVER_KEEP_ALIVE, keep_alive);
    if (wants_response_information(&connect->properties) && information.n)
        mqtt_property_set_text(&props, MQTT_PROPERTY_RESPONSE_INFORMATION, information); /* section 3.2.2.3.15 */
    e = mqtt_connect_encode_connack(&encoder, is_present, MQTT_REASON_SUCCESS, &props);
    if (e == E_LIMIT)
        return e;
    mqtt_conn_sent(c, e);
    mqtt_conn_start_keep_alive(c, keep_alive);
    mqtt_metrics_count(MQTT_COUNT_CONNECTED, 1);
    return E_OK;
}

/* On the home worker, with everything known. Takes the principal. */
static enum handle open_session(struct mqtt_conn *c, const struct mqtt_connect *connect, struct principal *principal,
                                int64_t expires_at_s)
{
    const struct mqtt_properties *props = &connect->properties;
    char assigned[ASSIGNED_ID_BYTES + 1] = "";
    struct session_request request = {
        .principal = *principal,
        .client_id = connect->client_id,
        .clean_start = connect->clean_start,
        .expiry_s = expiry_of(connect),
        .origin = c->listener,
        .receive_maximum =
            (uint16_t)number(props, MQTT_PROPERTY_RECEIVE_MAXIMUM, props->receive_maximum, RECEIVE_MAXIMUM_DEFAULT),
    };
    enum usage_verdict verdict;
    struct session *ss;
    bool is_present;

    if (connect->client_id.n == 0) {
        assign_client_id(c->mw, principal->tenant->id, assigned);
        request.client_id = str_from(assigned);
    }
    verdict = count_in(c, &request);
    if (verdict != USAGE_ADMITTED) {
        (void)refuse_for(c, verdict, principal->tenant->id);
        principal_release(principal);
        return HANDLE_DONE;
    }
    if (connect->has_will) {
        const struct mqtt_properties *will = &connect->will.properties;

        request.will = will_message(connect, principal->tenant->id, request.client_id);
        request.will_delay_s = number(will, MQTT_PROPERTY_WILL_DELAY_INTERVAL, will->will_delay_interval, 0);
        if (!request.will) {
            usage_disconnect(principal->tenant, (int64_t)loop_wall_ms());
            principal_release(principal);
            return refuse(c, MQTT_REASON_QUOTA_EXCEEDED);
        }
    }
    c->max_packet_size = number(props, MQTT_PROPERTY_MAXIMUM_PACKET_SIZE, props->maximum_packet_size, 0);
    c->has_expiry = request.expiry_s > 0;
    ss = attach(c, &request, &is_present);
    if (!ss)
        return refuse(c, MQTT_REASON_QUOTA_EXCEEDED);
    mqtt_conn_open(c, ss);
    mqtt_expiry_start(c, expires_at_s);
    c->aliases_out_maximum = aliases_out_of(c, props);
    if (welcome(c, connect, is_present, str_from(assigned)) != E_OK) {
        mqtt_conn_close(c, false); /* nothing else may be said to it [MQTT-3.1.2-24] */
        return HANDLE_DONE;
    }
    LOG_DEBUG(LOG_MQTT, "connect.accepted", F_STR("tenant", ss->principal.tenant->id), F_STR("client", session_client_id(ss)),
              F_INT("version", connect->version), F_INT("session_present", is_present));
    mqtt_events_tell_connect(c, connect, is_present);
    if (is_present)
        mqtt_commands_resume(c);
    session_pump(ss);
    return HANDLE_DONE;
}

enum handle mqtt_handle_connect(struct mqtt_conn *c, const struct mqtt_frame *frame, struct str packet_and_rest)
{
    struct mqtt_worker *mw = c->mw;
    struct principal principal = {0};
    int64_t expires_at_s = 0;
    struct mqtt_connect connect;
    enum mqtt_reason reason = mqtt_connect_decode(frame, &connect);
    enum registry_result result;
    unsigned home;

    c->version = (uint8_t)connect.version;
    if (reason == MQTT_REASON_SUCCESS)
        reason = check(c, &connect);
    if (reason != MQTT_REASON_SUCCESS)
        return refuse(c, reason);
    if (c->handover) {
        principal = c->handover->principal;
        c->handover->principal = (struct principal){0};
        expires_at_s = c->handover->expires_at_s;
        if (registry_refresh(mqtt_registry(mw), CONFIG_ADAPTER_MQTT, &principal) != REGISTRY_STANDS) {
            principal_release(&principal); /* there was a reload on its way here */
            return refuse(c, MQTT_REASON_NOT_AUTHORIZED);
        }
        return open_session(c, &connect, &principal, expires_at_s);
    }
    result = authenticate(c, &connect, &principal, &expires_at_s);
    if (result == REGISTRY_PENDING)
        return HANDLE_WAIT;
    reason = reasons[result];
    if (reason != MQTT_REASON_SUCCESS)
        return refuse(c, reason);
    home = mw->worker->id;
    if (principal.device || connect.client_id.n)
        home = broker_home(mw->adapter->broker, principal.tenant->id, principal.device ? principal.device->id : (struct str){0},
                           connect.client_id);
    if (home != mw->worker->id)
        return hand_over(c, home, packet_and_rest, &principal, expires_at_s);
    return open_session(c, &connect, &principal, expires_at_s);
}
