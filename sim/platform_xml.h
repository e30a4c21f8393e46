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
 *
 * In a folded simulation a message lists each of its links as often as it weighs on it: SimGrid then takes it for so
 * many flows. A class that sends to itself receives at a host of its own, `gpuN.in`, for what a host sends to itself
 * would cross no link.
 */
#ifndef CPSIM_SIM_PLATFORM_XML_H
#define CPSIM_SIM_PLATFORM_XML_H

#include <stdio.h>

#include "sim/plan.h"

#define HOST_NAME_SIZE 48
#define HOST_OF_WORKERS "cpsim" /* where those processes of the simulation live that send nothing */

/* The hosts that messages of `path`, one of instance `from`, leave and reach. */
void platform_host_names(const struct plan *plan, uint32_t from, const struct path *path,
                         char from_name[HOST_NAME_SIZE], char to_name[HOST_NAME_SIZE]);

/* Writes the platform of all paths that are not solitary, each lane once. */
void platform_xml_write(const struct plan *plan, FILE *stream);

#endif
