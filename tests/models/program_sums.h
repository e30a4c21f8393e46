/* program_sums.h - for tests: what a program sends, computes and holds, as sums over its operations and buffers. */
#ifndef CPSIM_TESTS_MODELS_PROGRAM_SUMS_H
#define CPSIM_TESTS_MODELS_PROGRAM_SUMS_H

#include "models/schedule/lifetimes.h"
#include "models/schedule/program.h"

struct sent {
    uint64_t bytes[PHASE_COUNT][TRAFFIC_COUNT], messages[PHASE_COUNT][TRAFFIC_COUNT];
};

/* What `program` sends in one stream. */
static inline struct sent sent_in(const struct program *program, enum stream stream)
{
    struct sent sent = {0};
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (op->kind != OP_SEND || (stream != STREAM_COUNT && op->stream != stream))
            continue;
        sent.bytes[program_phase(program, i)][op->traffic] += op->bytes;
        sent.messages[program_phase(program, i)][op->traffic]++;
    }
    return sent;
}

/* What it sends in all. */
static inline struct sent sent_by(const struct program *program)
{
    return sent_in(program, STREAM_COUNT);
}

struct sums {
    uint64_t bytes, messages;
};

static inline struct sums sent_in_phase(const struct program *program, enum phase phase)
{
    struct sent sent = sent_by(program);
    struct sums sums = {0, 0};
    for (int traffic = 0; traffic < TRAFFIC_COUNT; traffic++) {
        sums.bytes += sent.bytes[phase][traffic];
        sums.messages += sent.messages[phase][traffic];
    }
    return sums;
}

/* Messages of a kind, of both phases. */
static inline struct sums sent_as(const struct program *program, enum traffic traffic)
{
    struct sent sent = sent_by(program);
    return (struct sums){sent.bytes[PHASE_FORWARD][traffic] + sent.bytes[PHASE_BACKWARD][traffic],
                         sent.messages[PHASE_FORWARD][traffic] + sent.messages[PHASE_BACKWARD][traffic]};
}

/* Messages of one tensor. */
static inline struct sums sent_of(const struct program *program, enum phase phase, enum tensor tensor)
{
    struct sums sums = {0, 0};
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (op->kind != OP_SEND || program_phase(program, i) != phase ||
            program->buffers[*program_reads(program, op)].tensor != tensor)
            continue;
        sums.bytes += op->bytes;
        sums.messages++;
    }
    return sums;
}

static inline uint64_t pairs_of(const struct program *program, enum op_kind kind)
{
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].kind == kind)
            pairs += program->ops[i].pairs;
    return pairs;
}

/* The same over all heads and batch items. */
static inline uint64_t lane_pairs_of(const struct program *program, enum op_kind kind)
{
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].kind == kind)
            pairs += program->ops[i].pairs * program->ops[i].lanes.heads * program->ops[i].lanes.items;
    return pairs;
}

static inline uint32_t count_ops(const struct program *program, enum phase phase, enum op_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->n_ops; i++)
        count += program->ops[i].kind == kind && program_phase(program, i) == phase;
    return count;
}

/* Bytes of all buffers of a role and tensor. */
static inline uint64_t bytes_held(const struct program *program, enum buffer_role role, enum tensor tensor)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < program->n_buffers; i++)
        if (program->buffers[i].role == role && program->buffers[i].tensor == tensor)
            bytes += program->buffers[i].bytes;
    return bytes;
}

/* The most bytes that live at one point of a phase: its high-water mark. */
static inline uint64_t peak_bytes(const struct program *program, enum phase phase)
{
    struct stream_order order;
    struct lifetimes lifetimes;
    stream_order_init(&order, program);
    lifetimes_init(&lifetimes, &order);
    uint32_t begin = lifetimes.phase_begin[phase],
             end = phase == PHASE_FORWARD ? lifetimes.phase_begin[PHASE_BACKWARD] : lifetimes.n_points;
    uint64_t most = 0;
    for (uint32_t point = begin; point < end; point++) {
        uint64_t bytes = 0;
        for (uint32_t b = 0; b < program->n_buffers; b++)
            for (int p = 0; p < PHASE_COUNT; p++)
                if (lifetimes.lives[b][p].born <= point && point < lifetimes.lives[b][p].dies)
                    bytes += program->buffers[b].bytes;
        most = bytes > most ? bytes : most;
    }
    lifetimes_fini(&lifetimes);
    stream_order_fini(&order);
    return most;
}

/* Of both phases. */
static inline uint64_t peak_bytes_of_step(const struct program *program)
{
    uint64_t forward = peak_bytes(program, PHASE_FORWARD), backward = peak_bytes(program, PHASE_BACKWARD);
    return forward > backward ? forward : backward;
}

#endif
