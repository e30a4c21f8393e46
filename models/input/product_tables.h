/* product_tables.h - the [product DTYPE] sections of a device profile. */
#ifndef CPSIM_MODELS_INPUT_PRODUCT_TABLES_H
#define CPSIM_MODELS_INPUT_PRODUCT_TABLES_H

#include "models/input/device.h"
#include "models/input/ini_document.h"

/* Reads them all into `device`, of which the path and the peak are known. */
bool product_tables_read(struct device *device, const struct ini_document *document, struct diagnostics *diag);
void product_tables_fini(struct device *device);

/* What no product of the table exceeds: its peak, or the device's if it is of 16-bit types; 0: not stated. */
double product_table_peak(const struct device *device, const struct product_table *table);

#endif
