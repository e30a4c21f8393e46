/* options_table.h - the options as argp has them: keys, names, arguments, help; and the texts around them. */
#ifndef CPSIM_CLI_OPTIONS_TABLE_H
#define CPSIM_CLI_OPTIONS_TABLE_H

#include <argp.h>

enum option_key {
    OPTION_SET = 0x100,
    OPTION_WITHOUT,
    OPTION_NO_FOLD,
    OPTION_VALIDATE,
    OPTION_SWEEP,
    OPTION_ENGINE,
    OPTION_JSON,
    OPTION_CSV,
    OPTION_TRACE,
    OPTION_PLOT,
    OPTION_SCRIPT,
    OPTION_DETAILS,
    OPTION_QUIET,
    OPTION_EVENTS,
    OPTION_CHECK,
    OPTION_PATH,
    OPTION_LIST,
    OPTION_HW,
    OPTION_TRANSPORT,
    OPTION_COMPUTE,
    OPTION_COLLECTIVES,
    OPTION_ITERATIONS,
    OPTION_WARMUP,
    OPTION_SEED,
    OPTION_GPU,
    OPTION_KERNELS,
    OPTION_DETERMINISTIC,
    OPTION_SERIAL,
    OPTION_GRAPH,
    OPTION_NCCL,
    OPTION_NCCL_CTAS,
    OPTION_NCCL_ZERO_CTA,
    OPTION_NCCL_REGISTERED,
    OPTION_NCCL_SELF,
    OPTION_CALIBRATE,
    OPTION_RANKS,
    OPTION_QUICK,
    OPTION_KERNEL_TIMES,
    OPTION_COMPARE,
    OPTION_COMPARE_ALGORITHMS,
    OPTION_SENSITIVITY,
    OPTION_EXPLAIN,
    OPTION_ADVISE,
    OPTION_VARY,
    OPTION_FIX,
    OPTION_GPUS,
    OPTION_BEST,
    OPTION_EXHAUSTIVE,
    OPTION_LONGEST,
    OPTION_OPERATIONS,
    OPTION_RESUME,
    OPTION_POINTS,
    OPTION_JOBS = 'j',
    OPTION_SHORT_HELP = 'h',
};

extern const struct argp_option options_table[]; /* all 0 behind the last */
extern const char options_forms[];               /* what may be typed, a form a line */
extern const char options_description[];         /* before the options, and behind '\v' after them */

#endif
