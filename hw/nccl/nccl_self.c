/* nccl_self.c - a blocking communicator: there is nobody to wait for. */
#include "hw/nccl/nccl_self.h"

#include <stdlib.h>

#include "hw/nccl/nccl_library.h"
#include "models/base/memory.h"

struct nccl_self {
    struct nccl_library library;
    const struct compute_ops *ops;
    struct compute *compute;
    void *comm;
    char *failure; /* the first, or NULL */
};

static bool check(struct nccl_self *self, int result, int line, const char *what)
{
    if (result == NCCL_DONE)
        return true;
    const char *more = self->library.last_error(self->comm);
    if (!self->failure)
        self->failure = memory_format("%s (%s:%d): NCCL %s says: %s (error %d)%s%s", what, __FILE__, line,
                                      self->library.version_text, self->library.error_text(result), result,
                                      more && *more ? ": " : "", more ? more : "");
    return false;
}
#define CHECK(self, call, what) check(self, call, __LINE__, what)

static bool make_communicator(struct nccl_self *self, const struct transport_settings *settings)
{
    struct nccl_id id;
    struct nccl_config config = nccl_config_of(settings);
    config.blocking = 1;
    nccl_choose_device(self->ops, self->compute);
    return CHECK(self, self->library.get_id(&id), "making an id for a communicator") &&
           CHECK(self, self->library.comm_init(&self->comm, 1, id, 0, &config), "making a communicator of one rank");
}

static void close_self(void *context)
{
    struct nccl_self *self = context;
    if (self->comm && self->failure)
        (void)self->library.comm_abort(self->comm);
    else if (self->comm)
        (void)self->library.comm_destroy(self->comm); /* what was measured stands */
    free(self->failure);
    free(self);
}

static void send_and_receive(struct nccl_self *self, enum stream stream, const struct local_run *run)
{
    void *native = self->ops->queues->native(self->compute, stream);
    if (CHECK(self, self->library.send(run->source, run->bytes, NCCL_INT8, 0, self->comm, native),
              "sending to oneself"))
        CHECK(self, self->library.receive(run->target, run->bytes, NCCL_INT8, 0, self->comm, native),
              "receiving from oneself");
}

static const char *move(void *context, enum stream stream, const struct local_run *runs, uint32_t n_runs)
{
    struct nccl_self *self = context;
    int state = NCCL_DONE;
    if (self->failure || !CHECK(self, self->library.group_start(), "beginning a group"))
        return self->failure;
    for (uint32_t i = 0; i < n_runs && !self->failure; i++)
        send_and_receive(self, stream, &runs[i]);
    if (CHECK(self, self->library.group_end(), "queueing a group") &&
        CHECK(self, self->library.comm_state(self->comm, &state), "asking for errors of a communicator"))
        CHECK(self, state, "moving data within a GPU");
    return self->failure;
}

bool nccl_self_open(struct local_mover *mover, const struct compute_ops *ops, struct compute *compute,
                    const struct transport_settings *settings, struct diagnostics *diag)
{
    struct nccl_self *self = memory_zeroed(1, sizeof *self);
    self->ops = ops;
    self->compute = compute;
    *mover =
        (struct local_mover){.version = self->library.version_text, .move = move, .close = close_self, .context = self};
    if (nccl_library_open(&self->library, settings->library, diag) &&
        nccl_settings_check(&self->library, settings, diag)) {
        if (make_communicator(self, settings))
            return true;
        diagnostics_add(diag, "%s", self->failure);
    }
    close_self(self);
    return false;
}
