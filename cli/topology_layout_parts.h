/* topology_layout_parts.h - what the files that make a layout share: measures in pixels, folding, graphs. */
#ifndef CPSIM_CLI_TOPOLOGY_LAYOUT_PARTS_H
#define CPSIM_CLI_TOPOLOGY_LAYOUT_PARTS_H

#include "cli/topology_layout.h"

#define LAYOUT_GPU 28.0 /* side of a GPU */
#define LAYOUT_PADDING 16.0
#define LAYOUT_SWITCH 30.0 /* height of a switch */

/* Decides how much of the whole is drawn. */
void layout_fold(struct topology_layout *layout, const struct topology *whole);
/* Whether a drawn member stands for those that are left out. */
bool layout_is_gap(const struct topology_layout *layout, uint32_t k, uint64_t member);
/* Torus or dragonfly: members are folded along each dimension. */
bool layout_has_dimensions(const struct level *level);

/* Places a graph's GPUs and switches. */
void layout_place_graph(struct topology_layout *layout);

#endif
