/* main.c - the cpsim command: what was asked for, done (command.h), and its exit status.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/options.h"

static int run_mode(const struct options *options, struct diagnostics *diag)
{
    switch (options->mode) {
    case COMMAND_PREDICT:
        return command_predict(options, diag);
    case COMMAND_SWEEP:
        return command_sweep(options, diag);
    case COMMAND_ALGORITHMS:
        return command_algorithms(options, diag);
    case COMMAND_SENSITIVITY:
        return command_sensitivity(options, diag);
    case COMMAND_EXPLAIN:
        return command_explain(options, diag);
    case COMMAND_ADVISE:
        return command_advise(options, diag);
    case COMMAND_LONGEST:
        return command_longest(options, diag);
    case COMMAND_EVENTS:
        return command_events(options, diag);
    case COMMAND_HARDWARE:
        return command_hardware(options, diag);
    case COMMAND_CALIBRATE:
        return command_calibrate(options, diag);
    case COMMAND_CHECK:
        return command_check(options, diag);
    case COMMAND_LIST:
        return command_list(options, diag);
    case COMMAND_COMPARE:
        return command_compare(options, diag);
    case COMMAND_VALIDATE:
        return command_validate(options, diag);
    }
    return EXIT_FAILED;
}

/* A file opened later must not take the place of a closed standard input, output or error, or its reader and writer
 * would be the wrong ones: a closed one gets a descriptor that fails. */
static void hold_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            break; /* as it was, then */
}

/* A reader that goes away and a file that may not grow make writing fail, which is told like any other reason why. */
static void take_write_errors(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

int main(int argc, char **argv)
{
    hold_standard_descriptors();
    take_write_errors();
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct options options;
    int exit_status =
        options_parse(&options, argc, argv, &diag) ? run_mode(&options, &diag) : command_refuse(&options, &diag);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (exit_status == EXIT_DONE) {
            diagnostics_add(&diag, "cannot write to standard output");
            exit_status = EXIT_FAILED;
        }
    }
    diagnostics_print(&diag, stderr, "cpsim: ");
    diagnostics_fini(&diag);
    options_fini(&options);
    return exit_status;
}
