/* measured_device.h - what a measured run ran on, and in what state its GPUs were: in JSON and in the table. */
#ifndef CPSIM_CLI_MEASURED_DEVICE_H
#define CPSIM_CLI_MEASURED_DEVICE_H

#include "cli/measured.h"

/* Different GPUs that the ranks compute on. */
uint32_t measured_gpus(const struct measurement *m);

/* Whether steps were also timed with clocks on every operation, which costs time itself. */
bool measured_is_timed_twice(const struct measurement *m);

json_t *measured_device_to_json(const struct measured_run *run);

/* How ranks used GPUs, if in a way of its own, and two lines for each GPU; or nothing. */
void measured_write_gpus(const struct measured_run *run, FILE *stream);

#endif
