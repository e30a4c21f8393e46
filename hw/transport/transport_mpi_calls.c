/* transport_mpi_calls.c - collectives of the transport 'mpi': MPI's own, non-blocking, on a communicator per team.
 *
 * all-gather: MPI_Iallgatherv, in place: the own block is copied to its target first. Counts are in units as large as
 * all blocks allow; when even these do not fit an int, blocks go as in an all-to-all, which all ranks know alike.
 * reduce-scatter: MPI_Ireduce_scatter. all-reduce: MPI_Iallreduce, in place. Both in chunks of a bounded number of
 * numbers; bf16 by an operation of our own, which rounds each sum.
 * all-to-all: MPI_Ialltoallw, each block a datatype of absolute addresses: nothing is packed, no count is large.
 *
 * What MPI wants in one run of memory, and is not, goes through memory of the call's own.
 */
#include <stdlib.h>
#include <string.h>

#include "hw/transport/message_chunks.h"
#include "hw/transport/shares.h"
#include "hw/transport/transport_mpi.h"
#include "models/base/memory.h"

struct copy_back {
    struct share_of_memory target;
    const char *source; /* in the scratch memory */
    uint64_t offset, bytes;
};

struct mpi_call {
    char *scratch;
    int *numbers; /* counts and displacements: MPI reads them until it is through */
    MPI_Datatype *types;
    uint32_t n_types;
    struct copy_back *copies;
    size_t n_copies, copy_capacity;
};

/* ---- teams ---- */

static void add_bf16(void *in, void *sum, int *count, MPI_Datatype *type)
{
    (void)type;
    share_fold(DTYPE_BF16, false, sum, in, (size_t)*count);
}

static void max_bf16(void *in, void *most, int *count, MPI_Datatype *type)
{
    (void)type;
    share_fold(DTYPE_BF16, true, most, in, (size_t)*count);
}

int mpi_open_team(struct transport *end, enum stream stream, const uint32_t *members, uint32_t n_members)
{
    (void)stream; /* every team has a communicator of its own, so streams do not mix */
    struct mpi_team team = {.n = (int)n_members};
    int *ranks = memory_zeroed(n_members, sizeof *ranks);
    for (uint32_t i = 0; i < n_members; i++) {
        ranks[i] = (int)members[i];
        if (ranks[i] == end->rank)
            team.me = (int)i;
    }
    MPI_Group all, group;
    MPI_Comm_group(end->data, &all);
    MPI_Group_incl(all, team.n, ranks, &group);
    MPI_Comm_create_group(end->data, group, 0, &team.comm);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    free(ranks);
    if (end->n_teams == 0) {
        MPI_Op_create(add_bf16, 1, &end->add_bf16);
        MPI_Op_create(max_bf16, 1, &end->max_bf16);
    }
    memory_grow(end->teams, end->n_teams, end->team_capacity);
    end->teams[end->n_teams] = team;
    return (int)end->n_teams++;
}

void mpi_calls_close(struct transport *end)
{
    for (size_t t = 0; t < end->n_teams; t++)
        MPI_Comm_free(&end->teams[t].comm);
    if (end->n_teams) {
        MPI_Op_free(&end->add_bf16);
        MPI_Op_free(&end->max_bf16);
    }
    free(end->teams);
}

/* ---- calls ---- */

/* A call being posted. */
struct posting {
    struct transport *end;
    struct mpi_team team;
    const struct collective_part *part;
    struct mpi_call *call;
    struct mpi_request request;
};

static MPI_Request *next_request(struct posting *p)
{
    return &p->request.chunks[p->request.n_chunks++];
}

static void allocate_requests(struct posting *p, uint64_t count)
{
    p->request.chunks = memory_zeroed(count, sizeof *p->request.chunks);
}

/* When MPI is through, `bytes` at `source` belong at `offset` of `target`. */
static void copy_later(struct mpi_call *call, const struct share_of_memory *target, const char *source, uint64_t offset,
                       uint64_t bytes)
{
    memory_grow(call->copies, call->n_copies, call->copy_capacity);
    call->copies[call->n_copies++] = (struct copy_back){*target, source, offset, bytes};
}

void mpi_call_finish(struct mpi_call *call)
{
    for (size_t i = 0; i < call->n_copies; i++)
        share_write(&call->copies[i].target, call->copies[i].offset, call->copies[i].source, call->copies[i].bytes);
    for (uint32_t i = 0; i < call->n_types; i++)
        if (call->types[i] != MPI_BYTE)
            MPI_Type_free(&call->types[i]);
    free(call->scratch);
    free(call->numbers);
    free(call->types);
    free(call->copies);
    free(call);
}

