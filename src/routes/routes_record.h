/* routes_record: the bytes of what is in the table `routes`, and of the requests to its owner (docs/wire/routes.md). A record has a
 * version, a kind and the fields of that kind; a key has a kind and fields; an item, of which requests have lists, has fields alone.
 * Numbers are of eight bytes, the most significant first; texts have their length before them, in two bytes, but for the last field
 * of a key or record that is marked as the rest. Pure functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "table/table.h"

enum {
    ROUTES_RECORD_VERSION = 1,
    ROUTES_TEXT_MAX = 460,          /* bytes of a name of a tenant, device, gateway, instance, topic */
    ROUTES_WAITING_NAMES_MAX = 400, /* of tenant and device together, so that a table sorts their numbers */
};

enum routes_kind {
    /* States; their keys are of the same kind. */
    ROUTES_INSTANCE = 'i',
    ROUTES_ROUTE = 'r',
    ROUTES_GATEWAY = 'g',
    ROUTES_DONE = 'd',
    ROUTES_WAITING = 'w',
    ROUTES_WAITING_ID = 'k',   /* which waiting command has an id */
    ROUTES_DEVICE_COUNT = 'n', /* of waiting commands */
    ROUTES_TENANT_COUNT = 't', /* and the last number given to one; stays for ever */
    ROUTES_REPORT = 'u',
    /* Requests. */
    ROUTES_LEASE = 'L',
    ROUTES_PUBLISH = 'P',
    ROUTES_FENCE = 'F',
    ROUTES_LEAVE = 'E',
    ROUTES_REGISTER = 'R',
    ROUTES_REMOVE = 'X',
    ROUTES_NOTE = 'N',
    ROUTES_CLEAN = 'C',
    ROUTES_KEEP = 'K',
    ROUTES_FORGET = 'G',
    ROUTES_BEGIN = 'B',
    ROUTES_TELL = 'U',
    /* What the owner answers. */
    ROUTES_ANSWER = 'A',
};

/* Flags of a route, and of requests. */
enum {
    ROUTES_IS_FOR_ALL = 1,
    ROUTES_HAS_EVENTS = 2,
    ROUTES_IS_OWN = 1, /* ROUTES_REMOVE: by whom they belong to */
};

/* Why a request was refused; of ROUTES_ANSWER, in `number`. */
enum routes_reason {
    ROUTES_FINE,
    ROUTES_NOT_UNDERSTOOD, /* not a request, or of a later version */
    ROUTES_NOT_LEASED,     /* the incarnation has no lease */
    ROUTES_OUTDATED,       /* what it is about is not there any more, or another */
    ROUTES_TOO_MANY,
    ROUTES_FAILED, /* a key or value that the table does not take */
};

/* All the fields that there are; each kind has its own. Texts are views of what was read. */
struct routes_record {
    enum routes_kind kind;
    struct str instance;
    uint64_t incarnation;
    uint64_t number, seen, lease_ms, roles, epoch, flags, at_ms;
    uint64_t max_of_device, max_of_tenant, count;
    uint64_t partition, from, to;
    struct str address, tenant, device, gateway, id, topic;
    struct str rest;
};

/* Appends a record. */
void routes_record_write(struct buf *out, const struct routes_record *record);

/* E_INVAL: these are not the bytes of a record; E_AGAIN: of a later version, or of a kind that only those know. */
MUST_USE err routes_record_read(struct str bytes, struct routes_record *out);

struct routes_key {
    size_t n;
    char p[TABLE_KEY_MAX];
};

/* The key of a kind. False: too long. */
MUST_USE bool routes_record_write_key(struct routes_key *out, enum routes_kind kind, const struct routes_record *record);

/* The first `n_fields` fields of it, to walk all that begin so. */
MUST_USE bool routes_record_write_prefix(struct routes_key *out, enum routes_kind kind, unsigned n_fields,
                                         const struct routes_record *record);

/* False: not a key of ours. */
MUST_USE bool routes_record_read_key(struct str key, struct routes_record *out);

static inline struct str routes_key_str(const struct routes_key *key)
{
    return (struct str){key->p, key->n};
}

/* The items of a request of this kind: appends one, or takes the first. False: there is none, or `*has_failed`. */
void routes_record_add_item(struct buf *items, enum routes_kind kind, const struct routes_record *record);
MUST_USE bool routes_record_take_item(struct str *items, enum routes_kind kind, struct routes_record *out, bool *has_failed);

/* A later incarnation in place of that in a request's bytes. */
void routes_record_set_incarnation(struct buf *request, uint64_t incarnation);

/* --- single fields --- */

struct routes_in {
    struct str rest;
    bool has_failed; /* from the first that is not there */
};

void routes_record_put_number(struct buf *out, uint64_t value, unsigned n_bytes);
uint64_t routes_record_take_number(struct routes_in *in, unsigned n_bytes);
