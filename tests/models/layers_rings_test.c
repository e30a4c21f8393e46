/* Rings of the dp x cp ranks: where each node has several of them, every ring stays in the node but for one hop, which
 * joins equal places of two nodes; every member is in each ring once; and a node's members send out of it, together,
 * what one member sends in all, as rings of NCCL's do, one through each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/layers_scene.h"

#define RANKS_MAX 256

static uint64_t gpu_of(const struct layers_scene *s, uint32_t instance)
{
    const struct experiment *e = &s->experiment;
    const struct instance *self = &s->ensemble.instances[instance];
    uint32_t tp = e->degree[PARALLEL_TP];
    uint32_t cp_index = s->schedule.index_of_rank ? s->schedule.index_of_rank[self->rank] : self->rank;
    uint64_t index[PARALLEL_DIMENSIONS], gpu = 0, stride = 1;
    index[PARALLEL_TP] = self->group % tp;
    index[PARALLEL_CP] = cp_index;
    index[PARALLEL_DP] = self->group / tp;
    for (int i = 0; i < PARALLEL_DIMENSIONS; i++) {
        gpu += stride * index[e->order[i]];
        stride *= e->degree[e->order[i]];
    }
    return gpu;
}

/* The messages of the first sum of gradients. */
struct ring {
    uint32_t next[RANKS_MAX]; /* [instance] */
    uint64_t bytes;
    bool used;
};

static void find_rings(const struct layers_scene *s, struct ring rings[2])
{
    memset(rings, 0, 2 * sizeof *rings);
    for (uint32_t i = 0; i < s->ensemble.n_instances; i++) {
        const struct program *program = ensemble_program(&s->ensemble, i);
        const struct collective *first = NULL;
        for (uint32_t c = 0; c < program->n_collectives && !first; c++)
            if (program->collectives[c].stream == STREAM_REDUCTION)
                first = &program->collectives[c];
        assert_non_null(first);
        uint32_t n = 0;
        for (uint32_t op = first->first_op; op < first->end_op; op++) {
            if (program->ops[op].kind != OP_SEND)
                continue;
            struct activity other = ensemble_other_end(&s->ensemble, (struct activity){i, op});
            const struct op *receive = &ensemble_program(&s->ensemble, other.instance)->ops[other.op];
            assert_int_equal(receive->bytes, program->ops[op].bytes);
            assert_int_equal(receive->traffic, TRAFFIC_WEIGHT_GRADIENT);
            assert_true(n < 2);
            rings[n].next[i] = other.instance;
            rings[n].bytes = program->ops[op].bytes;
            rings[n++].used = true;
        }
    }
}

/* Members that following the ring from `start` finds; it must come back. */
static uint32_t length_of(const struct layers_scene *s, const struct ring *ring, uint32_t start)
{
    bool seen[RANKS_MAX] = {false};
    uint32_t length = 0, at = start;
    do {
        assert_false(seen[at]);
        seen[at] = true;
        at = ring->next[at];
        length++;
        assert_true(length <= s->ensemble.n_instances);
    } while (at != start);
    return length;
}

/* How many of the members of an instance's team are in its node. */
static uint32_t members_in_node(const struct layers_scene *s, uint32_t instance, uint64_t node)
{
    uint32_t tp = s->experiment.degree[PARALLEL_TP], count = 0;
    for (uint32_t i = 0; i < s->ensemble.n_instances; i++)
        count += s->ensemble.instances[i].group % tp == s->ensemble.instances[instance].group % tp &&
                 gpu_of(s, i) / node == gpu_of(s, instance) / node;
    return count;
}

static uint64_t gradient_bytes(const struct layers_scene *s)
{
    const struct program *program = &s->programs[0];
    for (uint32_t i = 0; i < program->n_ops; i++) {
        uint64_t bytes = 0;
        if (program->ops[i].kind != OP_SEND || program->ops[i].stream != STREAM_REDUCTION)
            continue;
        for (uint32_t r = 0; r < program->ops[i].n_reads; r++)
            bytes += program->buffers[program_reads(program, &program->ops[i])[r]].bytes;
        return bytes;
    }
    return 0;
}

