/* plot_run.h - the plots of one run, one file each, and the titles that they share. */
#ifndef CPSIM_CLI_PLOT_RUN_H
#define CPSIM_CLI_PLOT_RUN_H

#include "cli/plots.h"

void plot_timeline(const struct prediction *prediction, const struct plot_target *target, int width, FILE *stream);
void plot_memory(const struct prediction *prediction, const struct plot_target *target, int width, FILE *stream);
void plot_time(const struct prediction *prediction, const struct plot_target *target, int width, FILE *stream);

/* "llama3-8b bf16, 1,048,576 tokens, ... on dgx-h100-4": the question, behind `lead`. */
void plot_run_title(const struct prediction *prediction, const char *lead, char *text, size_t size);
/* "Step 1.230 s; on its critical rank 5: compute 1.100 s, exposed communication 100.0 ms (8.1%), idle 30.00 ms". */
void plot_run_answer(const struct prediction *prediction, char *text, size_t size);

#endif
