/* topology_layout.h - where everything of a cluster stands in its drawing.
 *
 * A large cluster is folded: of a level with many members the first are drawn, a mark for those left out and the last.
 * What is drawn is thus a smaller topology of the same kinds, whose links have the same ends and classes. If even that
 * has many GPUs, the first member of each level is drawn open, with all that is in it, and the others closed.
 *
 * Positions are in pixels from the left and from the top.
 */
#ifndef CPSIM_CLI_TOPOLOGY_LAYOUT_H
#define CPSIM_CLI_TOPOLOGY_LAYOUT_H

#include "cli/check_topology.h"
#include "models/input/link_ends.h"

struct layout_box {
    double x, y, width, height; /* of its upper left corner */
};

enum layout_shown {
    SHOWN_HIDDEN, /* inside something closed; the box is a point where its cables may end */
    SHOWN_OPEN,
    SHOWN_CLOSED,
    SHOWN_GAP /* stands for those that are left out */
};

struct layout_item {
    struct layout_box box;
    enum layout_shown shown;
};

struct topology_layout {
    const struct topology *whole;
    struct topology drawn; /* the whole, or one of fewer members, whose nodes and links are all alike; owns nothing */
    bool folded;           /* it has fewer */
    uint32_t torus_gap[LEVELS_MAX][TORUS_DIMENSIONS_MAX]; /* coordinate that stands for a gap; UINT32_MAX: none */
    uint32_t gap[LEVELS_MAX];                             /* likewise a member */
    bool all_open;
    struct layout_item *gpus;                  /* of the drawn topology, by place */
    struct layout_item *instances[LEVELS_MAX]; /* per level */
    struct layout_box *switches[LEVELS_MAX];   /* of each open instance of a level that has one; of a graph, of each
                                                  switch, at level 0 */
    double width, height;
};

void topology_layout_make(struct topology_layout *layout, const struct topology *whole);
void topology_layout_fini(struct topology_layout *layout);

/* The place in the whole cluster of what is at `place` here, and the number there of instance `number` of `level`. */
uint64_t topology_layout_place(const struct topology_layout *layout, uint64_t place);
uint64_t topology_layout_instance(const struct topology_layout *layout, uint32_t level, uint64_t number);

/* The rail of the whole that rail `lane` of a level here is, or stands for; UINT64_MAX: several, or what is left out.
 */
uint64_t topology_layout_lane(const struct topology_layout *layout, uint32_t level, uint64_t lane);

/* What is in the whole cluster at the end of a cable here; false where that is of what is left out. Levels only. */
bool topology_layout_end(const struct topology_layout *layout, struct link_end end, struct link_end *whole);

/* How many members an instance of the level has, less those that are drawn. */
uint64_t topology_layout_left_out(const struct topology_layout *layout, uint32_t level);

/* Where member `member` of a ring or torus is along each dimension, of a dragonfly in which group and which in it;
 * returns how many dimensions. */
uint32_t topology_layout_coordinates(const struct level *level, uint64_t member, uint32_t at[TORUS_DIMENSIONS_MAX]);

#endif
