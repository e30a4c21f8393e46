/* Experiments: which values and combinations are taken, and which are refused with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <string.h>

#include "tests/models/experiment_texts.h"

static void a_model_is_a_preset_or_a_shape(void **state)
{
    (void)state;
    assert_false(READ(base, "model.q_heads=8", "model.name=mine"));
    EXPECT_LINES(&diag, "--set model.name=mine: 'name' beside preset = llama3-8b, expected either a preset or a shape",
                 "--set model.q_heads=8: 'q_heads' beside preset = llama3-8b, expected either a preset or a shape");
    refused(base, "model.preset=llama3-8B", "unknown preset 'llama3-8B', did you mean 'llama3-8b'?");
    refused(base, "model.preset=gpt",
            "unknown preset 'gpt', expected gpt3-175b, llama2-7b, llama3-405b, llama3-70b, llama3-8b, megatron-175b, "
            "megatron-1t, megatron-22b, megatron-530b, mistral-7b, qwen2.5-72b or qwen2.5-7b");
    refused(small, "model.mlp=swiglu", "'mlp' is 'swiglu', expected gated or plain");
    assert_false(READ(small, "model.layers=65536", "model.hidden=16777216", "model.ffn=16777216"));
    EXPECT_LINES(&diag,
                 "--set model.layers=65536: 'layers' = 65536 of this shape have more parameters than 63 bits can "
                 "count, expected a smaller model");
    assert_false(READ(base, "model.mlp=plain"));
    EXPECT_LINES(&diag, "--set model.mlp=plain: 'mlp' beside preset = llama3-8b, expected either a preset or a shape");
    assert_false(
        READ("[model]\nkv_heads = 2\n[workload]\nseq_len = 4\n[parallel]\ncp = 2\n[schedule]\nalgorithm = x\n"));
    EXPECT_LINES(&diag, "e.ini:1: [model] has no key 'q_heads', expected q_heads, kv_heads and head_dim, or a preset",
                 "e.ini:1: [model] has no key 'head_dim', expected q_heads, kv_heads and head_dim, or a preset");
    refused(small, "model.kv_heads=4", "'kv_heads' = 4 does not divide q_heads = 6, expected a divisor");
    refused(small, "model.q_heads=0", "'q_heads' is '0', expected 1 to 65536");
    refused(small, "model.dtype=BF16", "'dtype' is 'BF16', did you mean 'bf16'?");
}

static void numbers_are_read_whole(void **state)
{
    (void)state;
    static const char *const bad[] = {"128KiB", "1e6", "0x80", "8 8", "+8", "-8", "8.0", "8x", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char override[64], message[128];
        snprintf(override, sizeof override, "workload.seq_len=%s", bad[i]);
        snprintf(message, sizeof message, "'seq_len' is '%s', expected a whole number such as 131072 or 128Ki", bad[i]);
        refused(base, override, message);
    }
    ACCEPTED(base, "workload.seq_len=128k");
    assert_int_equal(experiment.seq_len, 128000);
    experiment_fini(&experiment);
    refused(base, "workload.seq_len=0", "'seq_len' is '0', expected 1 to 2147483648");
    refused(base, "workload.seq_len=4Gi", "'seq_len' is '4Gi', expected 1 to 2147483648");
    refused(base, "parallel.cp=0", "'cp' is '0', expected 1 to 1048576");
    refused(base, "schedule.buffers=0", "'buffers' is '0', expected 1 to 65536");
    refused(base, "schedule.kv_messages=3", "'kv_messages' is '3', expected 1 or 2");
    refused(base, "workload.pass=backward", "'pass' is 'backward', expected forward or train");
}

static void masks_are_read_and_refused(void **state)
{
    (void)state;
    ACCEPTED(small, "workload.mask=documents:1, 2*2 ,1");
    assert_int_equal(experiment.mask.kind, MASK_DOCUMENTS);
    assert_int_equal(experiment.mask.n_documents, 4);
    static const uint64_t starts[] = {0, 1, 3, 5, 6};
    assert_memory_equal(experiment.mask.document_starts, starts, sizeof starts);
    experiment_fini(&experiment);
    ACCEPTED(small, "workload.mask=full");
    assert_int_equal(experiment.mask.kind, MASK_FULL);
    experiment_fini(&experiment);
    ACCEPTED(small, "workload.mask=window:4Ki");
    assert_int_equal(experiment.mask.window, 4096);
    experiment_fini(&experiment);

    refused(
        small, "workload.mask=casual",
        "'mask' is 'casual', expected full | causal | window:4096 | documents:4096*32,1024, did you mean 'causal'?");
    refused(small, "workload.mask=sparse",
            "'mask' is 'sparse', expected full | causal | window:4096 | documents:4096*32,1024");
    static const char *const windows[] = {"window", "window:", "window:0", "window:-1", "window:3 4", "windw:3"};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        char override[64], message[128];
        snprintf(override, sizeof override, "workload.mask=%s", windows[i]);
        snprintf(message, sizeof message,
                 "'mask' is '%s', expected window:N with N keys from 1 to 2147483648, such as window:4096", windows[i]);
        refused(small, override, message);
    }
    static const char *const lists[] = {"documents",           "documents:",
                                        "documents:3,",        "documents:0,6",
                                        "documents:3;3",       "documents:3*",
                                        "documents:*3",        "documents:3*0,6",
                                        "documents:1*2*3",     "documents:3 3",
                                        "documents:1*2097152", "documents:1Gi*3",
                                        "documents:-3,9",      "documents:1*99999999999999999999"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char override[64], message[256];
        snprintf(override, sizeof override, "workload.mask=%s", lists[i]);
        snprintf(message, sizeof message,
                 "'mask' is '%s', expected lengths of 1 or more that sum to seq_len, at most 1048576 of them, such as "
                 "documents:4096*32,1024",
                 lists[i]);
        refused(small, override, message);
    }
    refused(small, "workload.mask=documents:4,3", "'mask' documents sum to 7, expected seq_len = 6");
}

static void zigzag_needs_two_equal_chunks_a_rank(void **state)
{
    (void)state;
    static const struct {
        const char *seq_len, *cp, *message;
    } cases[] = {
        {"2999", "4",
         "'seq_len' = 2999 with cp = 4 and zigzag, expected a multiple of 2 x cp = 8, the nearest: 2992 or 3000"},
        {"3004", "4",
         "'seq_len' = 3004 with cp = 4 and zigzag, expected a multiple of 2 x cp = 8, the nearest: 3000 or 3008"},
        {"1000003", "8",
         "'seq_len' = 1000003 with cp = 8 and zigzag, expected a multiple of 2 x cp = 16, the nearest: 1000000 or "
         "1000016"},
        {"4", "4", "'seq_len' = 4 with cp = 4 and zigzag, expected a multiple of 2 x cp = 8, the nearest: 8"},
        {"1", "1", "'seq_len' = 1 with cp = 1 and zigzag, expected a multiple of 2 x cp = 2, the nearest: 2"},
        {"2147483647", "3",
         "'seq_len' = 2147483647 with cp = 3 and zigzag, expected a multiple of 2 x cp = 6, the nearest: 2147483646"},
    };
    assert_false(READ(small, "workload.seq_len=10", "workload.new_tokens=7", "workload.pass=forward",
                      "schedule.sharding=zigzag"));
    EXPECT_LINES(&diag,
                 "--set workload.new_tokens=7: 'new_tokens' = 7 with cp = 2 and zigzag, expected a multiple of 2 "
                 "x cp = 4, the nearest: 4 or 8");
    assert_false(READ(small, "workload.new_tokens=5", "workload.pass=forward", "schedule.sharding=zigzag"));
    EXPECT_LINES(&diag,
                 "--set workload.new_tokens=5: 'new_tokens' = 5 with cp = 2 and zigzag, expected a multiple of 2 "
                 "x cp = 4, the nearest: 4"); /* not 8 of 6 positions */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char seq_len[64], cp[64], expected[256];
        snprintf(seq_len, sizeof seq_len, "workload.seq_len=%s", cases[i].seq_len);
        snprintf(cp, sizeof cp, "parallel.cp=%s", cases[i].cp);
        snprintf(expected, sizeof expected, "--set %s: %s", seq_len, cases[i].message);
        assert_false(READ(small, seq_len, cp, "schedule.sharding=zigzag"));
        EXPECT_LINES(&diag, expected);
        ACCEPTED(small, seq_len, cp); /* contiguous takes any length */
        experiment_fini(&experiment);
        ACCEPTED(small, seq_len, cp, "schedule.sharding=striped");
        experiment_fini(&experiment);
    }
    ACCEPTED(small, "workload.seq_len=3000", "parallel.cp=4", "schedule.sharding=zigzag");
    experiment_fini(&experiment);
}

