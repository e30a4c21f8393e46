/* platform_xml.h - a cluster in SimGrid's words: the XML that it loads a platform from.
 *
 * Only what the paths use is written: their GPUs as hosts `gpuN`, their links as `linkN`, numbered as in the topology,
 * in ascending order. Two rules make SimGrid share bandwidth as NVLink and RDMA do:
 *   - latency is 0 everywhere. SimGrid weighs flows by the inverse of their route's latency, as TCP does; a message
 *     pays its delay before it starts to flow, and flows then share every link equally;
 *   - a link is one direction (of a full-duplex cable) and SHARED, and each direction of a route is written by itself.
 * A message that cannot fill its links, however free they are, also crosses a FATPIPE link of the rate that it reaches
 * alone, which no two messages share. SimGrid has one route between two hosts, so for a second rate between the same
 * GPUs the source has a second host, a third host for a third: `gpuN.1`, `gpuN.2`.
 */
#ifndef CPSIM_SIM_PLATFORM_XML_H
#define CPSIM_SIM_PLATFORM_XML_H

#include <stdio.h>

#include "models/input/topology.h"
#include "sim/plan.h"

#define HOST_NAME_SIZE 48

/* The host that messages leave GPU `gpu` from on lane `lane`; they arrive at that of lane 0. */
void platform_host_name(uint64_t gpu, uint32_t lane, char name[HOST_NAME_SIZE]);

/* Writes the platform of `paths`, of which each lane between two GPUs is opened at most once. */
void platform_xml_write(const struct topology *topology, const struct path *paths, size_t n_paths, FILE *stream);

#endif
