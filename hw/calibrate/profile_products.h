/* profile_products.h - the [product DTYPE] sections of a measured profile, and what they make of what they do not hold.
 */
#ifndef CPSIM_HW_CALIBRATE_PROFILE_PRODUCTS_H
#define CPSIM_HW_CALIBRATE_PROFILE_PRODUCTS_H

#include <stdio.h>

#include "hw/calibrate/calibrate.h"

/* A busy machine gives any times: of those that a larger product did not exceed none is written. */
void profile_write_products(const struct calibration *calibration, FILE *stream);

/* What the model says of every measured product, from the profile as it was read back. The spread grows to the mean
 * error of those that the table does not hold. False with messages when the profile lacks a table. */
bool profile_foretell_products(struct calibration *calibration, const struct device *device, struct diagnostics *diag);

#endif
