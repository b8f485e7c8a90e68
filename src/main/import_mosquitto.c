#include "main/import_mosquitto.h"

#include <string.h>

#include "base/check.h"
#include "base/utf8.h"

#define SPACES " \t\r\n\v\f"

static struct str trim(struct str s)
{
    while (s.n && strchr(SPACES, s.p[s.n - 1]) && s.p[s.n - 1])
        s.n--;
    while (s.n && strchr(SPACES, *s.p) && *s.p)
        s = str_from_offset(s, 1);
    return s;
}

/* The next line without white space around it; false at the end. Comments come out empty. */
static bool take_line(struct str *rest, struct str *out_line, unsigned *line)
{
    bool has_more;

    if (rest->n == 0)
        return false;
    ++*line;
    *out_line = trim(str_take(rest, '\n', &has_more));
    if (out_line->n && *out_line->p == '#')
        *out_line = (struct str){0};
    return true;
}

/* --- passwords --- */

static json_t *account_of(struct str user, struct str hash)
{
    json_t *entry = json_object(), *secrets = json_array(), *secret = json_object();

    document_set_text(secret, "hash-function", STR("mosquitto"));
    document_set_text(secret, "pwd-hash", hash);
    ASSERT(json_array_append_new(secrets, secret) == 0);
    document_set_text(entry, "type", STR("hashed-password"));
    document_set_text(entry, "auth-id", user);
    document_set(entry, "secrets", secrets);
    return entry;
}

/* Why a line can be no account; NULL: it can. What only the registry knows, as which names it takes, it says itself. */
static const char *fault_of(struct str user, struct str hash)
{
    if (user.n == 0 || hash.n == 0)
        return "is not NAME:HASH";
    if (!utf8_is_valid(user) || !utf8_is_valid(hash) || memchr(user.p, 0, user.n) || memchr(hash.p, 0, hash.n))
        return "is not UTF-8";
    if (str_starts_with(hash, STR("$argon2id$")))
        return "has an argon2id hash, which cannot be checked here: give the device a new password";
    if (!str_starts_with(hash, STR("$6$")) && !str_starts_with(hash, STR("$7$")))
        return "has no hash that begins with $6$ or $7$: mosquitto_passwd -U makes hashes of plain passwords";
    return NULL;
}

static void read_account(struct import_list *l, struct str tenant, struct import_place place, struct str text)
{
    bool has_hash;
    struct str user = trim(str_take(&text, ':', &has_hash)), hash = trim(text);
    const char *fault = fault_of(user, hash);
    struct import_device *d;
    json_t *entry;

    if (fault || import_list_find(l, tenant, user)) {
        l->n_failed_devices++;
        import_list_tell(l, IMPORT_LOST, place, "%.*s %s", (int)(user.n < 200 ? user.n : 200), user.n ? user.p : "",
                         fault ? fault : "is there twice");
        return;
    }
    d = import_list_add(l, tenant, user, place);
    entry = account_of(user, hash);
    import_list_add_credentials(d, entry);
    json_decref(entry);
}

void import_mosquitto_read_passwords(struct import_list *l, struct str tenant, const char *file, struct str text)
{
    struct import_place place = {file, 0};
    struct str line;

    while (take_line(&text, &line, &place.line))
        if (line.n)
            read_account(l, tenant, place, line);
}

/* --- access --- */

enum access { READ = 1u << 0, WRITE = 1u << 1 };

static const struct {
    const char *word;
    unsigned access;
} words[] = {{"read", READ}, {"write", WRITE}, {"readwrite", READ | WRITE}, {"deny", 0}};

/* One line that gives or denies access. */
struct rule {
    struct import_list *list;
    struct str tenant, user; /* `user` without `p`: anonymous clients */
    struct import_place place;
    bool is_pattern; /* for all users, with %u and %c */
    unsigned access; /* 0: it denies */
    struct str topic;
    struct import_acl_counts *counts;
};

/* The first levels of topics that are a device's own, and what it may do with them (docs/DEVICES.md, docs/COMMANDS.md). */
static const struct {
    struct str name;
    unsigned access;
} endpoints[] = {
    {STR_INIT("telemetry"), WRITE},      {STR_INIT("t"), WRITE},        {STR_INIT("event"), WRITE},
    {STR_INIT("e"), READ | WRITE}, /* events one way, errors the other */
    {STR_INIT("command"), READ | WRITE}, {STR_INIT("c"), READ | WRITE}, {STR_INIT("error"), READ},
};

#define LOST(r, ...) import_list_tell((r)->list, IMPORT_LOST, (r)->place, __VA_ARGS__)

static void use_gateway(const struct rule *r, struct str device)
{
    struct import_device *d = import_list_find(r->list, r->tenant, device);

    if (!d)
        d = import_list_add(r->list, r->tenant, device, r->place);
    import_list_add_gateway(d, r->user);
    r->counts->n_gateway++;
}

