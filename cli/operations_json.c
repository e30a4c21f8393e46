/* operations_json.c - every operation of a run, for cpsim.run/1: what --compare draws timelines from.
 *
 * Written for programs and a timeline, whichever side, simulator or hardware, filled it.
 */
#include "cli/json_set.h"
#include "cli/writers.h"

static json_t *operation_to_json(const struct ensemble *whole, uint32_t place, uint32_t index,
                                 const struct moment *moment)
{
    const struct program *program = ensemble_program(whole, place);
    const struct op turned = ensemble_op(whole, place, index), *op = &turned;
    json_t *json = json_object();
    json_set_count(json, "rank", whole->instances[place].rank);
    json_set_count(json, "op", index);
    json_set_text(json, "kind", op_kind_name((enum op_kind)op->kind));
    json_set_text(json, "stream", stream_name((enum stream)op->stream));
    json_set_text(json, "phase", phase_name(program_phase(program, index)));
    json_set_real(json, "begin", moment->begin);
    json_set_real(json, "end", moment->end);
    if (op_is_message(op)) {
        json_set_real(json, "move", moment->move);
        json_set_count(json, "peer", op->peer);
        json_set_count(json, "bytes", op->bytes);
        json_set_text(json, "traffic", traffic_name((enum traffic)op->traffic));
    } else if (moment->move > moment->begin) { /* its kernel waited for one of the other compute stream */
        json_set_real(json, "move", moment->move);
    }
    if (op_is_attention(op))
        json_set_count(json, "pairs", op->pairs);
    if (op->collective)
        json_set_text(json, "collective",
                      collective_call_name((enum collective_call)program->collectives[op->collective - 1].call));
    return json;
}

void run_json_add_operations(json_t *run, const struct prediction *prediction)
{
    const struct ensemble *whole = &prediction->whole;
    json_t *operations = json_array();
    for (uint32_t place = 0; place < prediction->report.n_ranks; place++) {
        const struct moment *moments = prediction->timeline.moments[prediction_instance(prediction, place)];
        for (uint32_t i = 0; i < ensemble_program(whole, place)->n_ops; i++) {
            json_t *operation = operation_to_json(whole, place, i, &moments[i]);
            if (whole->groups > 1)
                json_set_count(operation, "group", whole->instances[place].group);
            json_array_append_new(operations, operation);
        }
    }
    json_object_set_new(run, "operations", operations);
}
