/* route.h - what route.c and link_names.c share beyond topology.h. */
#ifndef CPSIM_MODELS_INPUT_ROUTE_H
#define CPSIM_MODELS_INPUT_ROUTE_H

#include "models/input/topology.h"

/* Whether the link is the port of a GPU, or of a NIC or switch all of whose GPUs, that is not there. */
bool link_is_absent(const struct topology *topology, const struct link_place *at);

/* Whether the GPU at `place` is there and has a NIC of level k, which is a level of NICs. */
bool route_has_nic(const struct topology *topology, uint32_t k, uint64_t place);

#endif
