/* measured.h - one question answered by doing it: the schedule run on this machine, verified and measured.
 *
 * The answer is a prediction like any other (topology, device and cost aside) with `measured` set, so that every writer
 * takes it. Under an MPI launcher each process makes one, and one of them speaks for all.
 */
#ifndef CPSIM_CLI_MEASURED_H
#define CPSIM_CLI_MEASURED_H

#include <jansson.h>
#include <stdio.h>

#include "cli/prediction.h"
#include "hw/hardware.h"
#include "hw/measure.h"

struct measured_question {
    struct question question; /* without a topology */
    struct hardware_settings
        hardware; /* without the schedule; compute NULL: a GPU where one can run it, else the CPU */
    uint32_t iterations, warmup;
    bool seed_given;
    uint64_t seed;
};

struct measured_run {
    struct prediction prediction;
    struct hardware_settings settings; /* that it runs with */
    struct hardware *hardware;
    struct measurement measurement;
    bool reported;  /* there is something to write */
    char note[320]; /* why it runs on the CPU, where GPUs are looked for; "": nothing to tell */
};

/* Runs and measures. Where it is PREDICTION_DONE, or the verification failed (PREDICTION_FAILED), `reported` is set.
 * Then the messages are printed, if this process speaks, and measured_run_fini is called, in this order: the other
 * processes wait for it. */
enum prediction_status measured_run_make(struct measured_run *run, const struct measured_question *question,
                                         struct diagnostics *diag);
void measured_run_fini(struct measured_run *run);

/* Whether this process is to print anything at all. */
bool measured_run_speaks(const struct measured_run *run);

/* For a question that could not even be read, `diag` saying why: makes a run that speaks once for all processes. */
void measured_run_refuse(struct measured_run *run, struct diagnostics *diag);

/* The kernels that ran: a CPU's instruction set, or the family of a GPU's. */
const char *measured_kernels(const struct measured_run *run);

/* The parts of cpsim.run/1 that a prediction has otherwise ("topology") or not at all ("device", "verification",
 * "timing"). */
json_t *measured_topology_to_json(const struct measured_run *run);
struct json_writer;
void measured_run_write_json(const struct measured_run *run, struct json_writer *writer);

/* The parts of the table that a prediction has otherwise or not at all. */
void measured_write_machine(const struct measured_run *run, FILE *stream);
void measured_write_verification(const struct measured_run *run, FILE *stream);
void measured_write_overlap(const struct measured_run *run, FILE *stream);
void measured_write_timing(const struct measured_run *run, const bool *shown, FILE *stream);

#endif
