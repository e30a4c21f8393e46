/* sweep_crew_messages.c - bytes of one kind of machine: the processes of a launcher run one program. */
#include "cli/sweep_crew_messages.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

struct result_head {
    uint64_t task, size;
    double seconds;
    int32_t wait_status, start_errno;
};

struct sweep_crew_text sweep_crew_text(enum crew_message kind)
{
    struct sweep_crew_text text = {0};
    const char byte = (char)kind;
    sweep_crew_text_add(&text, &byte, 1);
    return text;
}

void sweep_crew_text_add(struct sweep_crew_text *text, const void *bytes, size_t size)
{
    if (text->capacity - text->size < size) {
        text->capacity = 2 * text->capacity + size + 64;
        text->bytes = memory_resized(text->bytes, text->capacity, 1);
    }
    if (size > 0)
        memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
}

void sweep_crew_text_send(struct sweep_crew_text *text, struct processes *processes, uint32_t to)
{
    processes_send(processes, to, text->bytes, text->size);
    *text = (struct sweep_crew_text){0};
}

void sweep_crew_text_add_result(struct sweep_crew_text *text, size_t task, const struct worker_result *result)
{
    const struct result_head head = {task, result->size, result->seconds, result->wait_status, result->start_errno};
    sweep_crew_text_add(text, &head, sizeof head);
    sweep_crew_text_add(text, result->text, result->size);
}

bool sweep_crew_text_next_result(const char *bytes, size_t size, size_t *at, size_t *task, struct worker_result *result)
{
    struct result_head head;
    if (size - *at < sizeof head)
        return false;
    memcpy(&head, bytes + *at, sizeof head);
    *at += sizeof head;
    if (size - *at < head.size)
        return false;
    *task = (size_t)head.task;
    *result = (struct worker_result){
        .size = (size_t)head.size,
        .wait_status = head.wait_status,
        .start_errno = head.start_errno,
        .seconds = head.seconds,
    };
    if (head.wait_status == 0) {
        result->text = memory_zeroed(result->size + 1, 1);
        memcpy(result->text, bytes + *at, result->size);
    }
    *at += result->size;
    return true;
}

void sweep_crew_text_add_number(struct sweep_crew_text *text, uint64_t number)
{
    sweep_crew_text_add(text, &number, sizeof number);
}

bool sweep_crew_text_next_number(const char *bytes, size_t size, size_t *at, uint64_t *number)
{
    if (size - *at < sizeof *number)
        return false;
    memcpy(number, bytes + *at, sizeof *number);
    *at += sizeof *number;
    return true;
}