static uint64_t sum_of(const uint64_t *bytes, int n)
{
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += bytes[i];
    return sum;
}

/* A share as a datatype of absolute addresses, in blocks whose lengths fit an int. */
static MPI_Datatype type_of(const struct share_of_memory *share)
{
    MPI_Datatype type = MPI_BYTE;
    uint32_t n_chunks = message_chunks(share_bytes(share)), n = 0;
    int *lengths = memory_zeroed((size_t)n_chunks * PIECES_MAX, sizeof *lengths);
    MPI_Aint *addresses = memory_zeroed((size_t)n_chunks * PIECES_MAX, sizeof *addresses);
    for (uint32_t c = 0; c < n_chunks; c++) {
        struct piece_of_memory chunk[PIECES_MAX];
        uint32_t pieces = message_chunk(share->pieces, share->n_pieces, c, chunk);
        for (uint32_t i = 0; i < pieces; i++, n++) {
            lengths[n] = (int)chunk[i].bytes;
            MPI_Get_address(chunk[i].memory, &addresses[n]);
        }
    }
    MPI_Type_create_hindexed((int)n, lengths, addresses, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    free(lengths);
    free(addresses);
    return type;
}

/* Block by block between all pairs: sources[i] to member i, or `own` to each of them. */
static void exchange(struct posting *p, const struct share_of_memory *own)
{
    const struct collective_part *part = p->part;
    struct mpi_call *call = p->call;
    int n = p->team.n;
    call->n_types = 2 * (uint32_t)n;
    call->types = memory_zeroed(call->n_types, sizeof *call->types);
    call->numbers = memory_zeroed(3 * (size_t)n, sizeof *call->numbers);
    int *send_counts = call->numbers, *receive_counts = send_counts + n, *nowhere = receive_counts + n;
    MPI_Datatype *send_types = call->types, *receive_types = call->types + n;
    for (int i = 0; i < n; i++) {
        const struct share_of_memory *out = own ? own : &part->sources[i], *in = &part->targets[i];
        send_counts[i] = i != p->team.me && share_bytes(out) > 0;
        receive_counts[i] = i != p->team.me && share_bytes(in) > 0;
        send_types[i] = send_counts[i] ? type_of(out) : MPI_BYTE;
        receive_types[i] = receive_counts[i] ? type_of(in) : MPI_BYTE;
    }
    allocate_requests(p, 1);
    MPI_Ialltoallw(MPI_BOTTOM, send_counts, nowhere, send_types, MPI_BOTTOM, receive_counts, nowhere, receive_types,
                   p->team.comm, next_request(p));
}

static void all_gather(struct posting *p)
{
    const struct collective_part *part = p->part;
    struct mpi_call *call = p->call;
    int n = p->team.n, me = p->team.me;
    const struct share_of_memory *own = &part->sources[me];
    int *numbers = memory_zeroed(2 * (size_t)n, sizeof *numbers);
    struct unit_layout layout = {.counts = numbers, .offsets = numbers + n};
    if (!unit_layout_packed(&layout, part->bytes, (uint32_t)n)) {
        free(numbers);
        if (own->n_pieces)
            share_copy(&part->targets[me], own);
        exchange(p, own);
        return;
    }
    call->numbers = numbers;
    if (unit_layout_placed(&layout, part->targets, part->bytes, (uint32_t)n)) {
        if (own->n_pieces)
            share_copy(&part->targets[me], own);
    } else {
        unit_layout_packed(&layout, part->bytes, (uint32_t)n);
        layout.base = call->scratch = memory_zeroed(sum_of(part->bytes, n), 1);
        for (int i = 0; i < n; i++)
            if (part->bytes[i])
                copy_later(call, &part->targets[i], call->scratch + (uint64_t)layout.offsets[i] * layout.unit, 0,
                           part->bytes[i]);
        if (own->n_pieces)
            share_read(own, 0, call->scratch + (uint64_t)layout.offsets[me] * layout.unit, part->bytes[me]);
    }
    call->types = memory_zeroed(1, sizeof *call->types);
    call->n_types = 1;
    MPI_Type_contiguous((int)layout.unit, MPI_BYTE, call->types);
    MPI_Type_commit(call->types);
    allocate_requests(p, 1);
    MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, layout.base, layout.counts, layout.offsets, *call->types,
                    p->team.comm, next_request(p));
}

/* ---- sums ---- */

static MPI_Datatype number_type(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? MPI_UINT16_T : MPI_FLOAT;
}

