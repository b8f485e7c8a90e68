#include "fanout/fanout_snapshot.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/check.h"
#include "fanout/fanout_config.h"

static struct fanout_snapshot *snapshot;

static int set_up(void **state)
{
    static const struct fanout_abilities none = {0};
    struct config_errors errors;

    (void)state;
    return fanout_config_build(STR("channels:\n"
                                   "- {namespace: ns, name: a, hosts: [events.example.com, single]}\n"
                                   "- {namespace: ns, name: b}\n"
                                   "- {namespace: ns, name: c-kn-channel}\n"
                                   "- {namespace: ns, name: d.e}\n"),
                               "test", 1, &none, &snapshot, &errors);
}

static int tear_down(void **state)
{
    (void)state;
    fanout_snapshot_unref(snapshot);
    return 0;
}

static const struct {
    const char *host;
    bool is_host;
    const char *key; /* NULL: no channel */
} hosts[] = {
    {"a.ns", true, "ns/a"},
    {"b.ns.svc", true, "ns/b"},
    {"b.ns.svc.cluster.local", true, "ns/b"},
    {"B.NS.SVC.Cluster.Local.", true, "ns/b"},
    {"b.ns.svc.cluster.local:8080", true, "ns/b"},
    {"b.ns.channels.cluster.local", true, "ns/b"},
    {"b-kn-channel.ns.svc.cluster.local", true, "ns/b"},
    {"b.ns.:80", true, "ns/b"},
    {"events.example.com", true, "ns/a"},
    {"Events.Example.com:443", true, "ns/a"},
    {"single", true, "ns/a"},
    {"d.e", true, NULL}, /* namespace e: a name with a dot is reached by its path only */
    {"c-kn-channel.ns", true, NULL},
    {"c-kn-channel-kn-channel.ns", true, "ns/c-kn-channel"},
    {"x.ns", true, NULL},
    {"b.other.svc", true, NULL},
    {"b.ns.svcs", true, NULL},
    {"b.ns.example.com", true, NULL},
    {"127.0.0.1:11235", true, NULL},
    {".", false, NULL},
    {"..", true, NULL},
    {".ns", true, NULL},
    {"b.", false, NULL},
    {"nodot", false, NULL},
    {"nodot:80", false, NULL},
    {"[::1]:80", false, NULL},
    {"", false, NULL},
    {":80", false, NULL},
};

static void a_host_means_a_channel(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        const struct fanout_channel *c;
        bool is_host = fanout_snapshot_find_host(snapshot, str_from(hosts[i].host), &c);

        if (is_host != hosts[i].is_host || !c != !hosts[i].key || (c && !str_equal(c->key, str_from(hosts[i].key))))
            fail_msg("%s: %d %s", hosts[i].host, is_host, c ? c->key.p : "none");
    }
}

static void a_host_of_any_length_is_borne(void **state)
{
    char host[1024];
    const struct fanout_channel *c;

    (void)state;
    memset(host, 'a', sizeof host);
    for (size_t n = 0; n < sizeof host; n++) {
        memset(host, 'a', sizeof host);
        if (n > 2)
            host[n / 2] = '.';
        (void)fanout_snapshot_find_host(snapshot, (struct str){host, n}, &c);
        assert_null(c);
    }
}

static void a_key_means_a_channel(void **state)
{
    (void)state;
    assert_ptr_equal(fanout_snapshot_find_key(snapshot, STR("ns/d.e")), &snapshot->channels[3]);
    assert_null(fanout_snapshot_find_key(snapshot, STR("ns/")));
    assert_null(fanout_snapshot_find_key(snapshot, STR("")));
    assert_null(fanout_snapshot_find_key(snapshot, STR("ns/A")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_means_a_channel),
        cmocka_unit_test(a_host_of_any_length_is_borne),
        cmocka_unit_test(a_key_means_a_channel),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
