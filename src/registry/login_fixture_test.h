/* For tests of log-ins: a registry with a view over a table in memory, as a tenant `t1` with a device `d1`. */
#pragma once

#include <stdio.h>

#include "registry/table_fixture_test.h"

#include "base/base64.h"
#include "loop/loop.h"
#include "registry/hash_pool.h"
#include "registry/registry_key.h"
#include "registry/registry_view.h"
#include "registry/registry_wait.h"

static struct {
    struct loop loop;
    struct table table;
    struct hash_pool *pool;
    struct registry_view *view;
    struct registry *registry;
    struct mail changed;
    unsigned n_answers;
    uint64_t version;
} t;

static inline void login_fixture_on_changed(struct mail *m)
{
    (void)m;
    registry_view_accept_changes(t.view);
}

static inline void login_fixture_on_answer(struct mail *m)
{
    (void)m;
    t.n_answers++;
}

/* Puts (json NULL: removes) a state. */
static inline void login_fixture_put(struct registry_key key, const char *json)
{
    struct table_txn txn = {&t.table};
    struct table_change change = {.key = registry_key_str(&key)};
    static char state[8192];

    if (json) {
        int n = snprintf(state, sizeof state, "{\"v\":1,\"version\":\"v%llu\",\"document\":%s}",
                         (unsigned long long)++t.version, json);

        assert_true(n > 0 && (size_t)n < sizeof state);
        change.value = str_from(state);
        assert_int_equal(table_txn_put(&txn, change.key, change.value), E_OK);
    } else {
        assert_int_equal(table_txn_remove(&txn, change.key), E_OK);
    }
    registry_view_on_applied(t.view, &change);
}

/* Puts something that is no state, as an index. */
static inline void login_fixture_point(struct registry_key key, const char *value)
{
    struct table_txn txn = {&t.table};
    struct table_change change = {.key = registry_key_str(&key), .value = str_from(value)};

    assert_int_equal(table_txn_put(&txn, change.key, change.value), E_OK);
    registry_view_on_applied(t.view, &change);
}

static inline void login_fixture_set_up(void)
{
    static const char config_text[] = "kafka: {bootstrap: k:9092}\nlisteners: [{mqtt: \"127.0.0.1:1883\"}]\n";
    static struct config_errors errors;
    struct config_source source = {.text = str_from(config_text), .name = "test.yaml"};
    struct config *config;

    t.table = (struct table){.next_offset = 1};
    t.changed = (struct mail){.on_mail = login_fixture_on_changed};
    t.n_answers = 0;
    assert_int_equal(loop_init(&t.loop, 1 << 20, NULL), E_OK);
    assert_int_equal(hash_pool_start(1, &t.pool, NULL), E_OK);
    t.view = registry_view_new(t.pool, &t.changed, &t.loop.mailbox);
    registry_view_use_table(t.view, &t.table);
    assert_int_equal(config_load(&source, &config, &errors), E_OK);
    t.registry = registry_new(config);
    config_unref(config);
    registry_use_view(t.registry, t.view);
    login_fixture_put(registry_key_tenant(STR("t1")), "{}");
    login_fixture_put(registry_key_device(STR("t1"), STR("d1")), "{}");
}

static inline void login_fixture_tear_down(void)
{
    hash_pool_stop(t.pool);
    loop_turn(&t.loop, 0);
    registry_view_close(t.view);
    registry_view_free(t.view);
    registry_unref(t.registry);
    table_fixture_free(&t.table);
    loop_fini(&t.loop);
}

/* Asks until it is answered; says how often. */
static inline enum registry_result login_fixture_ask(struct registry_login *login, struct principal *out, unsigned *out_n)
{
    struct registry_wait wait = {.mail = {.on_mail = login_fixture_on_answer}, .home = &t.loop.mailbox};

    login->adapter = CONFIG_ADAPTER_MQTT;
    login->wait = &wait;
    for (*out_n = 1;; ++*out_n) {
        unsigned before = t.n_answers;
        enum registry_result result = registry_authenticate(t.registry, login, out);

        if (result != REGISTRY_PENDING)
            return result;
        while (t.n_answers == before)
            loop_turn(&t.loop, 10);
    }
}
