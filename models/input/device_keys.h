/* device_keys.h - the sections of a device profile, as key tables; key_table.h names them all together. */
#ifndef CPSIM_MODELS_INPUT_DEVICE_KEYS_H
#define CPSIM_MODELS_INPUT_DEVICE_KEYS_H

#include "models/input/device.h"
#include "models/input/key_table.h"

extern const struct section_spec device_section, device_steps_section; /* of a struct device */
extern const struct section_spec device_attention_section;             /* of a struct attention_table */
extern const struct section_spec device_product_section;               /* of a struct product_table */

#endif
