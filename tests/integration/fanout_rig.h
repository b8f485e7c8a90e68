/* fanout_rig: a fan-out whose workers are turned by hand, with scripted subscribers and raw connections as senders, all over loopback
 * and in one thread. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake/fake_sink.h"
#include "fanout/fanout.h"
#include "fanout/fanout_plane.h"

enum {
    RIG_WORKERS = 2,
    RIG_SINKS = 4,
    RIG_CLIENTS = 8,
    RIG_CONNS = 128,
    RIG_REQUESTS = 512,
    RIG_SCRIPT = 32,
    RIG_TEXT_BYTES = 1 << 18
};

/* An HTTP server that answers as it is told. */
struct rig_sink {
    int listener;
    uint16_t port;
    int fds[RIG_CONNS];
    char *in[RIG_CONNS]; /* what came and is no whole request yet */
    size_t n_in[RIG_CONNS];
    bool is_owed[RIG_CONNS];        /* a request has come and got no answer */
    const char *script[RIG_SCRIPT]; /* one answer for each request; the last holds for all that follow; none: 200 */
    size_t n_script, n_answered;
    bool is_silent;               /* answers nothing for now */
    char *requests[RIG_REQUESTS]; /* as they came */
    size_t n_requests;
};

struct rig {
    struct workers workers;
    struct loop main;
    struct fake_sink kafka;
    struct config *config;
    struct fanout *fanout;
    struct rig_sink sinks[RIG_SINKS];
    uint16_t port;
    int clients[RIG_CLIENTS];
    char text[RIG_TEXT_BYTES]; /* the last answer */
    bool is_started, is_applied, is_drained;
    struct mail started, applied, drained;
    int64_t memory;
};

extern struct rig rig;

/* For each test. */
int rig_set_up(void **state);
int rig_tear_down(void **state);

/* Starts, or applies the next generation. `$1` in the text is the address "http://127.0.0.1:PORT" of the first sink, and so on; `$0` of one
 * where nobody listens. */
void rig_use(const char *config_text);

/* One round of everything. */
void rig_turn(void);

/* Turns until the condition holds; fails when it takes unreasonably long. */
#define rig_turn_until(condition)                                                                                              \
    for (uint64_t rig_since_ms = loop_clock_ms(); !(condition); rig_turn())                                                    \
    assert_true(loop_clock_ms() - rig_since_ms < 20000)

/* The sink answers with these, one after the other. */
void rig_script(int sink, size_t n, const char *const *answers);
#define rig_answer_with(sink, ...)                                                                                             \
    rig_script(sink, sizeof(const char *[]){__VA_ARGS__} / sizeof(const char *), (const char *[]){__VA_ARGS__})

/* Sends a request, as it is, on a client's connection, which is opened if need be. */
void rig_send(int client, const char *request);

/* Sends one event to channel ns/c, with these further header lines (each with its CR LF). */
void rig_post(int client, const char *headers, const char *body);

/* Turns until the client has its answer, and returns it. rig_status(): only the number. */
const char *rig_wait(int client);
int rig_status(int client);

/* Whether the answer is there already, or anything else to read. */
bool rig_has_answer(int client);

/* The value of a header in a request or answer, in memory that is used again; NULL: it has none. */
const char *rig_header(const char *message, const char *name);
const char *rig_body(const char *message);

/* Closes a client's connection. */
void rig_hang_up(int client);

#define RIG_OK         "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define RIG_FAIL(code) "HTTP/1.1 " #code " No\r\nContent-Length: 3\r\n\r\nbad"
#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)
