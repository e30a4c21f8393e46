/* measure.h - how long a schedule takes on this hardware: one verified run, warm-up, then iterations of three kinds.
 *
 * Each iteration runs the programs three times: with both messages and computing, only computing, only messages. What
 * the first takes beyond the second is exposed communication; what the second and third take in sum beyond the first
 * was hidden; how much slower kernels are beside messages is contention, which is something else than waiting. The
 * three take turns, each iteration beginning with another one, so that drift of the machine hits them alike.
 *
 * On an asynchronous backend the clocks that tell when each operation ran cost time themselves. So these three runs are
 * bare, and an iteration has two more, with both and only computing, that are traced: the times of steps are those of
 * the bare runs, what is known of single operations (timeline, compute times, contention, skew) those of the traced. A
 * serial run is always traced, and its times are composed (composed_timeline.h).
 */
#ifndef CPSIM_HW_MEASURE_H
#define CPSIM_HW_MEASURE_H

#include "hw/gpu_watch.h"
#include "hw/hardware.h"
#include "hw/machine.h"
#include "models/result/report.h"

#define MEASURE_ITERATIONS 10 /* unless asked otherwise */
#define MEASURE_WARMUP 2
#define MEASURE_TIMES_MAX 100000 /* of either */

/* Of the iterations: the middle one (the lower of two) and the 10th and 90th percentile, each a value that occurred. */
struct spread {
    double median, low, high;
};

/* Whether overlap_efficiency says anything. The runs contradict each other when computing and messages together took
 * longer than one after the other, or less than the longer of them alone, by more than iterations differ. */
enum overlap_verdict {
    OVERLAP_RESOLVED,
    OVERLAP_NOTHING,       /* there are no messages, or no computing */
    OVERLAP_ONE_ITERATION, /* which does not say how much iterations differ */
    OVERLAP_NOISE,         /* iterations differ by more than there is to hide */
    OVERLAP_CONTRADICTED,
};

/* Sorts `values` (at least one). */
struct spread spread_of(double *values, size_t count);

struct measure_settings {
    struct hardware *hardware;
    const struct schedule *schedule;
    bool seed_given; /* else rank 0 draws one */
    uint64_t seed;
    uint32_t iterations, warmup;
    void (*progress)(void *context, double share); /* NULL: not called */
    void *progress_context;
};

struct measurement {
    uint64_t seed; /* of the inputs */
    uint32_t iterations, warmup, n_ranks;
    struct machine *machines; /* [rank] */
    struct gpu_record *gpus;  /* [rank]: its GPU's state while iterations were timed */
    uint32_t cores;           /* that the ranks may use, all hosts together */
    bool oversubscribed;      /* a rank had no core, or no GPU, of its own: the times say nothing about the hardware */
    bool refused;             /* not enough memory, or ranks were given different options: nothing was run */
    struct verification verification;
    struct hardware_run run; /* traced, with messages and computing: the one that took the median time */
    bool asynchronous;       /* the times of steps are those of bare runs */
    bool composed;           /* the times are those that ranks would take with a device each */
    struct spread traced;    /* step seconds of traced runs; else the same as `step` */
    double tracing_overhead; /* traced / step - 1, of the medians */
    struct spread step, phases[PHASE_COUNT];
    struct spread compute_only, messages_only; /* step seconds of the other two kinds */
    struct spread skew[PHASE_COUNT];           /* from the first rank's last operation to the last one's */
    struct spread *rank_compute;               /* [rank]: seconds in local operations */
    struct spread *rank_compute_only;          /* the same without messages */
    double exposed_seconds;                    /* step - compute_only, not below 0 */
    double overlap_efficiency;                 /* report.h, of the medians; 0 to 1, 0 without anything to hide */
    enum overlap_verdict overlap;
    double contention;          /* sum over ranks of rank_compute over that of rank_compute_only; 1 without compute */
    double clock_error_seconds; /* moments of different ranks are comparable but for so much */
};

/* Measures. False, with messages, when a rank failed or there is not enough memory: then there is nothing to report. A
 * verification that failed has put its messages into `diag` and is in the result. The caller calls measurement_fini in
 * any case. */
bool measure(struct measurement *measurement, const struct measure_settings *settings, struct diagnostics *diag);
void measurement_fini(struct measurement *measurement);

/* For report_init; what is not resolved is no number there. */
struct measured_times measurement_times(const struct measurement *measurement);

/* Holds what the executors counted, memory and traffic, against the report made from the programs. False with a message
 * for each rank that differs. */
bool measure_check_account(const struct measurement *measurement, const struct report *report,
                           struct diagnostics *diag);

#endif
