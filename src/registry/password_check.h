/* password_check: compares passwords with what is stored of them. Fast hashes are computed at once; the others by the pool, one run for all who bring
 * the same password for the same account at the same time, and the result is remembered for a while. What is wrong takes as long as what is
 * right, and as somebody who does not exist. Any thread; the lock is held for a look into a table, and only where a hash takes its time. */
#pragma once

#include "registry/document.h"

struct hash_pool;
struct password_check;
struct registry_wait;

struct password_check *password_check_new(struct hash_pool *pool);

/* After the pool was stopped. NULL is a no-op. */
void password_check_free(struct password_check *checks);

enum password_check_result { PASSWORD_CHECK_RIGHT, PASSWORD_CHECK_WRONG, PASSWORD_CHECK_PENDING, PASSWORD_CHECK_BUSY };

/* Whether a password is one of `credentials` (an element of type hashed-password; NULL: of nobody), of which `version` is known. PENDING: the mail of `wait`
 * comes, then ask again. BUSY: `wait` is NULL, or too many wait. */
enum password_check_result password_check_ask(struct password_check *checks, const json_t *credentials, struct str version,
                                              struct str auth_id, struct str password, struct registry_wait *wait);
