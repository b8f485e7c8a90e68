/* command_fuzz: whatever an application writes as a command, a device subscribes to, or answers with: it is read or refused within the
 * bounds, and a command that is read can be published, answered and told of. Zero bytes separate the texts. */
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/utf8.h"
#include "core/command_id.h"
#include "core/command_record.h"
#include "core/command_topic.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str next(struct str *rest)
{
    bool more;

    return str_take(rest, '\0', &more);
}

static void publish(struct str filter, const struct command_record *c)
{
    char id[COMMAND_ID_BYTES], topic[8192];
    struct command_address address = {.subject = c->subject, .message_id = c->message_id};
    struct command_filter f;
    size_t n;

    if (c->is_response_required) {
        struct str back;

        address.request_id = (struct str){id, command_id_write(c->correlation_id, id)};
        ASSERT(command_id_read(address.request_id, &back) && str_equal(back, c->correlation_id));
    }
    if (!utf8_is_valid(filter) || filter.n > 1024 || command_topic_parse_filter(filter, &f) != E_OK)
        return;
    n = command_topic_size(&f, &address);
    ASSERT(n < sizeof topic);
    command_topic_format(&f, &address, topic);
    ASSERT(utf8_is_valid((struct str){topic, n}) && !memchr(topic, '+', n) && !memchr(topic, '#', n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct command_place place = {.topic = STR_INIT("hono.command.t"), .timestamp_ms = 5};
    struct str rest = {(const char *)data, size}, filter = next(&rest), key = next(&rest), correlation_id;
    struct record_header headers[24];
    struct command_record c;
    struct command_answer answer;
    size_t n = 0;

    if (size > 8192)
        return 0;
    while (rest.n > 0 && n < ARRAY_LEN(headers)) {
        headers[n].name = next(&rest);
        headers[n++].value = next(&rest);
    }
    if (command_record_read(key, rest, headers, n, &place, 100, &c) == COMMAND_FAULT_NONE) {
        ASSERT(c.subject.n > 0 && c.message_id.n > 0 && str_equal(c.device_id, key));
        publish(filter, &c);
    }
    command_record_build_notice(&c, STR("t"), 503, STR("why"), 1, &answer);
    ASSERT(answer.record.n_headers <= COMMAND_RECORD_HEADERS_MAX);
    if (command_id_read(filter, &correlation_id))
        ASSERT(correlation_id.n > 0 && correlation_id.n <= filter.n - 3);
    return 0;
}
