/* rank_reports.h - the ranks of a report: what each did and when. */
#ifndef CPSIM_MODELS_RESULT_RANK_REPORTS_H
#define CPSIM_MODELS_RESULT_RANK_REPORTS_H

#include "models/result/report.h"

/* Fills in report->ranks, of which there are report->n_ranks. Where the step's figures alone are wanted (report_input)
 * most ranks have only the seconds that they compute, and NaN for their other times. False, with messages, when times
 * contradict each other or a rate is above the device's peak. */
bool rank_reports_fill(struct report *report, const struct report_input *input, struct diagnostics *diag);

/* The index of the rank with the least idle time. Equal ranks differ by rounding: the first of them is taken. NaN is
 * not known, and more than of some other. */
uint32_t rank_reports_critical(const struct report *report);

#endif
