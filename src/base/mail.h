/* mail: the intrusive node by which one thread hands something to another (see loop/mailbox.h). It lies inside the object
 * that carries the request or the answer, so posting never allocates and never fails. All-zero is unposted. */
#pragma once

struct mailbox;

struct mail {
    struct mail *next;
    /* Runs on the receiving thread. The node belongs to the receiver from here on and may be posted again. */
    void (*on_mail)(struct mail *m);
};
