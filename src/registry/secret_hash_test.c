#include "registry/secret_hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base64.h"
#include "base/check.h"

/* Test vector of the Openwall collection. */
static const char known[] = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";

static void bcrypt_hashes_are_checked(void **state)
{
    char hash[SECRET_HASH_BCRYPT_BYTES];
    unsigned cost;

    (void)state;
    assert_true(secret_hash_matches(SECRET_HASH_BCRYPT, STR(""), str_from(known), STR("U*U")));
    assert_false(secret_hash_matches(SECRET_HASH_BCRYPT, STR(""), str_from(known), STR("U*V")));
    assert_false(secret_hash_matches(SECRET_HASH_BCRYPT, STR(""), str_from(known), STR("U*U\0x")));
    assert_int_equal(secret_hash_bcrypt(STR("geheim"), 4, hash), E_OK);
    assert_true(str_starts_with(str_from(hash), STR("$2a$04$")));
    assert_true(secret_hash_matches(SECRET_HASH_BCRYPT, STR(""), str_from(hash), STR("geheim")));
    assert_int_equal(secret_hash_bcrypt_cost(str_from(hash), &cost), E_OK);
    assert_int_equal(cost, 4);
    assert_int_equal(secret_hash_bcrypt(STR("a\0b"), 4, hash), E_INVAL);
}

static void other_variants_of_bcrypt_are_refused(void **state)
{
    static const char *const rows[] = {
        "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
        "$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
        "$2a$03$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
        "$2a$5$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeWx",
        "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOe",
        "$2a$05$CCCCCCCCCCCCCCCCCCCC!.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
        "",
    };
    unsigned cost;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(secret_hash_bcrypt_cost(str_from(rows[i]), &cost), E_INVAL);
}

/* Hashes of "saltpassword". */
static void digests_are_of_salt_and_password(void **state)
{
    static const struct {
        const char *name, *hash;
    } rows[] = {
        {"sha-256", "E2Ab2k6njlWge5iGbSvmvgdE44ZvE8AMgRyrYIoo8yI="},
        {"sha-512", "KQjSwo38BHdB/FkKAm/63iN6srp+EmbwEP5JveVItZh6U0qGZVoNF/M2WI5UDNZvZyNLFSu7ZFtLuFdYoTJdZA=="},
    };
    char hash[BASE64_DECODED_BYTES(88)];
    size_t n;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum secret_hash_function function = secret_hash_find(str_from(rows[i].name));

        assert_true(base64_decode(str_from(rows[i].hash), hash, &n));
        assert_true(secret_hash_matches(function, STR("salt"), (struct str){hash, n}, STR("password")));
        assert_true(secret_hash_matches(function, STR(""), (struct str){hash, n}, STR("saltpassword")));
        assert_false(secret_hash_matches(function, STR("salt"), (struct str){hash, n}, STR("Password")));
        assert_false(secret_hash_matches(function, STR("salt"), (struct str){hash, n - 1}, STR("password")));
        assert_string_equal(secret_hash_name(function), rows[i].name);
    }
    assert_int_equal(secret_hash_find(STR("md5")), SECRET_HASH_FUNCTIONS);
}

/* Made by mosquitto_passwd of versions 1.6 ($6$), 2.0 and, with a longer salt, by its rules for 2.1. */
static void entries_of_mosquittos_password_files_are_checked(void **state)
{
    static const char *const rows[] = {
        "$6$JWw/rDbOeNNDKPTS$MF4SXPTu7OOOzsKdXCPWkvUfzFkOkYImLuOWqGhRPI9xUh6LP51GrVP5FWNCYrx/+7C9ROYaR+Ixfh1PcsRuwg==",
        "$7$101$nHVjZWwZFTVxC3oL$EKl5KNx5Ta+VpQL0oVdUinhwQJm62zwE9mXmc/h3mYY0mitE2xoKdiVMHc8FsC5co5bEcyvG8Q7xEJ6qTfod+g==",
        ("$7$1000$AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw=="
         "$JMiws1q/Oa85vX4q+2J+98BuLpYDXuJYu+66Ti2naABVskdh7ZLwv4+7hmo17Fne8dsEoulCr5zPeNAe45PAJQ=="),
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(secret_hash_check_mosquitto(str_from(rows[i])), E_OK);
        assert_true(secret_hash_matches(SECRET_HASH_MOSQUITTO, STR(""), str_from(rows[i]), STR("geheim")));
        assert_false(secret_hash_matches(SECRET_HASH_MOSQUITTO, STR(""), str_from(rows[i]), STR("geheiM")));
        assert_false(secret_hash_matches(SECRET_HASH_MOSQUITTO, STR(""), str_from(rows[i]), STR("geheim\0")));
        assert_false(secret_hash_matches(SECRET_HASH_MOSQUITTO, STR(""), str_from(rows[i]), (struct str){0}));
    }
    assert_int_equal(secret_hash_find(STR("mosquitto")), SECRET_HASH_MOSQUITTO);
}

