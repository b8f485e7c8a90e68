/* registry: which tenants, devices, gateways and credentials exist, and who may do what.
 *
 * Backed by the snapshot of the configuration, and by the registry's table, which goes before it (registry_view.h). Every look-up is
 * O(1) by a keyed hash map, takes no lock and blocks on nothing, so workers call it directly. Never logs.
 *
 * Lifetimes. Entries (struct registry_tenant, struct registry_device) are immutable. Those in a principal live until
 * principal_release(); those in a registration until the caller's loop turn ends, or as long as a principal of the same
 * tenant is held, whichever is longer.
 *
 * What cannot be answered at once (a slow password hash, a view that must first catch up) is REGISTRY_PENDING: the login carries a node
 * that the caller owns (registry_wait.h), whose mail tells when to ask again with the same login and node; the connection reads
 * nothing more until then. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mail.h"
#include "base/str.h"
#include "config/config.h"
#include "registry/principal.h"

struct authority;
struct registry;
struct registry_view;
struct registry_wait;
struct revocation_lists;
struct tls_peer;

/* What an authentication comes to. The adapter maps it to its protocol by one table (docs/DEVICES.md). */
enum registry_result {
    REGISTRY_OK,
    REGISTRY_BAD_CREDENTIALS,  /* or no such user, no or a disabled tenant, none given. MQTT 3.1.1 0x04, 5.0 0x86 */
    REGISTRY_ADAPTER_DISABLED, /* the tenant does not use this adapter. 0x05, 0x87 */
    REGISTRY_DEVICE_DISABLED,  /* right credentials of a disabled device. 0x05, 0x87 */
    REGISTRY_TENANT_REFUSED,   /* the listener serves another tenant. 0x05, 0x87 */
    REGISTRY_UNAVAILABLE,      /* the registry cannot tell now. 0x03, 0x88 */
    REGISTRY_PENDING,          /* ask again when the mail of the login's node comes */
    REGISTRY_RESULTS,
};

/* What an assertion of registration comes to, with Hono's status (docs/DEVICES.md). */
enum registry_assertion {
    REGISTRY_ASSERTED,
    REGISTRY_NO_TENANT,          /* 404: unknown or disabled */
    REGISTRY_NO_DEVICE,          /* 404: unknown or disabled */
    REGISTRY_NO_GATEWAY,         /* 403: unknown or disabled */
    REGISTRY_NOT_AUTHORISED,     /* 403: the gateway may not act for the device */
    REGISTRY_ASSERT_UNAVAILABLE, /* 503: reserved */
    REGISTRY_ASSERTIONS,
};

struct registry_login {
    struct str tenant;                /* the listener's, empty when it has none */
    bool is_tenant_fixed;             /* the listener refuses names of other tenants */
    bool is_anonymous_allowed;        /* the listener lets clients in without a user name */
    enum config_adapter_type adapter; /* which adapter asks */
    bool has_user_name;
    bool has_password;
    struct str user_name; /* `auth-id@tenant`, or an auth id of the listener's tenant; borrowed for the call */
    struct str password;  /* borrowed for the call */
    /* Of a TLS connection: the client's certificate, the server's name that it asked for, the identity whose key it has shown to have
     * (loop/tls_peer.h); NULL: plain. Borrowed for the call. An identity goes before everything else, then a certificate, then a token, then a user name. */
    const struct tls_peer *peer;
    /* A JSON Web Token, or what may be one, and the device that the address names if the token does not (device_token.h); empty: none. It goes
     * before a user name, and counts for nothing when it is a password after all and there is one. Borrowed for the call. */
    struct str token, token_tenant, token_auth_id;
    /* For whoever is asked outside (authority.h): the MQTT client id, the listener, the descriptor of the connection. Empty, 0: there is none. */
    struct str client_id, listener;
    int peer_fd;
    int64_t *
        out_expires_at_s; /* with REGISTRY_OK: when that ends by which somebody was let in, since 1970; 0: it does not. NULL: nobody asks */
    struct registry_wait *wait; /* for an answer that takes its time; NULL: then it is REGISTRY_UNAVAILABLE */
};

struct registration {
    const struct registry_tenant *tenant;
    const struct registry_device *device;
    const struct registry_device *gateway; /* NULL: the device spoke itself */
};

/* Builds a registry from a configuration and takes a reference to it. Never fails: config_load() has checked everything.
 * The caller owns one reference. Any thread. */
struct registry *registry_new(struct config *config);