static void explicit_counts_cover_the_sequence(void **state)
{
    (void)state;
    ACCEPTED(small, "schedule.sharding=2,4");
    assert_int_equal(experiment.sharding, SHARDING_EXPLICIT);
    assert_int_equal(experiment.shard_counts[0], 2);
    assert_int_equal(experiment.shard_counts[1], 4);
    experiment_fini(&experiment);
    ACCEPTED(small, "parallel.cp=4", "schedule.sharding=2*3,0");
    assert_int_equal(experiment.shard_counts[2], 2);
    assert_int_equal(experiment.shard_counts[3], 0);
    experiment_fini(&experiment);
    refused(small, "schedule.sharding=2,3", "'sharding' counts sum to 5, expected seq_len = 6");
    refused(small, "schedule.sharding=1,2,3", "'sharding' has 3 counts, expected one a rank: cp = 2");
    refused(small, "schedule.sharding=zigzg",
            "'sharding' is 'zigzg', expected contiguous | zigzag | striped | per-document | one count a rank such as "
            "2,3 or "
            "1024*31,1000, did you mean 'zigzag'?");
    refused(
        small, "schedule.sharding=2,,4",
        "'sharding' is '2,,4', expected contiguous | zigzag | striped | per-document | one count a rank such as 2,3 or "
        "1024*31,1000");
}

