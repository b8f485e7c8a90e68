#include "registry/secret_hash.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <crypt.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/mem.h"

enum { SALT_BYTES = 16, MAX_DIGEST_BYTES = 64, SETTING_BYTES = 64, MOSQUITTO_SALT_BYTES = 12, MOSQUITTO_LONG_SALT_BYTES = 64 };

static const struct {
    const char *name;
    const EVP_MD *(*digest)(void);
} functions[SECRET_HASH_FUNCTIONS] = {
    [SECRET_HASH_SHA_256] = {"sha-256", EVP_sha256},
    [SECRET_HASH_SHA_512] = {"sha-512", EVP_sha512},
    [SECRET_HASH_BCRYPT] = {"bcrypt", NULL},
    [SECRET_HASH_MOSQUITTO] = {"mosquitto", NULL},
};

enum secret_hash_function secret_hash_find(struct str name)
{
    int i = 0;

    while (i < SECRET_HASH_FUNCTIONS && !str_equal(name, str_from(functions[i].name)))
        i++;
    return (enum secret_hash_function)i;
}

const char *secret_hash_name(enum secret_hash_function function)
{
    return functions[function].name;
}

/* crypt_r() of `password` under `setting`. The scratch space holds what could give the password away, and is wiped. */
static err run_bcrypt(struct str password, const char *setting, char to[SECRET_HASH_BCRYPT_BYTES])
{
    struct crypt_data *data;
    const char *hash;
    char *text;
    err e = E_INVAL;

    if (password.n && memchr(password.p, 0, password.n))
        return E_INVAL;
    data = mem_alloc_zero(MEM_REGISTRY, sizeof *data);
    text = mem_copy_text(MEM_REGISTRY, password.n ? password.p : "", password.n);
    hash = crypt_r(text, setting, data);
    if (hash && strlen(hash) == SECRET_HASH_BCRYPT_BYTES - 1) {
        memcpy(to, hash, SECRET_HASH_BCRYPT_BYTES);
        e = E_OK;
    }
    explicit_bzero(text, password.n);
    explicit_bzero(data, sizeof *data);
    mem_free(MEM_REGISTRY, text);
    mem_free(MEM_REGISTRY, data);
    return e;
}

err secret_hash_bcrypt(struct str password, unsigned cost, char to[SECRET_HASH_BCRYPT_BYTES])
{
    char random[SALT_BYTES], setting[SETTING_BYTES];

    ASSERT(cost >= SECRET_HASH_COST_MIN && cost <= SECRET_HASH_COST_MAX);
    ASSERT(getrandom(random, sizeof random, 0) == (ssize_t)sizeof random);
    ASSERT(crypt_gensalt_rn("$2a$", cost, random, sizeof random, setting, sizeof setting));
    return run_bcrypt(password, setting, to);
}

err secret_hash_bcrypt_cost(struct str hash, unsigned *out_cost)
{
    static const char alphabet[] = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    uint64_t cost;

    if (hash.n != SECRET_HASH_BCRYPT_BYTES - 1 || !str_starts_with(hash, STR("$2a$")) || hash.p[6] != '$' ||
        !str_to_u64((struct str){hash.p + 4, 2}, 31, &cost) || cost < SECRET_HASH_COST_MIN)
        return E_INVAL;
    for (size_t i = 7; i < hash.n; i++)
        if (!memchr(alphabet, hash.p[i], sizeof alphabet - 1))
            return E_INVAL;
    *out_cost = (unsigned)cost;
    return E_OK;
}

/* Whether `hash` is the digest of the one and then the other. */
static bool matches_digest(const EVP_MD *digest, struct str first, struct str second, struct str hash)
{
    unsigned char computed[MAX_DIGEST_BYTES];
    unsigned n = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool is_done = context && EVP_DigestInit_ex(context, digest, NULL) && EVP_DigestUpdate(context, first.p, first.n) &&
                   EVP_DigestUpdate(context, second.p, second.n) && EVP_DigestFinal_ex(context, computed, &n);

    EVP_MD_CTX_free(context);
    return is_done && str_equal_secret((struct str){(const char *)computed, n}, hash);
}

/* An entry of a password file of Mosquitto, decoded. */
struct mosquitto_hash {
    unsigned iterations; /* of PBKDF2; 0: SHA-512 */
    struct str salt, hash;
    char bytes[BASE64_DECODED_BYTES(SECRET_HASH_TEXT_BYTES)];
};

