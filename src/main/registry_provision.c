#include "main/registry_provision.h"

#include "admin/manage.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/moment.h"
#include "loop/loop.h"
#include "main/registry_records.h"
#include "registry/provision.h"
#include "registry/registry_key.h"
#include "registry/uuid.h"
#include "table/table.h"

/* One device that is being made. */
struct making {
    struct registry_provisioner *provisioner;
    struct provision *provision;
    struct mail mail; /* to the main thread */
    struct table_write write;
    struct buf text;
    char version[UUID_BYTES], at[MOMENT_BYTES];
    size_t at_n;
};

static void tell(const struct making *making)
{
    const struct registry_provisioner *r = making->provisioner;
    const struct provision *p = making->provision;
    const struct manage_change change = {
        .op = REGISTRY_DEVICE_CREATE,
        .tenant = p->tenant,
        .device = p->device,
        .user = p->gateway,
        .at = {making->at, making->at_n},
        .version = str_from(making->version),
        .document = p->document,
    };

    r->on_change(r->context, &change);
    registry_records_tell_provisioned(r->records, p->tenant, p->device, p->gateway);
}

static void on_written(struct mail *m)
{
    struct making *making = CONTAINER_OF(m, struct making, write.mail);
    struct provision *p = making->provision;
    err result = making->write.result;

    if (result == E_OK)
        tell(making);
    else
        LOG_INFO(LOG_REGISTRY, "provision.failed", F_STR("tenant", p->tenant), F_STR("device", p->device),
                 F_TEXT("why", err_name(result)));
    if (!making->provisioner->is_stopped)
        provision_answer(p, result);
    buf_free(&making->write.reply, MEM_TABLE);
    buf_free(&making->text, MEM_REGISTRY);
    provision_free(p);
    mem_free(MEM_REGISTRY, making);
}

static void on_taken(struct mail *m)
{
    struct making *making = CONTAINER_OF(m, struct making, mail);
    const struct provision *p = making->provision;
    struct registry_request request = {
        .op = REGISTRY_DEVICE_CREATE,
        .tenant = p->tenant,
        .device = p->device,
        .version = uuid_make(making->version),
        .user = p->gateway,
        .source = STR("device"),
        .document = p->document,
        .credentials = p->credentials,
    };

    making->at_n = moment_format((int64_t)loop_wall_ms(), making->at);
    request.at = (struct str){making->at, making->at_n};
    ASSERT(registry_request_write(&request, &making->text) == E_OK);
    making->write = (struct table_write){.mail = {.on_mail = on_written},
                                         .home = making->provisioner->home,
                                         .partition_key = REGISTRY_PARTITION_KEY,
                                         .request = buf_str(&making->text)};
    table_write(making->provisioner->table, &making->write);
}

void registry_provision_take(void *context, struct provision *p)
{
    struct registry_provisioner *r = context;
    struct making *making = mem_alloc_zero(MEM_REGISTRY, sizeof *making);

    making->provisioner = r;
    making->provision = p;
    making->mail.on_mail = on_taken;
    mailbox_post(r->home, &making->mail);
}
