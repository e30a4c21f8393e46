/* key_table_files.c - every kind of file that the program reads, in the order in which a reference lists them. */
#include "models/input/key_table.h"

const struct file_spec *const file_specs[] = {
    &experiment_file, &topology_file, &device_file, &transformer_file, &implementation_file, &bounds_file, NULL,
};
