#include "broker/subscriptions.h"

#include "base/check.h"
#include "base/siphash.h"
#include "broker/session.h"
#include "core/message.h"

enum { FIRST_CAPACITY = 16, WORD_BITS = 64 };

void subscriptions_init(struct subscriptions *subs)
{
    *subs = (struct subscriptions){.slab = {.object_bytes = sizeof(struct subscription), .sub = MEM_BROKER}};
}

void subscriptions_fini(struct subscriptions *subs)
{
    topic_tree_free(&subs->tree);
    slab_fini(&subs->slab);
    mem_free(MEM_BROKER, subs->counts);
    mem_free(MEM_BROKER, subs->matches);
    mem_free(MEM_BROKER, subs->ids);
}

static struct str first_level(struct str topic)
{
    bool more;

    return str_take(&topic, '/', &more);
}

static uint16_t bit_of(struct str tenant, struct str level)
{
    return (uint16_t)(siphash_pair(tenant, level) % SUMMARY_BITS);
}

/* The bit of filters that begin with a wildcard: no topic has `+` as its first level. */
static uint16_t wildcard_bit(struct str tenant)
{
    return bit_of(tenant, STR("+"));
}

static uint16_t summary_bit(struct str tenant, struct str filter)
{
    struct str level = first_level(filter);

    return str_equal(level, STR("#")) || str_equal(level, STR("+")) ? wildcard_bit(tenant) : bit_of(tenant, level);
}

static void summary_add(struct subscriptions *subs, uint16_t bit)
{
    if (!subs->counts)
        subs->counts = mem_alloc_zero(MEM_BROKER, SUMMARY_BITS * sizeof *subs->counts);
    if (subs->counts[bit]++ == 0)
        atomic_fetch_or(&subs->summary[bit / WORD_BITS], 1ull << bit % WORD_BITS);
}

static void summary_remove(struct subscriptions *subs, uint16_t bit)
{
    if (--subs->counts[bit] == 0)
        atomic_fetch_and(&subs->summary[bit / WORD_BITS], ~(1ull << bit % WORD_BITS));
}

static bool is_set(const struct subscriptions *subs, uint16_t bit)
{
    return atomic_load_explicit(&subs->summary[bit / WORD_BITS], memory_order_acquire) >> bit % WORD_BITS & 1;
}

bool subscriptions_may_match(const struct subscriptions *subs, struct str tenant, struct str topic)
{
    return is_set(subs, bit_of(tenant, first_level(topic))) || is_set(subs, wildcard_bit(tenant));
}

/* It stands in two lists, either of which may be very long: a popular filter's, a busy session's. Both are walked together, to
 * the end of the shorter one. */
static struct subscription *find(const struct topic_node *node, const struct session *ss)
{
    struct subscription *of_node = node ? node->value : NULL, *of_session = ss->subscriptions;

    while (of_node && of_session) {
        if (of_node->session == ss)
            return of_node;
        if (of_session->node == node)
            return of_session;
        of_node = of_node->next_of_node;
        of_session = of_session->next_of_session;
    }
    return NULL;
}

bool subscriptions_has(const struct subscriptions *subs, const struct session *ss, struct str tenant, struct str filter)
{
    return find(topic_tree_find(&subs->tree, tenant, filter), ss) != NULL;
}

static void link_to_node(struct subscription *sub, struct topic_node *node)
{
    struct subscription *first = node->value;

    sub->node = node;
    sub->next_of_node = first;
    sub->link_of_node = (struct subscription **)(void *)&node->value;
    if (first)
        first->link_of_node = &sub->next_of_node;
    node->value = sub;
}