/* What is managed, too, is looked at from now on. Before the registry is shared; `view` lives longer than whoever asks. NULL: nothing is. */
void registry_use_view(struct registry *registry, struct registry_view *view);

/* Who else is asked who somebody is, as the configuration has it. As above. */
void registry_use_authority(struct registry *registry, struct authority *authority);

/* What CAs of tenants have revoked; NULL: nothing is known. Takes the caller's reference. As above. */
void registry_use_revocation_lists(struct registry *registry, struct revocation_lists *lists);

/* Those; NULL: there are none. Borrowed. */
const struct revocation_lists *registry_revocation_lists(const struct registry *registry);

/* Any thread. The last registry_unref() frees; NULL is a no-op. */
struct registry *registry_ref(struct registry *registry);
void registry_unref(struct registry *registry);

/* Who is this? Credentials are `auth-id@tenant`, split at the first `@` (docs/DEVICES.md), checked in the order tenant,
 * adapter, credentials, device. Unknown tenant, unknown auth id and wrong password give one result after the same work. A
 * client without user name is anonymous if the listener allows it, in the listener's tenant. On REGISTRY_OK the caller
 * owns `*out_principal` and releases it; else it is not written. Any thread, does not block. */
MUST_USE enum registry_result registry_authenticate(struct registry *registry, const struct registry_login *login,
                                                    struct principal *out_principal);

/* The pre-shared key of `auth-id@tenant`, or of an auth id of the listener's tenant, into `to`. 0: there is none, or it is longer than
 * `room`. Only managed devices have any. Any thread, does not block. */
size_t registry_find_psk(struct registry *registry, struct str listener_tenant, struct str identity, unsigned char *to,
                         size_t room);

/* Whether `device` of `tenant` exists and may be spoken for by `gateway`; an empty gateway means the device itself. A gateway
 * with the id of the device is the device itself. `*out_registration` is borrowed, see above; written only when the result is
 * REGISTRY_ASSERTED. Any thread, does not block. docs/DEVICES.md. */
MUST_USE enum registry_assertion registry_assert(struct registry *registry, struct str tenant, struct str device,
                                                 struct str gateway, struct registration *out_registration);

/* The gateways that may act for a device: those it names, and the members of the groups it names, each once and in an order that stays; of the
 * members no more than REGISTRY_MEMBERS_MAX. Views of `device` and of `arena` (MEM_REGISTRY). Any thread, does not block but for the disk. */
enum { REGISTRY_MEMBERS_MAX = 1000 };
struct arena;
struct config_strings registry_find_gateways(struct registry *registry, const struct registry_device *device,
                                             struct arena *arena);

/* Has `device` made if it is not there and `gateway` may have devices made, with the gateway in `via` and its groups in `viaGroups`. True: the mail of
 * `wait`, which is the same for all questions about one device, comes; then ask again. False: it is there, or it will not be. Any thread, does not
 * block. */
bool registry_provision(struct registry *registry, struct str tenant, struct str device, struct str gateway,
                        struct registry_wait *wait);

/* What has become of a principal in a newer registry. */
enum registry_standing {
    REGISTRY_STANDS,
    REGISTRY_BARRED, /* the tenant or the device is disabled, the tenant does not use the adapter any more, or a managed device has no
                      * credentials left */
    REGISTRY_GONE, /* there is no such tenant or device any more */
};

/* Moves a principal of an older registry to the entries of this one, whatever it is worth there, so that the old one can die;
 * one that is gone keeps what it has. A changed password or auth id is no matter: whoever has entered is in. A principal of
 * this registry or a newer one stands. Any thread, does not block. */
MUST_USE enum registry_standing registry_refresh(struct registry *registry, enum config_adapter_type adapter,
                                                 struct principal *principal);

/* The status that Hono reports for an assertion: 200, 403, 404 or 503. */
int registry_assertion_status(enum registry_assertion assertion);

/* The words for logs and metrics, as in "bad_credentials" and "no_device". Never NULL. */
const char *registry_result_name(enum registry_result result);
const char *registry_assertion_name(enum registry_assertion assertion);

/* A tenant by id, enabled or not; NULL when there is none. Borrowed as a registration is. */
const struct registry_tenant *registry_find_tenant(struct registry *registry, struct str id);

/* The tenants, in the order of the configuration, for the creation of topics. Index from 0. Borrowed as a registration is. */
size_t registry_tenant_count(const struct registry *registry);
const struct registry_tenant *registry_tenant_at(const struct registry *registry, size_t index);
