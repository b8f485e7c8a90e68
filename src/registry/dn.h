/* dn: distinguished names as texts (RFC 2253, RFC 4514), in one spelling, so that equal names are equal bytes: types known to RFC 2253 by
 * their short names in capitals, no white space around separators, no escape without need. Also the templates that make an id of one. Pure functions, any thread. */
#pragma once

#include "base/err.h"
#include "base/str.h"

enum { DN_BYTES = 1024 };

/* Writes the one spelling of `text` into `to`. E_INVAL: it is no distinguished name. E_LIMIT: it has no room. */
MUST_USE err dn_canonical(struct str text, char to[DN_BYTES], size_t *out_n);

/* The value of the first attribute of a type ("CN", "OU", "O"), without escapes, into `to`. E_NOTFOUND; E_INVAL and E_LIMIT as above. */
MUST_USE err dn_find(struct str dn, struct str type, char to[DN_BYTES], size_t *out_n);

/* Appends one attribute's `TYPE=value` to a spelling under construction of `n` bytes, with the escapes it needs and `separator` (0: none) before it.
 * E_LIMIT. For who takes names from certificates. */
MUST_USE err dn_append(char to[DN_BYTES], size_t *n, char separator, struct str type, struct str value);

/* Fills a template: {{subject-dn}}, {{subject-cn}}, {{subject-ou}} and {{subject-o}} stand for the name and its attributes. E_INVAL: there is
 * another `{{`; E_NOTFOUND: the name does not have the attribute; E_LIMIT. */
MUST_USE err dn_expand(struct str form, struct str dn, char to[DN_BYTES], size_t *out_n);

/* Whether a template has no other placeholders than those. */
bool dn_is_template(struct str form);