static void layouts_are_judged(void **state)
{
    (void)state;
    refused(small, "parallel.tp=4",
            "'tp' = 4 does not divide q_heads = 6 and kv_heads = 2, expected a divisor of both, nearest: 2");
    refused(small, "parallel.tp=3",
            "'tp' = 3 does not divide q_heads = 6 and kv_heads = 2, expected a divisor of both, nearest: 2");
    static const char *const orders[] = {"tp,cp", "tp,cp,cp", "tp,cp,dp,", "tp cp dp", "a,b,c", "tp,cp,dpx", ",,"};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        char override[64], message[128];
        snprintf(override, sizeof override, "parallel.order=%s", orders[i]);
        snprintf(message, sizeof message, "'order' is '%s', expected each of tp, cp and dp once, such as tp,cp,dp",
                 orders[i]);
        refused(small, override, message);
    }
    assert_false(READ(small, "parallel.cp=1Mi", "parallel.dp=1Mi"));
    EXPECT_LINES(&diag, "--set parallel.cp=1Mi: tp x cp x dp = 1099511627776 ranks, expected at most 2147483647");
}

static void rings_are_judged(void **state)
{
    (void)state;
    static const char *const words[] = {"natural", "node-major", "rail", "snake"}; /* as enum ring_kind */
    for (int i = 0; i < 4; i++) {
        char override[64];
        snprintf(override, sizeof override, "parallel.ring=%s", words[i]);
        ACCEPTED(small, override);
        assert_int_equal(experiment.ring, i);
        experiment_fini(&experiment);
    }
    ACCEPTED(small, "parallel.ring=1,0");
    assert_int_equal(experiment.ring, RING_EXPLICIT);
    experiment_fini(&experiment);
    refused(small, "parallel.ring=0", "'ring' has 1 indices, expected each of 0 to cp - 1 = 1 once");
    refused(small, "parallel.ring=0,1,0", "'ring' has 0 twice, expected each of 0 to cp - 1 = 1 once");
    refused(small, "parallel.ring=1*2", "'ring' has 1 twice, expected each of 0 to cp - 1 = 1 once");
    refused(small, "parallel.ring=1,2", "'ring' has 2, expected each of 0 to cp - 1 = 1 once");
    refused(small, "parallel.ring=snak",
            "'ring' is 'snak', expected natural | node-major | rail | snake | each cp "
            "index once such as 0,2,1,3, did you mean 'snake'?");
    refused(small, "parallel.ring=0,,1",
            "'ring' is '0,,1', expected natural | node-major | rail | snake | each cp "
            "index once such as 0,2,1,3");
}

