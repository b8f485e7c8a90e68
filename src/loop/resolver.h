/* resolver: names to addresses by the system's own means (getaddrinfo), which block; so a thread of its own asks, one name
 * after the other. The thread starts with the first question. Any thread may ask; the answer comes by mail. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/list.h"
#include "base/mail.h"

enum { RESOLVER_ADDRESSES = 8, RESOLVER_NAME_MAX = 255, RESOLVER_QUESTIONS = 1024 };

/* A question and its answer; owned by whoever asks and left alone until its mail comes. */
struct resolver_query {
    struct mail mail;                 /* on_mail is set by the requester */
    struct mailbox *home;             /* set by the requester */
    char name[RESOLVER_NAME_MAX + 1]; /* set by the requester */
    uint16_t port;                    /* put into the addresses */
    err result;                       /* E_OK; E_NOTFOUND: there is no such name; E_AGAIN: cannot be told now */
    unsigned n_addresses;
    struct sockaddr_storage addresses[RESOLVER_ADDRESSES]; /* in the system's order of preference */
    struct list link;                                      /* the resolver's */
};

/* All-zero but for what resolver_init() does; one for the process is enough. */
struct resolver {
    pthread_mutex_t lock; /* held for a few instructions, never while a name is looked up */
    pthread_cond_t wake;
    struct list queue;
    unsigned n_queued;
    pthread_t thread;
    bool has_thread, is_stopping;
};

/* Never fails; the resolver must not move. */
void resolver_init(struct resolver *r);

/* Asks. E_LIMIT: too many questions wait; E_IO: there is no thread. No mail comes then. */
MUST_USE err resolver_ask(struct resolver *r, struct resolver_query *query);

/* Answers nothing any more, takes the thread down, waiting for a look-up that is under way. Questions without an answer are their
 * owners' again. After the threads that ask have stopped. */
void resolver_fini(struct resolver *r);
