/* registry_view: what the registry's table says, for the questions that adapters ask. What is managed goes before what the configuration says of the
 * same tenant or device; states whose source is the configuration say nothing, since the configuration does.
 *
 * Each thread that asks has a cache of its own, with decoded entries that are checked against the table when it has changed: no lock, and no
 * disk when the pages are warm. A password whose hash takes its time is checked by the pool: once for all who bring the same at the same time,
 * and what was found is remembered for a while. Every refusal takes as long. */
#pragma once

#include <stdbool.h>

#include "base/mail.h"
#include "registry/registry.h"
#include "table/table.h"

struct hash_pool;
struct provision;
struct registry_view;
struct trust_cache;

/* `changed` is posted to `home` when something was changed or removed that somebody who is connected may depend on; not again before
 * registry_view_accept_changes(). All are borrowed. Main thread. */
struct registry_view *registry_view_new(struct hash_pool *pool, struct mail *changed, struct mailbox *home);

/* Who makes devices (provision.h): `take` is called on any thread and must not block; it owns the provision. Without it none are made. Before
 * anybody asks. */
void registry_view_use_provisioner(struct registry_view *view, void (*take)(void *context, struct provision *p), void *context);

/* Once, before anybody asks. */
void registry_view_use_table(struct registry_view *view, struct table *table);

/* Of table_ops, with the view as context. */
void registry_view_on_applied(void *context, const struct table_change *change);
void registry_view_on_rebuild(void *context, unsigned partition);

/* The mail has come. Main thread. */
void registry_view_accept_changes(struct registry_view *view);

/* Lets go of the table: threads that have asked must have ended. */
void registry_view_close(struct registry_view *view);

/* After registry_view_close(), the table and the pool. NULL is a no-op. */
void registry_view_free(struct registry_view *view);

/* Walks the managed tenants that are enabled: `after` is the key of the one before, empty to begin. False at the end. */
bool registry_view_next_tenant(struct table_reader *reader, struct str after, struct table_item *out_item);

/* --- for registry.c --- */

/* What there is of a tenant (device empty) or of a device. NULL and `*out_is_absent`: there is none; NULL: what the configuration says. Else an
 * entry whose only tenant, and only device if one was asked for, are that. Borrowed until the turn ends. */
struct registry *registry_view_find(struct registry_view *view, struct registry *configured, struct str tenant,
                                    struct str device, bool *out_is_absent);

/* Who has these credentials, of a type as in JSON? The device's id, borrowed until the thread asks for the next. */
bool registry_view_find_account(struct registry_view *view, struct str tenant, struct str type, struct str auth_id,
                                struct str *out_device);

/* Has a device made; takes `p`. True: the mail of `wait` comes, then ask again. False: nothing is made, or that was tried; `p` is gone. */
bool registry_view_provision(struct registry_view *view, struct registry_wait *wait, struct provision *p);

/* The thread's reader, of the present until the next call of anything here. NULL: the table cannot be read. */
struct table_reader *registry_view_reader(struct registry_view *view);

/* What was found about certificates. */
struct trust_cache *registry_view_trust(struct registry_view *view);

/* The thread has no more questions for now. Whoever has asked for the reader ends with it: one that is kept open keeps the database from using its
 * space again. */
void registry_view_rest(struct registry_view *view);

/* Another instance may have just told somebody that this log-in exists: before it is refused, this one has to know what that one knew. True: the
 * mail of `wait` comes, then ask again. False: it knows, or `wait` is NULL. */
bool registry_view_catch_up(struct registry_view *view, struct registry_wait *wait);

/* The key of these credentials that is valid now (the first one, if several are) into `to`. 0: there is none, or it is longer than `room`. */
size_t registry_view_read_psk(struct registry_view *view, struct str tenant, struct str auth_id, unsigned char *to,
                              size_t room);

enum registry_view_check { REGISTRY_VIEW_RIGHT, REGISTRY_VIEW_WRONG, REGISTRY_VIEW_PENDING, REGISTRY_VIEW_BUSY };

/* Checks a password against what the device has; `device` empty: against nobody's, which takes as long. */
enum registry_view_check registry_view_check(struct registry_view *view, const struct registry_login *login, struct str tenant,
                                             struct str auth_id, struct str device);
