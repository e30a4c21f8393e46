/* local_times.h - what the operations of every shape take where they run, whichever the links. */
#ifndef CPSIM_SIM_LOCAL_TIMES_H
#define CPSIM_SIM_LOCAL_TIMES_H

#include "models/cost/cost.h"
#include "models/schedule/ensemble.h"

struct local_times {
    uint32_t users; /* who have to release them */
    uint32_t n_shapes;
    double **seconds; /* [shape][op]: local operations */
    double **issue; /* [shape][op]: when the host has issued it, from the first on; [shape] NULL: it takes no time to */
    double *computed; /* [shape]: all operations of its compute streams together */
    bool issues;      /* any issue is not NULL */
};

/* For one user. */
struct local_times *local_times_create(const struct ensemble *ensemble, const struct cost *cost);
/* A user less: the last one frees them. */
void local_times_release(struct local_times *times);

#endif
