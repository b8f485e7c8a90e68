/* POST /v1/import/{tenantId}: many devices at a time, as lines of JSON, {"id": ..., "device": {...}, "credentials": [...]}. A request holds one page
 * of them. What is there as the line says is left as it is, so that an import that was cut short is simply sent again; what is there but
 * different, too, unless `existing=update` asks to replace it. `dry-run=true` says what would become of the lines. */
#include "admin/manage_import_item.h"
#include "base/check.h"
#include "base/mem.h"
#include "registry/registry_key.h"
#include "registry/registry_state.h"

enum {
    AT_ONCE =
        1024, /* lines on their way to the table: two batches of its owner, so that one is read while the other is written */
    AT_ONCE_BYTES = 4 << 20,
    LINES_A_TURN = 256,  /* that change nothing are looked at without a pause */
    HASHES_AT_ONCE = 32, /* devices that log in wait behind them */
    CATCH_UP_MS = 500,
};

static const char *const outcome_names[MANAGE_LINE_OUTCOMES] = {[MANAGE_LINE_CREATED] = "created",
                                                                [MANAGE_LINE_UPDATED] = "updated",
                                                                [MANAGE_LINE_UNCHANGED] = "unchanged",
                                                                [MANAGE_LINE_EXISTING] = "existing",
                                                                [MANAGE_LINE_FAILED] = "failed"};

static void finish_import(struct manage_import *import)
{
    struct manage_call *c = import->call;
    json_t *body = json_object();

    for (int i = 0; i < MANAGE_LINE_OUTCOMES; i++)
        document_set(body, outcome_names[i], json_integer((json_int_t)import->counts[i]));
    document_set(body, "errors", import->errors);
    document_set(body, "left-alone", import->left_alone);
    mem_free(MEM_HTTP, import);
    manage_call_respond(c, 200, body, (struct str){0});
}

static bool has_room(const struct manage_import *import)
{
    return import->n_items < AT_ONCE && import->n_item_bytes < AT_ONCE_BYTES && import->n_hashes < HASHES_AT_ONCE;
}

/* In a task, since a line that is refused at once makes room for the next. */
static void import_more(struct task *t)
{
    struct manage_import *import = CONTAINER_OF(t, struct manage_import, task);
    bool has_more = import->rest.n > 0;

    for (int n = 0; n < LINES_A_TURN && has_more && has_room(import); n++) {
        struct str line = str_take(&import->rest, '\n', &has_more);

        import->line++;
        while (line.n && (line.p[line.n - 1] == '\r' || line.p[line.n - 1] == ' '))
            line.n--;
        if (line.n)
            manage_import_item_begin(import, line);
        has_more = import->rest.n > 0;
    }
    if (has_more && has_room(import))
        loop_defer(import->call->m->options.loop, &import->task);
    if (import->n_items == 0 && !loop_is_deferred(&import->task))
        finish_import(import);
}

/* Whether a parameter is the second of two values; the first when it is not given. */
static bool read_choice(struct manage_call *c, const char *name, struct str otherwise, struct str chosen)
{
    struct str value;
    bool is_chosen;

    if (!manage_call_query(c, name, 0, &value))
        return false;
    is_chosen = str_equal(value, chosen);
    if (!is_chosen && !str_equal(value, otherwise))
        ERR_IGNORE(document_refuse(&c->fault, 400, NULL, "%s must be %.*s or %.*s", name, STR_ARG(otherwise),
                                   STR_ARG(chosen))); /* the caller looks */
    mem_free(MEM_HTTP, (char *)(uintptr_t)value.p);
    return is_chosen;
}

static void free_import(struct manage_import *import)
{
    json_decref(import->errors);
    json_decref(import->left_alone);
    mem_free(MEM_HTTP, import);
}

static bool has_tenant(const struct manage_call *c)
{
    struct table_reader reader = {0};
    bool is_there = false;

    if (table_reader_open(c->m->options.table, &reader) == E_OK) {
        is_there = registry_state_has_tenant(&reader, str_from(c->tenant));
        table_reader_close(&reader);
    }
    return is_there;
}

/* The tenant, which was not there, may have been made by another instance. */
static void on_tenant_looked_for(struct mail *m)
{
    struct manage_import *import = CONTAINER_OF(m, struct manage_import, barrier.mail);
    struct manage_call *c = import->call;

    if (has_tenant(c)) {
        loop_defer(c->m->options.loop, &import->task);
        return;
    }
    free_import(import);
    manage_call_fail(c, 404, "there is no such tenant");
}

void manage_import_run(struct manage_call *c)
{
    const struct manage_options *options = &c->m->options;
    bool is_update = read_choice(c, "existing", STR("keep"), STR("update"));
    bool is_dry = read_choice(c, "dry-run", STR("false"), STR("true"));
    struct manage_import *import;

    if (c->fault.status) {
        manage_call_refuse(c);
        return;
    }
    import = mem_alloc_zero(MEM_HTTP, sizeof *import);
    *import = (struct manage_import){.call = c,
                                     .is_update = is_update,
                                     .is_dry = is_dry,
                                     .rest = c->x->request.body,
                                     .errors = json_array(),
                                     .left_alone = json_array(),
                                     .task = {.run = import_more},
                                     .barrier = {.mail = {.on_mail = on_tenant_looked_for}, .home = &options->loop->mailbox}};
    ASSERT(import->errors && import->left_alone);
    if (is_dry || has_tenant(c))
        loop_defer(options->loop, &import->task);
    else
        table_catch_up(options->table, REGISTRY_PARTITION_KEY, CATCH_UP_MS, &import->barrier);
}
