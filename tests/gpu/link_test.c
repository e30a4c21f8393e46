/* A program with the CUDA kernels in it starts on any machine, with or without a driver, and is told what is missing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/runtime.h"

/* Whether a file whose path has `name` in it is mapped into this process. */
static bool is_loaded(const char *name)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    bool loaded = false;
    char line[1024];
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        loaded = loaded || strstr(line, name);
    fclose(maps);
    return loaded;
}

/* First of all: later calls may load the driver, where there is one. */
static void neither_driver_nor_cxx_library_is_linked(void **state)
{
    (void)state;
    assert_false(is_loaded("libcuda.so"));
    assert_false(is_loaded("libcudart.so"));
    assert_false(is_loaded("libstdc++"));
}

static void a_missing_gpu_is_an_error_with_a_name(void **state)
{
    (void)state;
    void *memory = NULL;
    if (cuda_devices(NULL, 0) > 0)
        skip();
    const int error = cuda_allocate(&memory, 256);
    assert_int_not_equal(error, 0);
    assert_true(strlen(cuda_error_text(error)) > 5);
    struct cuda_array array = {&memory, {1, 1}, DTYPE_FP32};
    assert_int_not_equal(cuda_raise((struct cuda_extent){1, 1, 1, 1}, array, array, NULL), 0);
}

static void cpsim_starts(void **state)
{
    (void)state;
    assert_int_equal(system(CPSIM_COMMAND " --version >/dev/null"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neither_driver_nor_cxx_library_is_linked),
        cmocka_unit_test(a_missing_gpu_is_an_error_with_a_name),
        cmocka_unit_test(cpsim_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
