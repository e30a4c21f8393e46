/* hardware_parts.h - what the hardware's files share; for them only. */
#ifndef CPSIM_HW_HARDWARE_PARTS_H
#define CPSIM_HW_HARDWARE_PARTS_H

#include "hw/hardware.h"
#include "hw/rank_devices.h"
#include "hw/rank_programs.h"

struct hardware {
    const struct schedule *schedule;
    double stall_seconds;
    const struct transport_ops *transport;
    const struct compute_ops *compute_ops;
    struct transport **ends;
    uint32_t n_ends, first_rank, ranks; /* of the run: rank_programs.h */
    int *devices;                       /* [n_ends] */
    struct compute **computes;          /* [n_ends] */
    struct executor **executors;        /* [n_ends] */
    struct hardware_settings settings;
    struct rank_source *sources; /* [n_ends]; NULL: buffers are in the backend's own memory */
    struct collective_plan plan;
    struct rank_calls **calls; /* [n_ends]; NULL: collectives are messages */
    struct turns turns;
    struct recording recording; /* if there are graphs */
    struct program *programs;   /* of all ranks */
    struct execution *execution;
};

#endif
