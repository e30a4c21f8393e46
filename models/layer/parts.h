/* parts.h - what a transformer is made of, for counts by part.
 *
 * models/layer is arithmetic: parameters, FLOPs, activation bytes and utilization of a struct transformer that
 * transformer_is_complete and transformer_check have accepted. Pure functions: no program, no device, no time.
 */
#ifndef CPSIM_MODELS_LAYER_PARTS_H
#define CPSIM_MODELS_LAYER_PARTS_H

#include "models/input/step.h"

#endif