static void sizes_that_overflow_are_refused_and_large_ones_are_not(void **state)
{
    (void)state;
    ACCEPTED(base, "workload.seq_len=2Gi", "parallel.cp=16384"); /* far beyond anything planned */
    experiment_fini(&experiment);
    ACCEPTED(base, "workload.seq_len=10485760");
    experiment_fini(&experiment);
    assert_false(READ(base, "workload.seq_len=2Gi", "workload.batch=1Mi"));
    EXPECT_LINES(
        &diag, "--set workload.seq_len=2Gi: 'seq_len' = 2147483648 with batch = 1048576, q_heads = 32, kv_heads = 8, "
               "head_dim = 128, cp = 8 and dp = 1 moves more bytes than 63 bits can count, expected a smaller product");
}

/* A step in which nearly every key has an effect because of what others say. */
static const char step[] = "[model]\npreset = llama3-8b\ndtype = bf16\n"
                           "[workload]\nscope = model\nseq_len = 4Ki\npass = train\nmask = documents:2Ki*2\n"
                           "[parallel]\ncp = 2\ntp = 2\ndp = 2\n"
                           "[schedule]\nalgorithm = ring\nsharding = per-document\n"
                           "[step]\nsequence_parallel = no\nrecompute = full\nzero = 1\nweight_gradients = model\n"
                           "bucket = 2\noptimizer = adam\nloss = fused\nloss_chunks = 2\nmicro_batches = 2\n";

/* The same as above without one line, which `text` takes the place of. */
static char *step_with(const char *line, const char *text)
{
    const char *at = strstr(step, line);
    assert_non_null(at);
    return memory_format("%.*s%s%s", (int)(at - step), step, text, at + strlen(line));
}

static void what_follows_from_a_wrong_value_is_not_held_against_other_keys(void **state)
{
    (void)state;
    static const struct {
        const char *line, *wrong, *message;
    } cases[] = {
        {"scope = model\n", "scope = xyz\n", "5: 'scope' is 'xyz', expected attention, layer or model"},
        {"scope = model\n", "scoep = model\n", "5: unknown key 'scoep' in [workload], did you mean 'scope'?"},
        {"scope = model\n", "scope model\n",
         "5: 'scope model' is neither a section nor a key, expected [section] or "
         "key = value"},
        {"pass = train\n", "pass = xyz\n", "7: 'pass' is 'xyz', expected forward or train"},
        {"mask = documents:2Ki*2\n", "mask = xyz\n",
         "8: 'mask' is 'xyz', expected full | causal | window:4096 | documents:4096*32,1024"},
        {"mask = documents:2Ki*2\n", "msk = documents:2Ki*2\n",
         "8: unknown key 'msk' in [workload], did you mean 'mask'?"},
        {"seq_len = 4Ki\n", "seq_len = xyz\n",
         "6: 'seq_len' is 'xyz', expected a whole number such as 131072 or 128Ki"},
        {"seq_len = 4Ki\n", "seqlen = 4Ki\n", "6: unknown key 'seqlen' in [workload], did you mean 'seq_len'?"},
        {"preset = llama3-8b\n", "preset = llama3-9b\n", "2: unknown preset 'llama3-9b', did you mean 'llama3-8b'?"},
        {"preset = llama3-8b\n", "prest = llama3-8b\n", "2: unknown key 'prest' in [model], did you mean 'preset'?"},
        {"preset = llama3-8b\n",
         "q_heads = 8\nkv_heads = 8\nhead_dim = 8\nlayers = xyz\nhidden = 64\nffn = 8\nvocab = 8\n",
         "5: 'layers' is 'xyz', expected a whole number such as 131072 or 128Ki"},
        {"dtype = bf16\n", "dtype = xyz\n", "3: 'dtype' is 'xyz', expected fp64, fp32, bf16, fp16 or fp8"},
        {"cp = 2\n", "cp = xyz\n", "10: 'cp' is 'xyz', expected a whole number such as 131072 or 128Ki"},
        {"tp = 2\n", "ttp = 2\n", "11: unknown key 'ttp' in [parallel], did you mean 'tp'?"},
        {"dp = 2\n", "dp = xyz\n", "12: 'dp' is 'xyz', expected a whole number such as 131072 or 128Ki"},
        {"zero = 1\n", "zero = xyz\n", "19: 'zero' is 'xyz', expected a whole number such as 131072 or 128Ki"},
        {"sharding = per-document\n", "sharding = xyz\n",
         "15: 'sharding' is 'xyz', expected contiguous | zigzag | striped | per-document | one count a rank such as "
         "2,3 "
         "or 1024*31,1000"},
        {"algorithm = ring\n", "algoritm = ring\n",
         "14: unknown key 'algoritm' in [schedule], did you mean 'algorithm'?"},
    };
    ACCEPTED(step);
    experiment_fini(&experiment);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = step_with(cases[i].line, cases[i].wrong), *message = memory_format("e.ini:%s", cases[i].message);
        assert_false(READ(text));
        EXPECT_LINES(&diag, message);
        free(message);
        free(text);
    }
    assert_false(READ(small, "workload.new_tokens=xyz", "workload.pass=forward", "workload.seq_len=7",
                      "schedule.sharding=zigzag"));
    EXPECT_LINES(&diag,
                 "--set workload.new_tokens=xyz: 'new_tokens' is 'xyz', expected a whole number such as 131072 or "
                 "128Ki");
    assert_false(READ(small, "workload.new_tokens=2", "workload.pas=forward"));
    EXPECT_LINES(&diag, "--set workload.pas=forward: unknown key 'pas' in [workload], did you mean 'pass'?");
}