#define SALT "nHVjZWwZFTVxC3oL"
#define HASH "EKl5KNx5Ta+VpQL0oVdUinhwQJm62zwE9mXmc/h3mYY0mitE2xoKdiVMHc8FsC5co5bEcyvG8Q7xEJ6qTfod+g=="

static void other_entries_of_password_files_are_refused(void **state)
{
    static const struct {
        const char *text;
        err e;
    } rows[] = {
        {"", E_INVAL},
        {"geheim", E_INVAL},
        {"$7$", E_INVAL},
        {"$6$" SALT, E_INVAL},
        {"$6$" SALT "$", E_INVAL},
        {"$7$" SALT "$" HASH, E_INVAL},
        {"$7$0$" SALT "$" HASH, E_INVAL},
        {"$7$-1$" SALT "$" HASH, E_INVAL},
        {"$7$1$" SALT "$" HASH "$", E_INVAL},
        {"$7$1$bm8=$" HASH, E_INVAL},
        {"$7$1$" SALT "$bm8=", E_INVAL},
        {"$8$1$" SALT "$" HASH, E_INVAL},
        {"$argon2id$v=19$m=47104,t=1,p=1$" SALT "$" HASH, E_INVAL},
        {"$7$262144$" SALT "$" HASH, E_OK},
        {"$7$262145$" SALT "$" HASH, E_LIMIT},
        {"$7$1$" HASH HASH "$" HASH, E_INVAL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (secret_hash_check_mosquitto(str_from(rows[i].text)) != rows[i].e)
            fail_msg("%s", rows[i].text);
    assert_false(secret_hash_matches(SECRET_HASH_MOSQUITTO, STR(""), STR("geheim"), STR("geheim")));
}

/* The exchange of RFC 7677 section 3: the client's proof opens with the stored key. */
static void scram_keys_are_those_of_rfc_7677(void **state)
{
    char salt[BASE64_DECODED_BYTES(24)];
    unsigned char stored[SECRET_HASH_SCRAM_BYTES], server[SECRET_HASH_SCRAM_BYTES];
    char want_stored[BASE64_DECODED_BYTES(44)], want_server[BASE64_DECODED_BYTES(44)];
    size_t n;

    (void)state;
    assert_true(base64_decode(STR("W22ZaJ0SNY7soEsUEjb6gQ=="), salt, &n));
    assert_int_equal(secret_hash_scram(STR("pencil"), (struct str){salt, n}, 4096, stored, server), E_OK);
    assert_true(base64_decode(STR("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="), want_stored, &n));
    assert_memory_equal(stored, want_stored, sizeof stored);
    assert_true(base64_decode(STR("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="), want_server, &n));
    assert_memory_equal(server, want_server, sizeof server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bcrypt_hashes_are_checked),
        cmocka_unit_test(other_variants_of_bcrypt_are_refused),
        cmocka_unit_test(digests_are_of_salt_and_password),
        cmocka_unit_test(entries_of_mosquittos_password_files_are_checked),
        cmocka_unit_test(other_entries_of_password_files_are_refused),
        cmocka_unit_test(scram_keys_are_those_of_rfc_7677),
    };

    return cmocka_run_group_tests_name("secret_hash", tests, NULL, NULL);
}
