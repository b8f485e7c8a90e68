/* import_list: what `millrace import` has read from the files of another broker or registry and is going to bring into this one: tenants, and
 * devices with their credentials, put together from whichever files they stand in. What cannot be carried over is told at once, with
 * its place. Main thread; memory grows with the files, which the person at the keyboard chose. */
#pragma once

#include "base/map.h"
#include "registry/document.h"

/* A place in a file, for messages; line 0: the file as a whole. */
struct import_place {
    const char *file;
    unsigned line;
};

struct import_device {
    struct import_device *next; /* of the same tenant */
    struct import_tenant *tenant;
    struct import_place place;
    bool is_orphan; /* it is not to be brought in */
    char *id;
    char *device;      /* a JSON object; NULL: nothing was said of it */
    char *credentials; /* JSON objects with commas between; NULL: nothing was said of them */
};

struct import_tenant {
    struct import_tenant *next;
    struct import_place place;
    char *id;
    json_t *document; /* NULL: the files have only its devices */
    struct import_device *first, *last;
};

enum import_kind {
    IMPORT_LOST,  /* it cannot be carried over */
    IMPORT_MOVED, /* it stands in another place now */
};

struct import_list {
    struct import_tenant *tenants, *last;
    struct import_tenant *recent; /* what was asked for last, as the next will be */
    struct map devices;
    /* Entries that were read: those that are in the list, those of other tenants, those that are no good. */
    size_t n_tenants, n_devices, n_skipped_tenants, n_skipped_devices, n_failed_tenants, n_failed_devices;
    size_t n_lost;           /* what was told as IMPORT_LOST */
    const char *only_tenant; /* NULL: all */
    void (*tell)(void *context, enum import_kind kind, struct import_place place, const char *text); /* NULL: nobody listens */
    void *context;
};

/* Tells something of a place. */
void import_list_tell(struct import_list *l, enum import_kind kind, struct import_place place, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* The tenant of this name, made if it is not there. */
struct import_tenant *import_list_tenant(struct import_list *l, struct str id);

/* Whether a tenant's things are wanted. */
bool import_list_wants(const struct import_list *l, struct str tenant);

/* The device of this name; NULL: there is none. */
struct import_device *import_list_find(const struct import_list *l, struct str tenant, struct str id);

/* Adds a device, which is not there yet. */
struct import_device *import_list_add(struct import_list *l, struct str tenant, struct str id, struct import_place place);

/* Sets what a device is (borrows the value), and adds to what it logs in with. */
void import_list_set_device(struct import_device *d, const json_t *device);
void import_list_add_credentials(struct import_device *d, const json_t *entry);

/* That it has credentials, if only none. */
void import_list_set_credentials(struct import_device *d);

/* Adds a gateway to `via`, if it is not there. */
void import_list_add_gateway(struct import_device *d, struct str gateway);

/* Frees what it has. */
void import_list_fini(struct import_list *l);
