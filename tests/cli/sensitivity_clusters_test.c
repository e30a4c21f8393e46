/* Elasticities to what clusters of every kind are made of: a machine faster in everything is as much faster, also where
 * some of its links and GPUs are not like the others; and what is the only bottleneck has the whole slope. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "cli/sensitivity.h"
#include "tests/cli/sensitivity_of.h"

#define NODE "[level node]\nsize = 4\nkind = switch\nbandwidth = 60 GB/s\nlatency = 2 us\n"
#define NET "[level net]\nsize = 2\nkind = switch\nbandwidth = 20 GB/s\nlatency = 5 us\n"

/* Eight ranks, nothing hidden. */
static void run(struct sensitivity *sensitivity, const char *cluster, const struct engine_ops *engine)
{
    const struct toy toy = {8, 8, 64, 8192, "full", "forward", 8, "algorithm = ring\noverlap = no"};
    sensitivity_of(sensitivity, memory_format("[cluster]\ndevice = toy\n%s", cluster), toy_experiment(&toy), 0, engine);
}

/* NULL if there is no such constant. */
static const struct sensitivity_row *row_of(const struct sensitivity *sensitivity, const char *name)
{
    for (size_t i = 0; i < sensitivity->n_rows; i++)
        if (strcmp(sensitivity->rows[i].constant->name, name) == 0)
            return &sensitivity->rows[i];
    return NULL;
}

static const char *const clusters[] = {
    NODE NET "uplinks = 3\nattach = node\n",
    NODE "[level net]\nsize = 2\nkind = switch\nattach = node\noversubscription = 2:1\nlatency = 5 us\nuplinks = 2\n"
         "routing = adaptive\n",
    "[level node]\nsize = 4\nsizes = 4, 2, 4\nkind = switch\nbandwidth = 60 GB/s\nlatency = 2 us\n"
    "[level net]\nsize = 3\nkind = switch\nnics = 2\ncross_rail = nvlink\nbandwidth = 20 GB/s\nlatency = 5 us\n",
    "[level fly]\nsize = 8\nkind = dragonfly:4x2\nbandwidth = 20 GB/s\nlatency = 3 us\n",
    "[level fly]\nsize = 8\nkind = dragonfly:4x2\nbandwidth = 20 GB/s\nlatency = 3 us\nglobal_bandwidth = 7 GB/s\n"
    "global_latency = 8 us\n[override a]\nlink = fly: gpu 1 to *\nfactor = 0.5\n",
    NODE NET "[override a]\nlink = net: gpu 3 up\nfactor = 0.4\n[override b]\nlink = net: gpu 7 *\nbandwidth = 3 GB/s\n"
             "latency = 90 us\n[override c]\ngpu = 2, 5-6\nspeed = 0.3\n",
    "[link gpu0 s]\nbandwidth = 9 GB/s\nlatency = 1 us\n[link gpu1 s]\nbandwidth = 8 GB/s\nlatency = 2 us\n"
    "[link gpu2 s]\nbandwidth = 9 GB/s\nlatency = 1 us\n[link gpu3 s]\nbandwidth = 9 GB/s\nlatency = 1 us\n"
    "[link s t]\nbandwidth = 9 GB/s\nlatency = 1 us\nclass = far\ncount = 2\n"
    "[link gpu4 t]\nbandwidth = 9 GB/s\nlatency = 1 us\n[link gpu5 t]\nbandwidth = 9 GB/s\nlatency = 1 us\n"
    "[link gpu6 t]\nbandwidth = 9 GB/s\nlatency = 1 us\n[link gpu7 t]\nbandwidth = 9 GB/s\nlatency = 1 us\n"
    "[override a]\nlink = far: *\nfactor = 0.5\n[override b]\nlink = link: gpu 2 to s\nlatency = 20 us\n",
};

static void a_cluster_faster_in_everything_is_as_much_faster(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof clusters / sizeof *clusters; c++) {
        struct sensitivity sensitivity;
        run(&sensitivity, clusters[c], c % 2 ? &engine_simgrid : &engine_analytic);
        if (fabs(sensitivity.all.both + 1) > 1e-6 || fabs(sensitivity.sum + 1) > 0.01)
            fail_msg("all at once %g, sum %g: %s", sensitivity.all.both, sensitivity.sum, clusters[c]);
        sensitivity_fini(&sensitivity);
    }
}

/* The one slow link takes nearly all of the time: by its own bandwidth; or by its factor, and then by its level's
 * bandwidth as much. */
static void a_slow_links_slope_is_where_its_bandwidth_comes_from(void **state)
{
    (void)state;
    struct sensitivity sensitivity;
    run(&sensitivity, NODE NET "[override slow]\nlink = net: gpu 3 up\nbandwidth = 20 MB/s\n", &engine_analytic);
    assert_true(row_of(&sensitivity, "override slow.bandwidth")->elasticity.both < -0.99);
    assert_false(row_of(&sensitivity, "level net.bandwidth")->has_effect);
    assert_null(row_of(&sensitivity, "override slow.factor"));
    assert_null(row_of(&sensitivity, "override slow.latency"));
    sensitivity_fini(&sensitivity);

    run(&sensitivity, NODE NET "[override slow]\nlink = net: gpu 3 up\nfactor = 0.001\n", &engine_analytic);
    double factor = row_of(&sensitivity, "override slow.factor")->elasticity.both;
    assert_true(factor < -0.99 && fabs(factor - row_of(&sensitivity, "level net.bandwidth")->elasticity.both) < 1e-9);
    assert_int_equal(row_of(&sensitivity, "override slow.factor")->constant->kind, CONSTANT_SHARE);
    assert_null(row_of(&sensitivity, "override slow.bandwidth"));
    sensitivity_fini(&sensitivity);

    run(&sensitivity, NODE NET "[override lame]\ngpu = 0-7\nspeed = 0.001\n", &engine_analytic);
    double speed = row_of(&sensitivity, "override lame.speed")->elasticity.both;
    assert_true(speed < -0.99 && speed > -1.001);
    sensitivity_fini(&sensitivity);
}

/* A latency between groups is a constant where there are groups and it is said; else it goes with the others'. */
static void only_what_is_said_is_a_constant(void **state)
{
    (void)state;
    struct sensitivity sensitivity;
    run(&sensitivity, NODE NET, &engine_analytic);
    assert_null(row_of(&sensitivity, "level net.global_latency"));
    sensitivity_fini(&sensitivity);
    run(&sensitivity, clusters[3], &engine_analytic);
    assert_null(row_of(&sensitivity, "level fly.global_latency"));
    double together = row_of(&sensitivity, "level fly.latency")->elasticity.both;
    sensitivity_fini(&sensitivity);
    char *said = memory_format("%sglobal_latency = 3 us\n", clusters[3]);
    run(&sensitivity, said, &engine_analytic);
    double global = row_of(&sensitivity, "level fly.global_latency")->elasticity.both;
    assert_true(global > 0);
    assert_true(fabs(global + row_of(&sensitivity, "level fly.latency")->elasticity.both - together) < 1e-6);
    sensitivity_fini(&sensitivity);
    free(said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cluster_faster_in_everything_is_as_much_faster),
        cmocka_unit_test(a_slow_links_slope_is_where_its_bandwidth_comes_from),
        cmocka_unit_test(only_what_is_said_is_a_constant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