/* Whether a level stands for the user itself; as a gateway it hears only of those devices that name it, whatever it asks for. */
static bool is_own(const struct rule *r, struct str device)
{
    return device.n == 0 || str_equal(device, r->is_pattern ? STR("%u") : r->user) ||
           (r->access == READ && str_equal(device, STR("+")));
}

/* A topic of a device's: ENDPOINT, or ENDPOINT/TENANT/DEVICE and what may follow. */
static void read_device_topic(const struct rule *r, unsigned allowed)
{
    struct str rest = r->topic, tenant, device;
    bool has_tenant, has_device, has_more;

    (void)str_take(&rest, '/', &has_tenant);
    tenant = str_take(&rest, '/', &has_device);
    device = str_take(&rest, '/', &has_more);
    if (!(r->access & allowed))
        LOST(r, "%.*s is a topic of devices, which nobody %s", STR_ARG(r->topic),
             r->access & READ ? "subscribes to: what they send is in Kafka" : "publishes to");
    else if (!r->is_pattern && !r->user.p)
        LOST(r, "anonymous clients cannot use %.*s: topics of devices are for those that log in", STR_ARG(r->topic));
    else if (has_device && tenant.n && !str_equal(tenant, r->tenant) && !str_equal(tenant, STR("+")))
        LOST(r, "%.*s is of another tenant than %.*s", STR_ARG(r->topic), STR_ARG(r->tenant));
    else if (!has_tenant || (has_device && is_own(r, device)))
        r->counts->n_held++;
    else if (has_device && !r->is_pattern && !memchr(device.p, '+', device.n) && !memchr(device.p, '#', device.n))
        use_gateway(r, device);
    else
        LOST(r, "%.*s names no single device: say in the via of each which gateways may act for it", STR_ARG(r->topic));
}

/* Any other topic. */
static void read_plain_topic(const struct rule *r)
{
    if (str_starts_with(r->topic, STR("$SYS")))
        LOST(r, "there is no $SYS: see /metrics at the administration port");
    else if (str_equal(r->topic, STR("#")) && r->access == (READ | WRITE))
        r->counts->n_held++;
    else
        LOST(r, "%.*s is no limit any more: clients of a tenant may publish and subscribe to all of its topics",
             STR_ARG(r->topic));
}

static void read_rule(const struct rule *r)
{
    struct str rest = r->topic, first;
    bool has_more;

    first = str_take(&rest, '/', &has_more);
    if (r->access == 0) {
        LOST(r, "%.*s cannot be denied: clients of a tenant may publish and subscribe to all of its topics", STR_ARG(r->topic));
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(endpoints); i++)
        if (str_equal(first, endpoints[i].name)) {
            read_device_topic(r, endpoints[i].access);
            return;
        }
    read_plain_topic(r);
}

static bool find_access(struct str word, unsigned *out_access)
{
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_equal(word, str_from(words[i].word))) {
            *out_access = words[i].access;
            return true;
        }
    return false;
}

static struct str take_word(struct str *rest)
{
    struct str word = *rest;
    size_t n = 0;

    while (n < rest->n && rest->p[n] != ' ' && rest->p[n] != '\t')
        n++;
    word.n = n;
    *rest = trim(str_from_offset(*rest, n));
    return word;
}

/* `topic` or `pattern`, perhaps an access, and a topic, which may have spaces if the access is there. */
static void read_access(struct rule *r, struct str rest)
{
    struct str word = take_word(&rest);

    r->access = READ | WRITE;
    r->topic = word;
    if (rest.n) {
        r->topic = rest;
        if (!find_access(word, &r->access)) {
            LOST(r, "%.*s is no access: expected read, write, readwrite or deny", STR_ARG(word));
            return;
        }
    }
    if (r->topic.n && utf8_is_valid(r->topic))
        read_rule(r);
    else
        LOST(r, "there is no topic");
}

void import_mosquitto_read_acl(struct import_list *l, struct str tenant, const char *file, struct str text,
                               struct import_acl_counts *out)
{
    struct rule r = {.list = l, .tenant = tenant, .place = {file, 0}, .counts = out};
    struct str rest;

    while (take_line(&text, &rest, &r.place.line)) {
        struct str word = take_word(&rest);

        if (word.n == 0)
            continue;
        out->n_lines++;
        r.is_pattern = str_equal(word, STR("pattern"));
        if (str_equal(word, STR("user")) && rest.n && utf8_is_valid(rest)) {
            r.user = rest;
            out->n_lines--;
            if (!import_list_find(l, tenant, rest))
                LOST(&r, "%.*s is not in the password file", STR_ARG(rest));
        } else if (r.is_pattern || str_equal(word, STR("topic"))) {
            read_access(&r, rest);
        } else {
            LOST(&r, "expected user, topic or pattern");
        }
    }
}
