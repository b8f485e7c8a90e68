/* http_conn_fuzz: any bytes in any pieces on a connection of a server, HTTP/1 or what becomes HTTP/2, while time passes, handlers answer
 * late and the server begins to drain. The input: a byte that says how many bytes follow and what happens behind them, these bytes,
 * and so on. */
#include "http_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PIECE_MAX = 64, PASS_MS = 700 };

/* What the two upper bits of the byte before a piece mean. */
enum step { STEP_NONE, STEP_ANSWER, STEP_PASS, STEP_DRAIN };

static void take(enum step step)
{
    switch (step) {
    case STEP_NONE:
        break;
    case STEP_ANSWER:
        http_target_answer();
        break;
    case STEP_PASS:
        http_target_pass(PASS_MS);
        break;
    case STEP_DRAIN:
        http_server_drain(&f.server, 2 * PASS_MS, http_target_on_closed);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    http_target_open();
    while (size > 0) {
        enum step step = data[0] / PIECE_MAX;
        size_t n = data[0] % PIECE_MAX;

        data++;
        size--;
        n = n < size ? n : size;
        if (n > 0)
            http_target_put(data, n);
        data += n;
        size -= n;
        take(step);
    }
    http_target_close();
    return 0;
}
