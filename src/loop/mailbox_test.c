#include "loop/mailbox.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"

enum { SENDERS = 4, LETTERS = 5000, SEEN_MAX = 64 };

struct letter {
    struct mail m;
    int number; /* counts up for each sender */
    int sender;
};

static struct mailbox mb;
static int seen[SEEN_MAX];
static size_t n_seen;

static int open_box(void **state)
{
    (void)state;
    n_seen = 0;
    return mailbox_init(&mb, 1000) == E_OK ? 0 : -1;
}

static int close_box(void **state)
{
    (void)state;
    mailbox_fini(&mb);
    return mb.wake_fd == -1 && mem_used(MEM_TEST) == 0 ? 0 : -1;
}

static void note(struct mail *m)
{
    assert_true(n_seen < SEEN_MAX);
    seen[n_seen++] = CONTAINER_OF(m, struct letter, m)->number;
}

static void number(struct letter *letters, int n)
{
    for (int i = 0; i < n; i++)
        letters[i] = (struct letter){.m = {.on_mail = note}, .number = i};
}

/* How often the owner was woken since this was last asked. */
static uint64_t wakes(void)
{
    uint64_t count = 0;

    return read(mb.wake_fd, &count, sizeof count) == sizeof count ? count : 0;
}

static void an_empty_box_has_nothing_to_run(void **state)
{
    (void)state;
    assert_int_equal(mailbox_drain(&mb), 0);
    assert_int_equal(wakes(), 0);
}

static void mail_runs_in_the_order_of_posting(void **state)
{
    struct letter letters[10];

    (void)state;
    number(letters, 10);
    for (int i = 0; i < 10; i++)
        mailbox_post(&mb, &letters[i].m);
    assert_int_equal(n_seen, 0);
    assert_int_equal(mailbox_drain(&mb), 10);
    for (int i = 0; i < 10; i++)
        assert_int_equal(seen[i], i);
    assert_int_equal(mailbox_drain(&mb), 0);
}

static void only_the_post_into_an_empty_box_wakes(void **state)
{
    struct letter letters[4];
    struct mail_chain chain = {0};

    (void)state;
    number(letters, 4);
    mailbox_post(&mb, &letters[0].m);
    mailbox_post(&mb, &letters[1].m);
    mailbox_chain(&chain, &letters[2].m);
    mailbox_post_chain(&mb, &chain);
    assert_int_equal(wakes(), 1);
    mailbox_post(&mb, &letters[3].m); /* still full: the owner is on its way */
    assert_int_equal(wakes(), 0);
    assert_int_equal(mailbox_drain(&mb), 4);
    mailbox_post(&mb, &letters[0].m);
    assert_int_equal(wakes(), 1);
    assert_int_equal(mailbox_drain(&mb), 1);
}

static void a_chain_keeps_its_order_among_single_posts(void **state)
{
    struct letter letters[7];
    struct mail_chain chain = {0};

    (void)state;
    number(letters, 7);
    mailbox_post_chain(&mb, &chain); /* empty: a no-op */
    assert_int_equal(wakes(), 0);
    mailbox_post(&mb, &letters[0].m);
    for (int i = 1; i < 4; i++)
        mailbox_chain(&chain, &letters[i].m);
    mailbox_post_chain(&mb, &chain);
    assert_null(chain.newest);
    assert_null(chain.oldest);
    mailbox_post(&mb, &letters[4].m);
    for (int i = 5; i < 7; i++) /* the emptied chain serves again */
        mailbox_chain(&chain, &letters[i].m);
    mailbox_post_chain(&mb, &chain);
    assert_int_equal(mailbox_drain(&mb), 7);
    for (int i = 0; i < 7; i++)
        assert_int_equal(seen[i], i);
}

static void post_again(struct mail *m)
{
    note(m);
    if (n_seen < 3)
        mailbox_post(&mb, m);
}

static void mail_posted_while_mail_runs_waits_for_the_next_drain(void **state)
{
    struct letter letter = {.m = {.on_mail = post_again}};

    (void)state;
    mailbox_post(&mb, &letter.m);
    for (size_t i = 1; i <= 3; i++) {
        assert_int_equal(wakes(), 1);
        assert_int_equal(mailbox_drain(&mb), 1);
        assert_int_equal(n_seen, i);
    }
    assert_int_equal(wakes(), 0);
    assert_int_equal(mailbox_drain(&mb), 0);
}

static void free_letter(struct mail *m)
{
    note(m);
    mem_free(MEM_TEST, CONTAINER_OF(m, struct letter, m));
}

