/* bench_question.c - llama3-8b with 8,192 positions a rank; the clusters are a single switch, or nodes of 8 H100 with a
 * 400 Gb/s port for each GPU, 32 nodes a pod, and a port for each GPU from its pod's switches to the spine: a
 * rail-optimised fat-tree without oversubscription. */
#include "tests/bench/bench_question.h"

#include <stdio.h>
#include <stdlib.h>

#define NODE 8
#define POD 32 /* nodes */

static FILE *open_file(const char *directory, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(1);
    }
    return file;
}

static void write_switch(FILE *file, unsigned ranks)
{
    fprintf(file,
            "[cluster]\ndevice = toy\n[level node]\nsize = %u\nkind = switch\nbandwidth = 50 GB/s\nlatency = 2 us\n",
            ranks);
}

static void write_rails(FILE *file, unsigned ranks)
{
    unsigned nodes = (ranks + NODE - 1) / NODE, pods = (nodes + POD - 1) / POD;
    fprintf(file,
            "[cluster]\ndevice = h100-sxm\n"
            "[level node]\nsize = %d\nkind = switch\nbandwidth = 450 GB/s\nlatency = 2 us\n"
            "[level pod]\nsize = %u\nkind = switch\nattach = rail\nbandwidth = 400 Gb/s\nlatency = 4 us\n",
            NODE, pods > 1 ? POD : nodes);
    if (pods > 1)
        fprintf(file, "[level spine]\nsize = %u\nkind = switch\nattach = rail\nbandwidth = 400 Gb/s\nlatency = 2 us\n",
                pods);
}

void question_write(const struct question *question, const char *directory)
{
    FILE *topology = open_file(directory, "topology.ini"), *experiment = open_file(directory, "experiment.ini");
    unsigned ranks = question->cp * question->dp;
    (question->one_switch ? write_switch : write_rails)(topology, ranks);
    fprintf(experiment,
            "[model]\npreset = llama3-8b\n[workload]\nseq_len = %u\nmask = %s\npass = %s\n"
            "[parallel]\ncp = %u\ndp = %u\n[schedule]\nalgorithm = %s\nsharding = %s\n",
            question->cp * 8192, question->mask, question->train ? "train" : "forward", question->cp, question->dp,
            question->algorithm, question->sharding);
    if (fclose(topology) || fclose(experiment)) {
        fprintf(stderr, "cannot write the files of a case in %s\n", directory);
        exit(1);
    }
}