static bool take_base64(struct str text, char **at, struct str *out)
{
    size_t n;

    if (!base64_decode(text, *at, &n))
        return false;
    *out = (struct str){*at, n};
    *at += n;
    return true;
}

static err read_mosquitto(struct str text, struct mosquitto_hash *out)
{
    bool is_pbkdf2 = str_starts_with(text, STR("$7$")), found = true;
    struct str rest = str_from_offset(text, 3), salt;
    char *at = out->bytes;
    uint64_t iterations = 0;

    if ((!is_pbkdf2 && !str_starts_with(text, STR("$6$"))) || text.n >= SECRET_HASH_TEXT_BYTES)
        return E_INVAL;
    if (is_pbkdf2 && (!str_to_u64(str_take(&rest, '$', &found), UINT32_MAX, &iterations) || iterations == 0 || !found))
        return E_INVAL;
    if (iterations > SECRET_HASH_ITERATIONS_MAX)
        return E_LIMIT;
    salt = str_take(&rest, '$', &found);
    if (!found || !take_base64(salt, &at, &out->salt) || !take_base64(rest, &at, &out->hash) ||
        (out->salt.n != MOSQUITTO_SALT_BYTES && out->salt.n != MOSQUITTO_LONG_SALT_BYTES) || out->hash.n != MAX_DIGEST_BYTES)
        return E_INVAL;
    out->iterations = (unsigned)iterations;
    return E_OK;
}

err secret_hash_check_mosquitto(struct str text)
{
    struct mosquitto_hash entry;

    return read_mosquitto(text, &entry);
}

static bool matches_mosquitto(struct str text, struct str password)
{
    unsigned char computed[MAX_DIGEST_BYTES];
    struct mosquitto_hash entry;

    if (password.n > INT_MAX || (password.n && memchr(password.p, 0, password.n))) /* HMAC fills short keys up with NULs */
        return false;
    if (read_mosquitto(text, &entry) != E_OK)
        return false;
    if (entry.iterations == 0)
        return matches_digest(EVP_sha512(), password, entry.salt, entry.hash);
    return PKCS5_PBKDF2_HMAC(password.p ? password.p : "", (int)password.n, (const unsigned char *)entry.salt.p,
                             (int)entry.salt.n, (int)entry.iterations, EVP_sha512(), sizeof computed, computed) &&
           str_equal_secret((struct str){(const char *)computed, sizeof computed}, entry.hash);
}

bool secret_hash_matches(enum secret_hash_function function, struct str salt, struct str hash, struct str password)
{
    char computed[SECRET_HASH_BCRYPT_BYTES];
    bool is_equal;

    if (function < SECRET_HASH_BCRYPT)
        return matches_digest(functions[function].digest(), salt, password, hash);
    if (function == SECRET_HASH_MOSQUITTO)
        return matches_mosquitto(hash, password);
    if (run_bcrypt(password, hash.p, computed) != E_OK)
        return false;
    is_equal = str_equal_secret(str_from(computed), hash);
    explicit_bzero(computed, sizeof computed);
    return is_equal;
}

err secret_hash_scram(struct str password, struct str salt, unsigned iterations,
                      unsigned char stored_key[SECRET_HASH_SCRAM_BYTES], unsigned char server_key[SECRET_HASH_SCRAM_BYTES])
{
    unsigned char salted[SECRET_HASH_SCRAM_BYTES], client_key[SECRET_HASH_SCRAM_BYTES];
    unsigned n;
    bool is_done = PKCS5_PBKDF2_HMAC(password.p, (int)password.n, (const unsigned char *)salt.p, (int)salt.n, (int)iterations,
                                     EVP_sha256(), sizeof salted, salted) &&
                   HMAC(EVP_sha256(), salted, sizeof salted, (const unsigned char *)"Client Key", 10, client_key, &n) &&
                   HMAC(EVP_sha256(), salted, sizeof salted, (const unsigned char *)"Server Key", 10, server_key, &n) &&
                   EVP_Digest(client_key, sizeof client_key, stored_key, &n, EVP_sha256(), NULL);

    explicit_bzero(salted, sizeof salted);
    explicit_bzero(client_key, sizeof client_key);
    return is_done ? E_OK : E_IO;
}
