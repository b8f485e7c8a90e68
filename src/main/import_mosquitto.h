/* import_mosquitto: password and ACL files of Mosquitto (mosquitto.conf(5), mosquitto_passwd(1)) become devices. Pure functions but for what they tell of
 * the list; main thread. */
#pragma once

#include "main/import_list.h"

/* Lines of an ACL file that say something, and what became of them. */
struct import_acl_counts {
    size_t n_lines;
    size_t n_held;    /* what they allow, every device may do */
    size_t n_gateway; /* they became a device's `via` */
};

/* Adds the users of a password file as devices of the tenant that log in with the same name and password. */
void import_mosquitto_read_passwords(struct import_list *l, struct str tenant, const char *file, struct str text);

/* Reads an ACL file, after the passwords. What it says and cannot be expressed is told line by line: clients of a tenant may publish and subscribe to
 * all of its topics, but for those of devices (docs/DEVICES.md). */
void import_mosquitto_read_acl(struct import_list *l, struct str tenant, const char *file, struct str text,
                               struct import_acl_counts *out);