static void check_rings(const struct layers_scene *s, uint64_t node, bool several, const char *what)
{
    struct ring rings[2];
    find_rings(s, rings);
    uint32_t members = s->experiment.degree[PARALLEL_CP] * s->experiment.degree[PARALLEL_DP];
    uint64_t data = gradient_bytes(s), sent = (data + members - 1) / members * (members - 1) * 2;
    assert_int_equal(rings[0].bytes + rings[1].bytes, sent);
    if (rings[1].used != several)
        fail_msg("%s: %s", what, several ? "one ring over all" : "several rings");
    for (uint32_t i = 0; i < s->ensemble.n_instances; i++) {
        uint32_t tp = s->experiment.degree[PARALLEL_TP], group = s->ensemble.instances[i].group;
        for (int r = 0; r < 1 + several; r++) /* same tp index */
            assert_int_equal(s->ensemble.instances[rings[r].next[i]].group % tp, group % tp);
        if (!several) {
            assert_int_equal(length_of(s, &rings[0], i), members);
            continue;
        }
        uint32_t width = members_in_node(s, i, node), inside = rings[0].next[i], across = rings[1].next[i];
        if (gpu_of(s, i) / node != gpu_of(s, inside) / node)
            fail_msg("%s: GPU %u passes on to %u, in another node", what, (unsigned)gpu_of(s, i),
                     (unsigned)gpu_of(s, inside));
        assert_int_equal(length_of(s, &rings[0], i), width);
        if (gpu_of(s, i) / node == gpu_of(s, across) / node || gpu_of(s, i) % node != gpu_of(s, across) % node)
            fail_msg("%s: GPU %u leaves its node for %u", what, (unsigned)gpu_of(s, i), (unsigned)gpu_of(s, across));
        assert_int_equal(length_of(s, &rings[1], i), members / width);
        assert_int_equal(rings[1].bytes, (sent + width - 1) / width); /* out of a node: `sent`, by `width` members */
    }
}

static void rings_stay_in_nodes(void **state)
{
    (void)state;
    static const struct {
        const char *parallel;
        uint64_t node;
        bool several;
    } cases[] = {
        {"cp = 8", 8, false}, /* one node */
        {"cp = 8", 4, true},
        {"cp = 8\ntp = 2", 8, true},
        {"cp = 8\ntp = 2", 2, false}, /* a member a node */
        {"cp = 4\ndp = 2", 2, true},
        {"cp = 4\ndp = 2", 4, true},
        {"cp = 4\ndp = 2\ntp = 2", 4, true},
        {"cp = 1\ndp = 8\ntp = 2", 8, true},
        {"cp = 1\ndp = 8", 8, false},
        {"cp = 1\ndp = 8", 2, true},
        {"cp = 2\ndp = 8", 8, true}, /* node > cp: blocks of dp indices */
        {"cp = 2\ndp = 8\ntp = 2", 8, true},
        {"cp = 2\ndp = 4\ntp = 4", 16, true},
        {"cp = 3\ndp = 4", 6, true},
        {"cp = 6\ndp = 2", 3, true},
        {"cp = 6\ndp = 2", 4, false},                          /* nodes that the layout does not fit */
        {"cp = 8\ntp = 2\ndp = 2\norder = tp,dp,cp", 8, true}, /* dp inside, cp divided */
        {"cp = 8\ntp = 2\ndp = 4\norder = tp,dp,cp", 8, true}, /* dp inside */
        {"cp = 4\ntp = 2\ndp = 8\norder = tp,dp,cp", 8, true}, /* dp divided among nodes */
        {"cp = 1\ntp = 2\ndp = 8\norder = tp,dp,cp", 8, true},
        {"cp = 2\ntp = 2\ndp = 4\norder = dp,tp,cp", 4, true}, /* tp between */
        {"cp = 2\ntp = 2\ndp = 4\norder = dp,tp,cp", 8, true},
        {"cp = 4\ntp = 2\ndp = 4\norder = cp,tp,dp", 8, true}, /* each node has one dp index only */
        {"cp = 4\ntp = 2\ndp = 4\norder = cp,tp,dp", 4, true},
        {"cp = 4\ntp = 2\ndp = 4\norder = cp,tp,dp", 16, true},
        {"cp = 4\ntp = 2\ndp = 4\norder = cp,dp,tp", 8, true},
        {"cp = 4\ntp = 4\ndp = 2\norder = dp,cp,tp", 4, true},
        {"cp = 4\ndp = 4", 0, false}, /* not known */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct layers_scene s;
        char *what = memory_format("nodes of %u, %s", (unsigned)cases[i].node, cases[i].parallel);
        const struct layers_question q = {
            .workload = "seq_len = 48\nscope = layer", .parallel = cases[i].parallel, .node_gpus = cases[i].node};
        layers_ask(&s, &q);
        check_rings(&s, cases[i].node, cases[i].several, what);
        layers_expect_proved(&s, what);
        layers_scene_fini(&s);
        free(what);
    }
}

/* Ranks that do not sit in their order: rings follow the GPUs. */
static void rings_follow_gpus_not_ranks(void **state)
{
    (void)state;
    static const uint32_t indices[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    struct layers_scene s;
    const struct layers_question q = {.workload = "seq_len = 48\nscope = layer", .parallel = "cp = 8\ndp = 2"};
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(layers_try(&s, &q, &diag));
    s.schedule.index_of_rank = memory_zeroed(8, sizeof *s.schedule.index_of_rank);
    memcpy(s.schedule.index_of_rank, indices, sizeof indices);
    layers_scene_build(&s, 4);
    check_rings(&s, 4, true, "permuted");
    layers_expect_proved(&s, "permuted");
    layers_scene_fini(&s);
    diagnostics_fini(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_stay_in_nodes),
        cmocka_unit_test(rings_follow_gpus_not_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
