#include "registry/registry_key.h"

#include <openssl/sha.h>

#include "base/check.h"

enum { LONG_PART_BYTES = 200 };

static void put(struct registry_key *key, struct str text)
{
    ASSERT(text.n <= sizeof key->text - key->n);
    if (text.n)
        memcpy(key->text + key->n, text.p, text.n);
    key->n += text.n;
}

static void put_hash(struct registry_key *key, struct str text)
{
    unsigned char hash[SHA256_DIGEST_LENGTH];

    SHA256((const unsigned char *)text.p, text.n, hash);
    for (size_t i = 0; i < sizeof hash; i++)
        put(key, (struct str){(char[]){"0123456789abcdef"[hash[i] >> 4], "0123456789abcdef"[hash[i] & 15]}, 2});
}

/* A part as it is, or what stands for one that is longer than an id: nothing bounds what a request brings. */
static void put_part(struct registry_key *key, struct str part)
{
    if (part.n <= LONG_PART_BYTES) {
        put(key, part);
        return;
    }
    put(key, STR("#"));
    put_hash(key, part);
}

/* `kind` and the parts with `/` between them. */
static struct registry_key make(const char *kind, const struct str *parts, size_t n_parts)
{
    struct registry_key key = {0};

    put(&key, str_from(kind));
    for (size_t i = 0; i < n_parts; i++) {
        put(&key, STR("/"));
        put_part(&key, parts[i]);
    }
    return key;
}

#define MAKE(kind, ...) make(kind, (const struct str[]){__VA_ARGS__}, ARRAY_LEN(((const struct str[]){__VA_ARGS__})))

struct registry_key registry_key_tenant(struct str tenant)
{
    return MAKE("t", tenant);
}

struct registry_key registry_key_alias(struct str alias)
{
    return MAKE("a", alias);
}

struct registry_key registry_key_subject(struct str subject_dn, struct str tenant)
{
    struct registry_key key = {0};

    put(&key, STR("s/"));
    put_hash(&key, subject_dn);
    put(&key, STR("/"));
    put_part(&key, tenant);
    return key;
}

struct registry_key registry_key_count(struct str tenant)
{
    return MAKE("n", tenant);
}

struct registry_key registry_key_device(struct str tenant, struct str device)
{
    return MAKE("d", tenant, device);
}

struct registry_key registry_key_credentials(struct str tenant, struct str device)
{
    return MAKE("c", tenant, device);
}

struct registry_key registry_key_login(struct str tenant, struct str type, struct str auth_id)
{
    return MAKE("l", tenant, type, auth_id);
}

/* By the hash of the first two, so that the key stays short enough to be walked. */
static struct registry_key make_relation(const char *kind, struct str tenant, struct str other, struct str device)
{
    struct registry_key key = MAKE(kind, tenant, other), relation = {0};

    put(&relation, str_from(kind));
    put(&relation, STR("/"));
    put_hash(&relation, registry_key_str(&key));
    put(&relation, STR("/"));
    put_part(&relation, device);
    return relation;
}

struct registry_key registry_key_via(struct str tenant, struct str gateway, struct str device)
{
    return make_relation("v", tenant, gateway, device);
}

struct registry_key registry_key_member(struct str tenant, struct str group, struct str device)
{
    return make_relation("m", tenant, group, device);
}
