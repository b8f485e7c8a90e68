/* cloudevent_json_fuzz: whatever a document says, an event that is read of it comes out of its own document as the same event, with data
 * untouched, and a batch falls into elements that lie in the body, in order. */
#include <stdint.h>

#include "base/check.h"
#include "base/utf8.h"
#include "proto/cloudevents/cloudevent_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_sound(const struct cloudevent *event)
{
    ASSERT(event->id.n && event->source.n && event->type.n && event->specversion.n == 3);
    ASSERT(event->n_attributes >= 4 && event->n_attributes <= CLOUDEVENT_ATTRIBUTES_MAX);
    for (size_t i = 0; i < event->n_attributes; i++) {
        struct str value;

        ASSERT(cloudevent_is_name(event->attributes[i].name) && utf8_is_plain(event->attributes[i].value));
        /* None is there twice. */
        ASSERT(cloudevent_find(event, event->attributes[i].name, &value) && value.p == event->attributes[i].value.p);
    }
}

static struct str trim(struct str s)
{
    while (s.n && memchr(" \t\r\n", s.p[0], 4))
        s = str_from_offset(s, 1);
    while (s.n && memchr(" \t\r\n", s.p[s.n - 1], 4))
        s.n--;
    return s;
}

/* Bytes may have become JSON or text, if they are; white space around JSON is not data. */
static void check_same(const struct cloudevent *one, const struct cloudevent *other)
{
    bool is_json = other->data_kind == CLOUDEVENT_JSON;

    ASSERT(one->n_attributes == other->n_attributes);
    ASSERT(one->data_kind == other->data_kind || one->data_kind == CLOUDEVENT_BYTES);
    ASSERT(str_equal(is_json ? trim(one->data) : one->data, other->data));
    for (size_t i = 0; i < one->n_attributes; i++) {
        ASSERT(str_equal(one->attributes[i].name, other->attributes[i].name));
        ASSERT(str_equal(one->attributes[i].value, other->attributes[i].value));
        ASSERT(one->attributes[i].type == other->attributes[i].type);
    }
}

static void check_document(struct str document)
{
    struct cloudevent event, again;
    struct arena a = {0};
    struct errinfo ei = {0};
    struct buf out = {0};

    if (cloudevent_json_read(&a, MEM_TEST, document, &event, &ei) != E_OK) {
        ASSERT(ei.code == E_INVAL && ei.text[0]);
    } else {
        check_sound(&event);
        ASSERT(cloudevent_json_write(&out, MEM_TEST, &event, NULL) == E_OK);
        ASSERT(cloudevent_json_read(&a, MEM_TEST, buf_str(&out), &again, &ei) == E_OK);
        check_same(&event, &again);
    }
    buf_free(&out, MEM_TEST);
    arena_free(&a, MEM_TEST);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size}, item;
    const char *at = text.p;
    struct cloudevent_batch batch;
    err e = cloudevent_json_begin(&batch, text, 100);

    check_document(text);
    while (e == E_OK && (e = cloudevent_json_next(&batch, &item)) == E_OK) {
        ASSERT(item.n && item.p > at && item.p + item.n <= text.p + text.n);
        at = item.p + item.n - 1;
        check_document(item);
    }
    ASSERT(e == E_CLOSED || e == E_INVAL || e == E_LIMIT);
    return 0;
}
