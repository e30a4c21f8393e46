/* cuda_errors.h - the numbers of the CUDA runtime's errors (driver_types.h) that the emulation gives and tests expect.
 */
#ifndef CPSIM_TESTS_GPU_CUDA_ERRORS_H
#define CPSIM_TESTS_GPU_CUDA_ERRORS_H

enum error {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONFIGURATION = 9,
    INVALID_PITCH = 12,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_FAILURE = 719,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_MERGE = 902,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907,
};

#endif