err subscriptions_add(struct subscriptions *subs, struct session *ss, struct str tenant, struct str filter,
                      const struct subscription_options *options, bool *out_existed)
{
    struct topic_node *node = topic_tree_insert(&subs->tree, tenant, filter);
    struct subscription *sub = find(node, ss);

    if (!node)
        return E_NOMEM;
    *out_existed = sub != NULL;
    if (!sub) {
        sub = slab_new(&subs->slab);
        sub->session = ss;
        sub->next_of_session = ss->subscriptions;
        sub->summary_bit = summary_bit(tenant, filter);
        ss->subscriptions = sub;
        ss->n_subscriptions++;
        link_to_node(sub, node);
        summary_add(subs, sub->summary_bit);
    }
    sub->id = options->id;
    sub->qos = options->qos;
    sub->no_local = options->no_local;
    sub->retain_as_published = options->retain_as_published;
    return E_OK;
}

/* `at` is the link of the session's list that points to the subscription. */
static void drop(struct subscriptions *subs, struct session *ss, struct subscription **at)
{
    struct subscription *sub = *at;

    *at = sub->next_of_session;
    ss->n_subscriptions--;
    *sub->link_of_node = sub->next_of_node;
    if (sub->next_of_node)
        sub->next_of_node->link_of_node = sub->link_of_node;
    summary_remove(subs, sub->summary_bit);
    topic_tree_prune(&subs->tree, sub->node);
    slab_free(&subs->slab, sub);
}

bool subscriptions_remove(struct subscriptions *subs, struct session *ss, struct str tenant, struct str filter)
{
    struct subscription *sub = find(topic_tree_find(&subs->tree, tenant, filter), ss);
    struct subscription **at = &ss->subscriptions;

    if (!sub)
        return false;
    while (*at != sub)
        at = &(*at)->next_of_session;
    drop(subs, ss, at);
    return true;
}

void subscriptions_remove_all(struct subscriptions *subs, struct session *ss)
{
    while (ss->subscriptions)
        drop(subs, ss, &ss->subscriptions);
}

struct matching {
    struct subscriptions *subs;
    const struct message *message;
    err result;
};

/* Room for one more element in a scratch array of the shard; false when there is no memory. */
static bool grow(void **array, uint32_t n, uint32_t *capacity, size_t element)
{
    uint32_t wanted = *capacity ? *capacity * 2 : FIRST_CAPACITY;
    void *p;

    if (n < *capacity)
        return true;
    p = mem_try_realloc(MEM_BROKER, *array, wanted * element);
    if (!p)
        return false;
    *array = p;
    *capacity = wanted;
    return true;
}

/* The match of a session in this publish: the one that it has, or a new one. */
static struct match *match_of(struct subscriptions *subs, struct session *ss)
{
    if (ss->match_mark == subs->mark)
        return &subs->matches[ss->match_index];
    if (!grow((void **)&subs->matches, subs->n_matches, &subs->matches_capacity, sizeof *subs->matches))
        return NULL;
    ss->match_mark = subs->mark;
    ss->match_index = subs->n_matches;
    subs->matches[subs->n_matches] = (struct match){.session = ss, .first_id = -1};
    return &subs->matches[subs->n_matches++];
}

static bool add_id(struct subscriptions *subs, struct match *match, uint32_t id)
{
    if (!grow((void **)&subs->ids, subs->n_ids, &subs->ids_capacity, sizeof *subs->ids))
        return false;
    subs->ids[subs->n_ids] = (struct match_id){id, match->first_id};
    match->first_id = (int32_t)subs->n_ids++;
    match->n_ids++;
    return true;
}

static void on_node(void *context, struct topic_node *node)
{
    struct matching *m = context;

    for (struct subscription *sub = node->value; sub; sub = sub->next_of_node) {
        struct match *match;

        if (sub->no_local && sub->session->number == m->message->publisher)
            continue;
        match = match_of(m->subs, sub->session);
        if (!match || (sub->id && !add_id(m->subs, match, sub->id))) {
            m->result = E_NOMEM;
            return;
        }
        if (sub->qos > match->qos)
            match->qos = sub->qos;
        match->retain_as_published |= sub->retain_as_published;
    }
}

err subscriptions_match(struct subscriptions *subs, const struct message *m)
{
    struct matching matching = {subs, m, E_OK};

    subs->n_matches = subs->n_ids = 0;
    subs->mark++;
    topic_tree_match_name(&subs->tree, m->tenant, m->topic, on_node, &matching);
    return matching.result;
}
