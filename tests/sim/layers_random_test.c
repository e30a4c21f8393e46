/* Random layers and steps around every algorithm: what is accepted is proved and comes to its end, folded equals whole
 * in both engines, on clusters whose nodes give them rings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/checker.h"
#include "models/schedule/layers/layers_checker.h"
#include "tests/random_layers.h"
#include "tests/sim/random_pair.h"

#ifdef __SANITIZE_ADDRESS__
#define PROVED 10 /* of each algorithm */
#define COMPARED 1
#else
#define PROVED 60
#define COMPARED 4
#endif

/* True if the experiment was accepted. */
static bool draw(struct dice *dice, const char *algorithm, uint32_t ranks_max, struct pair *pair)
{
    bool even = draw_experiment(dice, algorithm, ranks_max, pair);
    if (!random_layers(dice, &pair->experiment)) {
        random_experiment_fini(&pair->experiment);
        return false;
    }
    if (!draw_schedule(pair))
        return false;
    find_machine(dice, pair, even);
    return true;
}

static void prove(struct pair *pair)
{
    struct diagnostics diag;
    char what[2048];
    diagnostics_init(&diag);
    random_layers_describe(&pair->experiment, what, sizeof what);
    struct program *attention = schedule_build_attention(&pair->schedule);
    bool good =
        checker_check(&pair->schedule, attention, &diag) && layers_prove(&pair->schedule, pair->programs, &diag);
    schedule_free_programs(&pair->schedule, attention);
    struct ensemble ensemble;
    good =
        good && ensemble_init(&ensemble, pair->programs, pair->schedule.ranks, layers_layout(&pair->schedule), &diag);
    if (good) {
        ensemble_set_replicas(&ensemble);
        struct execution *execution = execution_of(&ensemble);
        struct activity activity;
        while (execution_next(execution, &activity))
            execution_finish(execution, activity);
        if (!execution_done(execution))
            execution_explain(execution, &diag);
        execution_destroy(execution);
        ensemble_fini(&ensemble);
    }
    if (diag.count) {
        diagnostics_print(&diag, stderr, "  ");
        fail_msg("%s, nodes of %u", what, (unsigned)pair->schedule.node_gpus);
    }
    diagnostics_fini(&diag);
}

static void random_layers_are_proved_and_fold(void **state)
{
    (void)state;
    unsigned in_nodes = 0, folded = 0;
    for (size_t a = 0; algorithms[a]; a++) {
        if (!(algorithms[a]->can & CAN_TRAIN) || algorithms[a]->replicates_queries)
            continue;
        struct dice dice = {.state = 11 + a};
        unsigned proved = 0, compared = 0, tried = 0;
        for (; (proved < PROVED || compared < COMPARED) && tried < 60 * PROVED; tried++) {
            struct pair pair;
            if (!draw(&dice, algorithms[a]->name, proved % 8 ? 5 : 12, &pair))
                continue;
            pair.schedule.node_gpus = topology_node_gpus(&pair.topology);
            in_nodes += pair.schedule.node_gpus > 1;
            pair.programs = schedule_build_all(&pair.schedule);
            pair.period = schedule_period(&pair.schedule);
            random_layers_describe(&pair.experiment, pair.what, sizeof pair.what);
            prove(&pair);
            proved++;
            uint32_t *degree = pair.experiment.degree;
            if (compared < COMPARED && degree[0] * degree[1] * degree[2] <= 24 && pair_fold(&pair) && is_quick(&pair)) {
                compare(&pair);
                folded += pair.folding.ensemble.n_instances < pair.whole.n_instances;
                compared++;
            }
            pair_fini(&pair);
        }
        if (proved < PROVED || compared < COMPARED)
            fail_msg("%s: %u proved, %u compared", algorithms[a]->name, proved, compared);
    }
    print_message("%u with nodes, %u folded\n", in_nodes, folded);
    assert_true(in_nodes > PROVED && folded > COMPARED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_layers_are_proved_and_fold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