static void mail_may_free_itself(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct letter *letter = mem_alloc_zero(MEM_TEST, sizeof *letter);

        letter->m.on_mail = free_letter;
        mailbox_post(&mb, &letter->m);
    }
    assert_int_equal(mailbox_drain(&mb), 5);
}

static void room_is_granted_up_to_the_limit(void **state)
{
    static const struct {
        size_t reserves, releases; /* reserves first */
        bool is_granted;
    } rows[] = {
        {0, 0, true},    {1001, 0, false},  {SIZE_MAX, 0, false}, {600, 0, true},       {401, 0, false},
        {400, 0, true},  {0, 0, true},      {1, 0, false},        {SIZE_MAX, 0, false}, {SIZE_MAX - 999, 0, false},
        {1, 600, false}, {600, 1000, true}, {1000, 1000, true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(mailbox_reserve(&mb, rows[i].reserves), rows[i].is_granted);
        mailbox_release(&mb, rows[i].releases);
    }
    assert_int_equal(atomic_load(&mb.reserved_bytes), 0);
}

static struct letter mass[SENDERS][LETTERS];
static int next_of[SENDERS];
static size_t n_mass;

static void expect_next(struct mail *m)
{
    const struct letter *letter = CONTAINER_OF(m, struct letter, m);

    assert_int_equal(letter->number, next_of[letter->sender]++);
    n_mass++;
}

/* Every third sender posts chains of three. */
static void *send_all(void *context)
{
    struct letter *letters = context;
    struct mail_chain chain = {0};

    for (int i = 0; i < LETTERS; i++) {
        if (letters->sender % 3) {
            mailbox_post(&mb, &letters[i].m);
            continue;
        }
        mailbox_chain(&chain, &letters[i].m);
        if (i % 3 == 2 || i == LETTERS - 1)
            mailbox_post_chain(&mb, &chain);
    }
    return NULL;
}

static void every_sender_keeps_its_order_and_no_wake_is_lost(void **state)
{
    pthread_t threads[SENDERS];

    (void)state;
    for (int s = 0; s < SENDERS; s++) {
        for (int i = 0; i < LETTERS; i++)
            mass[s][i] = (struct letter){.m = {.on_mail = expect_next}, .number = i, .sender = s};
        assert_int_equal(pthread_create(&threads[s], NULL, send_all, mass[s]), 0);
    }
    while (n_mass < (size_t)SENDERS * LETTERS) { /* hangs if a wake is lost */
        assert_int_equal(poll(&(struct pollfd){.fd = mb.wake_fd, .events = POLLIN}, 1, -1), 1);
        (void)wakes();
        mailbox_drain(&mb);
    }
    for (int s = 0; s < SENDERS; s++) {
        assert_int_equal(pthread_join(threads[s], NULL), 0);
        assert_int_equal(next_of[s], LETTERS);
    }
}

struct asker {
    size_t bytes;
    int granted;
};

static void *reserve_and_release(void *context)
{
    struct asker *asker = context;

    for (int i = 0; i < LETTERS; i++) {
        if (!mailbox_reserve(&mb, asker->bytes))
            continue;
        asker->granted++;
        mailbox_release(&mb, asker->bytes);
    }
    return NULL;
}

/* The limit is 1000: three times 300 always fit, whoever asks for too much at the same moment. */
static void a_refusal_takes_no_room_from_others(void **state)
{
    struct asker askers[SENDERS] = {{300, 0}, {300, 0}, {300, 0}, {1001, 0}};
    pthread_t threads[SENDERS];

    (void)state;
    for (size_t i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reserve_and_release, &askers[i]), 0);
    for (size_t i = 0; i < SENDERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(askers[i].granted, askers[i].bytes > 1000 ? 0 : LETTERS);
    }
    assert_int_equal(atomic_load(&mb.reserved_bytes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_box_has_nothing_to_run, open_box, close_box),
        cmocka_unit_test_setup_teardown(mail_runs_in_the_order_of_posting, open_box, close_box),
        cmocka_unit_test_setup_teardown(only_the_post_into_an_empty_box_wakes, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_chain_keeps_its_order_among_single_posts, open_box, close_box),
        cmocka_unit_test_setup_teardown(mail_posted_while_mail_runs_waits_for_the_next_drain, open_box, close_box),
        cmocka_unit_test_setup_teardown(mail_may_free_itself, open_box, close_box),
        cmocka_unit_test_setup_teardown(room_is_granted_up_to_the_limit, open_box, close_box),
        cmocka_unit_test_setup_teardown(every_sender_keeps_its_order_and_no_wake_is_lost, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_refusal_takes_no_room_from_others, open_box, close_box),
    };

    return cmocka_run_group_tests_name("mailbox", tests, NULL, NULL);
}
