/* gpu_options.c - one table: an option's name, where it is kept, and what it needs to have an effect. */
#include "cli/gpu_options.h"

#include <inttypes.h>
#include <string.h>

/* What an option is about. */
enum need {
    NEEDS_GPU,    /* a backend with queues */
    NEEDS_SHARED, /* and all ranks in this process, on one GPU */
    NEEDS_NCCL,   /* and messages by NCCL */
    NEEDS_SELF,   /* and the transport by which all ranks share a GPU */
};

static const struct {
    const char *name;
    enum need need;
    bool for_runs;
} table[GPU_OPTIONS] = {
    {.name = "--gpu", .need = NEEDS_GPU},
    {.name = "--kernels", .need = NEEDS_GPU},
    {.name = "--deterministic", .need = NEEDS_GPU},
    {.name = "--serial", .need = NEEDS_SHARED, .for_runs = true},
    {.name = "--graph", .need = NEEDS_GPU, .for_runs = true},
    {.name = "--nccl", .need = NEEDS_NCCL},
    {.name = "--nccl-ctas", .need = NEEDS_NCCL},
    {.name = "--nccl-zero-cta", .need = NEEDS_NCCL},
    {.name = "--nccl-registered", .need = NEEDS_NCCL, .for_runs = true},
    {.name = "--nccl-self", .need = NEEDS_SELF, .for_runs = true},
};

const char *gpu_option_name(size_t option)
{
    return table[option].name;
}

/* What follows the option's name when it is typed: "", " N"; NULL: it is not set. */
static const char *value_of(const struct hardware_settings *settings, size_t option, char text[16])
{
    const struct compute_settings *kernels = &settings->kernels;
    const struct transport_settings *carrying = &settings->carrying;
    switch (option) {
    case 0:
        snprintf(text, 16, "%d", kernels->device);
        return kernels->device >= 0 ? text : NULL;
    case 1:
        return kernels->kernels;
    case 2:
        return kernels->deterministic ? "" : NULL;
    case 3:
        return settings->serial ? "" : NULL;
    case 4:
        return settings->graph ? "" : NULL;
    case 5:
        return carrying->library;
    case 6:
        snprintf(text, 16, "%" PRIu32, carrying->max_ctas);
        return carrying->max_ctas ? text : NULL;
    case 7:
        return carrying->zero_cta ? "" : NULL;
    case 8:
        return carrying->registered ? "" : NULL;
    default:
        return carrying->through_library ? "" : NULL;
    }
}

bool gpu_option_is_for_runs(size_t option)
{
    return table[option].for_runs;
}

bool gpu_option_is_set(const struct hardware_settings *settings, size_t option)
{
    char text[16];
    return value_of(settings, option, text);
}

bool gpu_options_check_compute(const struct hardware_settings *settings, const struct compute_ops *compute,
                               const char *why, struct diagnostics *diag)
{
    bool fine = true;
    for (size_t i = 0; i < GPU_OPTIONS && !compute->queues; i++)
        if (gpu_option_is_set(settings, i))
            fine = diagnostics_add(diag, "%s has no effect with compute '%s': it is for GPUs%s%s", table[i].name,
                                   compute->name, why ? ", but " : "", why ? why : "");
    const struct transport_ops *transport = settings->transport ? transport_find(settings->transport) : NULL;
    if (!compute->queues && transport && transport->one_rank_a_device)
        fine = diagnostics_add(diag, "--transport %s has no effect with compute '%s': it is for GPUs%s%s",
                               transport->name, compute->name, why ? ", but " : "", why ? why : "");
    return fine;
}

/* Why an option has no effect with the transport; NULL: it has. NCCL wants a GPU for each rank, and has one with
 * transports that do. */
static const char *idle_reason(const struct hardware_settings *settings, const struct transport_ops *transport,
                               enum need need)
{
    bool shared = !transport->one_rank_a_process && !transport->one_rank_a_device;
    if (need == NEEDS_SHARED && !shared)
        return "each rank has a GPU, or a process, of its own";
    if (need == NEEDS_SELF && !shared)
        return "it is for ranks that share one GPU";
    if (need == NEEDS_NCCL && !transport->one_rank_a_device && !settings->carrying.through_library)
        return "it does not use NCCL";
    return NULL;
}

bool gpu_options_check_transport(const struct hardware_settings *settings, const struct transport_ops *transport,
                                 struct diagnostics *diag)
{
    bool fine = true;
    for (size_t i = 0; i < GPU_OPTIONS; i++) {
        const char *reason = gpu_option_is_set(settings, i) ? idle_reason(settings, transport, table[i].need) : NULL;
        if (reason)
            fine = diagnostics_add(diag, "%s has no effect with transport '%s': %s", table[i].name, transport->name,
                                   reason);
    }
    return fine;
}

void gpu_options_print(const struct hardware_settings *settings, FILE *stream)
{
    for (size_t i = 0; i < GPU_OPTIONS; i++) {
        char text[16];
        const char *value = value_of(settings, i, text);
        if (value)
            fprintf(stream, " %s%s%s", table[i].name, *value ? " " : "", value);
    }
}
