/* overrides.h - single links, GPUs and NICs that are not like the others: [override NAME].
 *
 * An override says which links by a name as topology_link_name gives it, or by a pattern of such names (* stands for
 * any text, ? for any character), and what their bandwidth (or the factor by which it differs) and latency are; or that
 * they are of a NIC that is missing: both directions, all its links. A message whose GPU's NIC is missing goes, inside
 * the node, to the next GPU (cyclically, by index in the node) that has one. Or it says which GPUs, and how fast they
 * compute relative to their profile.
 *
 * No link and no GPU is overridden twice.
 */
#ifndef CPSIM_MODELS_INPUT_OVERRIDES_H
#define CPSIM_MODELS_INPUT_OVERRIDES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diagnostics;
struct ini_document;
struct section_spec;
struct topology;

#define OVERRIDE_FACTOR_MAX 100
#define OVERRIDE_SPEED_MAX 100

struct link_override {
    uint64_t link;
    double bytes_per_s;     /* 0: as without, times `factor` */
    double factor;          /* 1: none */
    double latency_seconds; /* negative: as without */
    bool missing;
    uint32_t number; /* of the override, in the order of the file */
};

struct gpu_override {
    uint64_t first, last; /* GPUs */
    double speed;
    uint32_t number;
};

struct override_set {
    struct link_override *links; /* ascending */
    size_t n_links, links_capacity;
    struct gpu_override *gpus; /* ascending */
    size_t n_gpus, gpus_capacity;
    size_t n_missing; /* of links */
};

extern const struct section_spec override_section;

/* From the sections of the document, when the topology is otherwise complete. */
bool overrides_read(struct topology *topology, const struct ini_document *document, struct diagnostics *diag);
/* For topology_each_value. */
void overrides_each_value(const struct topology *topology,
                          void (*visit)(void *context, const char *section, const char *key, const char *value),
                          void *context);
void overrides_fini(struct override_set *overrides);

/* NULL if the link has none. */
const struct link_override *overrides_of_link(const struct override_set *overrides, uint64_t link);

/* What a link's bandwidth is, given what it is without the override (NULL: there is none). */
static inline double overrides_bytes_per_s(const struct link_override *override, double without)
{
    if (!override)
        return without;
    return override->bytes_per_s > 0 ? override->bytes_per_s : override->factor * without;
}

/* The section's name, "override NAME", of an override by its number. */
const char *overrides_name(const struct topology *topology, uint32_t number);

#endif
