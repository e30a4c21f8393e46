/* verify_problem.h - what verifying in full and on samples share; for verify*.c only. */
#ifndef CPSIM_HW_VERIFY_VERIFY_PROBLEM_H
#define CPSIM_HW_VERIFY_VERIFY_PROBLEM_H

#include "hw/verify/verify.h"
#include "kernels/reference.h"

/* The problem with its batch as so many more heads: [row][batch * heads][dim]. */
struct problem {
    const struct verify_input *input;
    struct reference_shape shape;
    uint64_t first_query; /* the position of the first query: those before are cached keys */
    enum dtype dtype;
    bool train;
    struct verification *out;
};

bool output_is_of_keys(enum output output);                                   /* its rows are keys */
size_t problem_head_width(const struct problem *problem, enum output output); /* numbers of one head */
size_t problem_row_width(const struct problem *problem, enum output output);  /* of all heads */

/* What part of an output a rank has: rows, and of the heads (batch * heads) some that follow each other. */
struct owned {
    struct block block;
    size_t first_head, heads;
};
struct owned problem_owned(const struct problem *problem, uint32_t rank, bool keys);
/* The position of a row of the block, counted from its first. */
uint64_t owned_position(const struct schedule *schedule, const struct owned *owned, uint64_t row);

double root_mean_square(const double *values, size_t count);

void check_note_worst(struct tensor_check *check, uint32_t rank, uint64_t position);

/* Compares one row; errors are measured by its largest number, at least by `floor`. `got` NULL: nothing was put out. */
void tensor_check_row(struct tensor_check *check, uint32_t rank, uint64_t position, const float *got,
                      const double *expected, size_t count, double floor);

/* Compares one row (or a head of it) of `output`; `got` NULL: nothing was put out. `floor`: at least the error's scale.
 */
void problem_compare(const struct problem *problem, enum output output, uint32_t rank, uint64_t position,
                     const float *got, const double *expected, size_t count, double floor);

void verify_samples(const struct problem *problem);

#endif
