/* plain_buffer.h - a buffer by its most common fields, for programs made by hand. */
#ifndef CPSIM_TESTS_MODELS_PLAIN_BUFFER_H
#define CPSIM_TESTS_MODELS_PLAIN_BUFFER_H

#include "models/schedule/program.h"

static inline uint32_t plain_buffer(struct program *program, struct lanes lanes, const char *name, enum tensor tensor,
                                    enum dtype dtype, enum buffer_role role, uint64_t rows, uint64_t bytes)
{
    struct buffer buffer = {.tensor = (uint8_t)tensor,
                            .dtype = (uint8_t)dtype,
                            .role = (uint8_t)role,
                            .rows = rows,
                            .bytes = bytes,
                            .lanes = lanes};
    return program_add_buffer(program, name, buffer);
}

#endif
