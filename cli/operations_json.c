/* operations_json.c - every operation of a run, for cpsim.run/1: what --compare draws timelines from.
 *
 * Written for programs and a timeline, whichever side, simulator or hardware, filled it.
 */
#include "cli/json_set.h"
#include "cli/writers.h"

static json_t *operation_to_json(const struct program *program, uint32_t index, const struct moment *moment)
{
    const struct op *op = &program->ops[index];
    json_t *json = json_object();
    json_set_count(json, "rank", program->rank);
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

void run_json_add_operations(json_t *run, const struct program *programs, uint32_t cp, const struct timeline *timeline)
{
    json_t *operations = json_array();
    for (uint32_t instance = 0; instance < timeline->n_instances; instance++) {
        const struct program *program = &programs[instance % cp];
        for (uint32_t i = 0; i < program->n_ops; i++) {
            json_t *operation = operation_to_json(program, i, &timeline->moments[instance][i]);
            if (timeline->n_instances > cp)
                json_set_count(operation, "group", instance / cp);
            json_array_append_new(operations, operation);
        }
    }
    json_object_set_new(run, "operations", operations);
}