static void one_wrong_value_does_not_hide_what_does_not_follow_from_it(void **state)
{
    (void)state;
    assert_false(READ(step, "workload.scope=layer", "workload.pass=xyz", "parallel.tp=1"));
    EXPECT_LINES(&diag, "--set workload.pass=xyz: 'pass' is 'xyz', expected forward or train",
                 "e.ini:17: 'sequence_parallel' has no effect with tp = 1, expected no such key",
                 "e.ini:22: 'optimizer' has no effect with scope = layer, expected no such key",
                 "e.ini:23: 'loss' has no effect with scope = layer, expected no such key",
                 "e.ini:24: 'loss_chunks' has no effect with scope = layer, expected no such key");
}

static void all_errors_of_a_file_come_in_one_go(void **state)
{
    (void)state;
    assert_false(READ("[model]\n"
                      "preset = llama3-9b\n"
                      "dtype = bf61\n"
                      "[workload]\n"
                      "seq_len = 128KiB\n"
                      "seq_len = 4\n"
                      "bacth = 2\n"
                      "[paralel]\n"
                      "cp = 2\n"
                      "[schedule]\n"
                      "overlap = true\n"
                      "buffers 3\n"));
    EXPECT_LINES(&diag, "e.ini:6: 'seq_len' a second time in [workload], expected once (first on line 5)",
                 "e.ini:12: 'buffers 3' is neither a section nor a key, expected [section] or key = value",
                 "e.ini:8: unknown section [paralel], did you mean 'parallel'?",
                 "e.ini:3: 'dtype' is 'bf61', did you mean 'bf16'?",
                 "e.ini:5: 'seq_len' is '128KiB', expected a whole number such as 131072 or 128Ki",
                 "e.ini:7: unknown key 'bacth' in [workload], did you mean 'batch'?",
                 "e.ini:11: 'overlap' is 'true', expected no or yes",
                 "e.ini:2: unknown preset 'llama3-9b', did you mean 'llama3-8b'?");
    assert_false(READ("[model]\npreset = llama3-8b\n[workload]\nbatch = 2\n"));
    EXPECT_LINES(&diag, "e.ini: no section [parallel], expected one", "e.ini: no section [schedule], expected one",
                 "e.ini:3: [workload] has no key 'seq_len', expected a count such as 131072 or 128Ki");
    assert_false(READ(""));
    assert_int_equal(diag.count, 4);
    diagnostics_fini(&diag);
    assert_false(experiment_read(&experiment, "/nowhere/e.ini", NULL, 0, &diag));
    EXPECT_LINES(&diag, "/nowhere/e.ini: cannot be read: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_a_preset_or_a_shape),
        cmocka_unit_test(numbers_are_read_whole),
        cmocka_unit_test(masks_are_read_and_refused),
        cmocka_unit_test(zigzag_needs_two_equal_chunks_a_rank),
        cmocka_unit_test(explicit_counts_cover_the_sequence),
        cmocka_unit_test(layouts_are_judged),
        cmocka_unit_test(rings_are_judged),
        cmocka_unit_test(sizes_that_overflow_are_refused_and_large_ones_are_not),
        cmocka_unit_test(what_follows_from_a_wrong_value_is_not_held_against_other_keys),
        cmocka_unit_test(one_wrong_value_does_not_hide_what_does_not_follow_from_it),
        cmocka_unit_test(all_errors_of_a_file_come_in_one_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