static MPI_Op fold_op(const struct posting *p)
{
    if (p->part->dtype == DTYPE_BF16)
        return p->part->largest ? p->end->max_bf16 : p->end->add_bf16;
    return p->part->largest ? MPI_MAX : MPI_SUM;
}

/* Numbers of member i's block that are in a chunk. */
static uint64_t numbers_in(const struct posting *p, int i, uint64_t chunk)
{
    uint64_t most = sum_chunk_numbers((uint32_t)p->team.n), numbers = p->part->bytes[i] / dtype_bytes(p->part->dtype);
    uint64_t before = chunk * most, left = numbers > before ? numbers - before : 0;
    return left < most ? left : most;
}

static uint64_t sum_chunks(const struct posting *p)
{
    uint64_t chunks = 1;
    for (int i = 0; i < p->team.n; i++)
        while (numbers_in(p, i, chunks))
            chunks++;
    return chunks;
}

/* Everybody's blocks, chunk by chunk, as MPI wants them: the shares themselves, or a copy with zeros for what is not
 * there. The own sum comes behind the copy; without a copy, it has the scratch memory to itself. */
static void reduce_scatter(struct posting *p)
{
    const struct collective_part *part = p->part;
    struct mpi_call *call = p->call;
    int n = p->team.n, me = p->team.me;
    uint64_t chunks = sum_chunks(p), size = dtype_bytes(part->dtype), total = sum_of(part->bytes, n);
    bool as_it_is = chunks == 1 && shares_are_one_run(part->sources, part->bytes, (uint32_t)n);
    call->scratch = memory_zeroed((as_it_is ? 0 : total) + part->bytes[me] + 1, 1);
    call->numbers = memory_zeroed(chunks * (size_t)n, sizeof *call->numbers);
    allocate_requests(p, chunks);
    char *out = call->scratch, *sum = call->scratch + (as_it_is ? 0 : total), *run = NULL;
    for (int i = 0; as_it_is && !run && i < n; i++)
        run = part->bytes[i] ? part->sources[i].pieces[0].memory : NULL;
    if (part->bytes[me])
        copy_later(call, &part->targets[me], sum, 0, part->bytes[me]);
    for (uint64_t c = 0; c < chunks; c++) {
        int *counts = call->numbers + c * (size_t)n;
        char *first = as_it_is ? run : out;
        for (int i = 0; i < n; i++) {
            uint64_t bytes = numbers_in(p, i, c) * size;
            counts[i] = (int)numbers_in(p, i, c);
            if (!as_it_is && part->sources[i].n_pieces)
                share_read(&part->sources[i], c * sum_chunk_numbers((uint32_t)n) * size, out, bytes);
            out += as_it_is ? 0 : bytes;
        }
        MPI_Ireduce_scatter(first, sum, counts, number_type(part->dtype), fold_op(p), p->team.comm, next_request(p));
        sum += (uint64_t)counts[me] * size;
    }
}

static void all_reduce(struct posting *p)
{
    const struct collective_part *part = p->part;
    const struct share_of_memory *own = &part->targets[p->team.me];
    uint64_t bytes = part->bytes[p->team.me], size = dtype_bytes(part->dtype), numbers = bytes / size;
    uint64_t chunks = numbers / SUM_NUMBERS_MAX + 1;
    char *memory = own->n_pieces ? own->pieces[0].memory : NULL;
    if (own->n_pieces > 1) {
        memory = p->call->scratch = memory_zeroed(bytes, 1);
        share_read(own, 0, memory, bytes);
        copy_later(p->call, own, memory, 0, bytes);
    }
    allocate_requests(p, chunks);
    for (uint64_t c = 0; c < chunks; c++) {
        uint64_t left = numbers - c * SUM_NUMBERS_MAX, count = left < SUM_NUMBERS_MAX ? left : SUM_NUMBERS_MAX;
        MPI_Iallreduce(MPI_IN_PLACE, memory + c * SUM_NUMBERS_MAX * size, (int)count, number_type(part->dtype),
                       fold_op(p), p->team.comm, next_request(p));
    }
}

int mpi_post_collective(struct transport *end, int team, const struct collective_part *part)
{
    struct posting p = {.end = end, .team = end->teams[team], .part = part};
    p.call = p.request.call = memory_zeroed(1, sizeof *p.call);
    switch (part->call) {
    case CALL_ALL_GATHER:
        all_gather(&p);
        break;
    case CALL_REDUCE_SCATTER:
        reduce_scatter(&p);
        break;
    case CALL_ALL_TO_ALL:
        exchange(&p, NULL);
        break;
    case CALL_ALL_REDUCE:
        all_reduce(&p);
        break;
    case CALL_COUNT:
        break;
    }
    return mpi_take_request(end, p.request);
}
