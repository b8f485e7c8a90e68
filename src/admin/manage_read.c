#include "admin/manage_call.h"
#include "base/check.h"
#include "base/mem.h"
#include "registry/registry_key.h"
#include "registry/registry_state.h"

/* Opens a reader of this moment; answers otherwise. */
static bool open_reader(struct manage_call *c, struct table_reader *reader)
{
    *reader = (struct table_reader){0};
    if (table_reader_open(c->m->options.table, reader) == E_OK)
        return true;
    manage_call_fail(c, 503, "temporarily unavailable");
    return false;
}

static void show(struct manage_call *c, json_t *state, const char *missing)
{
    json_t *shown;
    char version[REGISTRY_VERSION_MAX_BYTES + 1] = "";
    struct str is = registry_state_version(state);

    if (!state) {
        manage_call_fail(c, 404, missing);
        return;
    }
    shown = registry_state_show(state);
    if (is.n < sizeof version)
        memcpy(version, is.p ? is.p : "", is.n);
    json_decref(state);
    manage_call_respond(c, 200, shown, str_from(version));
}

void manage_read_tenant(struct manage_call *c)
{
    struct table_reader reader;
    json_t *state;

    if (!open_reader(c, &reader))
        return;
    state = registry_state_tenant(&reader, str_from(c->tenant));
    table_reader_close(&reader);
    show(c, state, "there is no such tenant");
}

void manage_read_device(struct manage_call *c)
{
    struct table_reader reader;
    json_t *state;

    if (!open_reader(c, &reader))
        return;
    state = registry_state_device(&reader, str_from(c->tenant), str_from(c->device));
    table_reader_close(&reader);
    show(c, state, "there is no such tenant or device");
}

/* Without any that were set, the version is that of the device. */
void manage_read_credentials(struct manage_call *c)
{
    struct table_reader reader;
    json_t *device, *credentials, *shown;
    char version[REGISTRY_VERSION_MAX_BYTES + 1] = "";
    struct str is;

    if (!open_reader(c, &reader))
        return;
    device = registry_state_device(&reader, str_from(c->tenant), str_from(c->device));
    credentials = registry_state_credentials(&reader, str_from(c->tenant), str_from(c->device));
    table_reader_close(&reader);
    if (!device) {
        json_decref(credentials);
        manage_call_fail(c, 404, "there is no such tenant or device");
        return;
    }
    is = registry_state_version(credentials ? credentials : device);
    if (is.n < sizeof version)
        memcpy(version, is.p ? is.p : "", is.n);
    shown = registry_state_show_credentials(credentials);
    json_decref(device);
    json_decref(credentials);
    manage_call_respond(c, 200, shown, str_from(version));
}

/* --- search --- */

typedef err (*add)(struct registry_search *search, struct str json, struct document_fault *fault);

static bool add_all(struct manage_call *c, const char *name, add to)
{
    struct str value;

    for (size_t i = 0; manage_call_query(c, name, i, &value); i++) {
        err e = to(&c->search, value, &c->fault);

        mem_free(MEM_HTTP, (char *)(uintptr_t)value.p);
        if (e != E_OK)
            return false;
    }
    return !c->fault.status;
}

static bool read_gateways(struct manage_call *c)
{
    struct str value;
    bool is_good = true;

    if (!(c->operation->parameters & MANAGE_GATEWAYS) || !manage_call_query(c, "isGateway", 0, &value))
        return !c->fault.status;
    if (str_equal(value, STR("true")))
        c->search.gateways = REGISTRY_SEARCH_GATEWAYS;
    else if (str_equal(value, STR("false")))
        c->search.gateways = REGISTRY_SEARCH_NO_GATEWAYS;
    else
        is_good = false;
    mem_free(MEM_HTTP, (char *)(uintptr_t)value.p);
    if (!is_good)
        ERR_IGNORE(document_refuse(&c->fault, 400, NULL, "isGateway must be true or false")); /* told by the result as well */
    return is_good;
}

static void go_on(struct task *task)
{
    struct manage_call *c = CONTAINER_OF(task, struct manage_call, task);
    json_t *result;

    if (!http_exchange_is_cancelled(c->x) && registry_search_step(&c->search)) {
        loop_defer(c->m->options.loop, &c->task);
        return;
    }
    result = registry_search_result(&c->search);
    if (result)
        manage_call_respond(c, 200, result, (struct str){0});
    else
        manage_call_fail(c, 404, "nothing matches");
}

/* Some of the devices in each turn of the loop, so that a search among a million holds nothing else up. */
void manage_search_run(struct manage_call *c)
{
    struct registry_search *search = &c->search;
    struct table_reader reader;
    bool is_there = true;

    if (!manage_call_number(c, "pageSize", 1, REGISTRY_SEARCH_PAGE_MAX, REGISTRY_SEARCH_PAGE_DEFAULT, &search->page_size) ||
        !manage_call_number(c, "pageOffset", 0, REGISTRY_SEARCH_OFFSET_MAX, 0, &search->page_offset) ||
        !add_all(c, "filterJson", registry_search_add_filter) || !add_all(c, "sortJson", registry_search_add_sort) ||
        !read_gateways(c)) {
        manage_call_refuse(c);
        return;
    }
    if (c->tenant[0]) {
        if (!open_reader(c, &reader))
            return;
        is_there = registry_state_has_tenant(&reader, str_from(c->tenant));
        table_reader_close(&reader);
    }
    if (!is_there) {
        manage_call_fail(c, 404, "there is no such tenant");
        return;
    }
    if (registry_search_begin(search, c->m->options.table, str_from(c->tenant), &c->fault) != E_OK) {
        if (!c->fault.status)
            manage_call_fail(c, 503, "temporarily unavailable");
        else
            manage_call_refuse(c);
        return;
    }
    c->task.run = go_on;
    go_on(&c->task);
}
