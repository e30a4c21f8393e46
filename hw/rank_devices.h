/* rank_devices.h - how backend and transport of an asynchronous run go together: which device each rank takes, what the
 * transport is told, and where buffers come from if it is to know them.
 */
#ifndef CPSIM_HW_RANK_DEVICES_H
#define CPSIM_HW_RANK_DEVICES_H

#include "hw/hardware.h"

/* Whether backend, transport and settings go together at all. False with messages. */
bool rank_devices_check(const struct hardware_settings *settings, const struct compute_ops *compute,
                        const struct transport_ops *transport, struct diagnostics *diag);

/* The device of the rank at `end`: the one asked for, or that of its place on its host, counted round. False with a
 * message. */
bool rank_device(const struct hardware_settings *settings, const struct compute_ops *compute,
                 const struct transport_ops *transport, struct transport *end, int *device, struct diagnostics *diag);

/* Bit s is set if a rank has messages in stream s. */
uint32_t rank_devices_streams(const struct program *programs, uint32_t n_programs);

/* Memory of a rank's buffers from its transport. */
struct rank_source {
    struct memory_source source;
    const struct transport_ops *transport;
    struct transport *end; /* NULL once it is closed, which gave back all of its memory */
};

void rank_source_init(struct rank_source *source, const struct transport_ops *transport, struct transport *end);

/* Prepares the transport for the backends of all ranks of this process, at once. False with messages. */
bool rank_devices_attach(const struct hardware_settings *settings, const struct compute_ops *ops,
                         struct compute **backends, const struct transport_ops *transport, struct transport **ends,
                         uint32_t n_ends, uint32_t streams, struct diagnostics *diag);

#endif
