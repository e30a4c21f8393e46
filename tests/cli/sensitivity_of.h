/* sensitivity_of.h - for tests: the sensitivity of a prediction given as text. Include after cmocka.h. */
#ifndef CPSIM_TESTS_CLI_SENSITIVITY_OF_H
#define CPSIM_TESTS_CLI_SENSITIVITY_OF_H

#include "cli/sensitivity.h"
#include "tests/predict.h"

/* Frees both texts. The caller calls sensitivity_fini. */
static inline void sensitivity_of(struct sensitivity *sensitivity, char *topology, char *experiment,
                                  mechanism_set without, const struct engine_ops *engine)
{
    char *topology_path = temporary_file(topology), *experiment_path = temporary_file(experiment);
    const struct question question = {
        .topology_path = topology_path, .experiment_path = experiment_path, .engine = engine, .without = without};
    struct diagnostics diag;
    diagnostics_init(&diag);
    enum prediction_status status = sensitivity_run(sensitivity, &question, 2, &diag);
    diagnostics_print(&diag, stderr, "");
    assert_int_equal(status, PREDICTION_DONE);
    diagnostics_fini(&diag);
    unlink(topology_path);
    unlink(experiment_path);
    free(topology_path);
    free(experiment_path);
    free(topology);
    free(experiment);
}

#endif
