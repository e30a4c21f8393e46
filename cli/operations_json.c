/* operations_json.c - every operation of a run, for cpsim.run/1: what --compare draws timelines from.
 *
 * Written one by one, from programs and a timeline, whichever side, simulator or hardware, filled it.
 */
#include "cli/json_writer.h"
#include "cli/writers.h"

static void write_operation(struct json_writer *writer, const struct ensemble *whole, uint32_t place, uint32_t index,
                            const struct moment *moment)
{
    const struct program *program = ensemble_program(whole, place);
    const struct op turned = ensemble_op(whole, place, index), *op = &turned;
    json_writer_object(writer, NULL);
    json_writer_count(writer, "rank", whole->instances[place].rank);
    json_writer_count(writer, "op", index);
    json_writer_text(writer, "kind", op_kind_name((enum op_kind)op->kind));
    json_writer_text(writer, "stream", stream_name((enum stream)op->stream));
    json_writer_text(writer, "phase", phase_name(program_phase(program, index)));
    json_writer_real(writer, "begin", moment->begin);
    json_writer_real(writer, "end", moment->end);
    if (op_is_message(op)) {
        json_writer_real(writer, "move", moment->move);
        struct rank_place peer = ensemble_peer_place(whole, place, program->ops[index].peer);
        json_writer_count(writer, "peer", peer.rank);
        if (peer.group != whole->instances[place].group)
            json_writer_count(writer, "peer_group", peer.group);
        json_writer_count(writer, "bytes", op->bytes);
        json_writer_text(writer, "traffic", traffic_name((enum traffic)op->traffic));
    } else if (moment->move > moment->begin) { /* its kernel waited for one of the other compute stream */
        json_writer_real(writer, "move", moment->move);
    }
    if (op_is_attention(op))
        json_writer_count(writer, "pairs", op->pairs);
    if (op->collective)
        json_writer_text(writer, "collective",
                         collective_call_name((enum collective_call)program->collectives[op->collective - 1].call));
    if (whole->groups > 1)
        json_writer_count(writer, "group", whole->instances[place].group);
    json_writer_end_object(writer);
}

void operations_json_write_in(struct json_writer *writer, const struct prediction *prediction)
{
    const struct ensemble *whole = &prediction->whole;
    json_writer_array(writer, "operations");
    for (uint32_t place = 0; place < prediction->report.n_ranks && !ferror(writer->stream); place++) {
        const struct moment *moments = prediction->timeline.moments[prediction_instance(prediction, place)];
        for (uint32_t i = 0; i < ensemble_program(whole, place)->n_ops; i++)
            write_operation(writer, whole, place, i, &moments[i]);
    }
    json_writer_end_array(writer);
}
