/* json_set.h - what every writer of JSON needs: one member of an object at a time, from plain values.
 *
 * JSON has no infinities and no NaN: null says that there is no number. Text may hold any bytes (paths, what a system
 * says of itself), JSON may not: what is not UTF-8 is written with a '?' for each byte beyond ASCII.
 */
#ifndef CPSIM_CLI_JSON_SET_H
#define CPSIM_CLI_JSON_SET_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "models/cost/mechanisms.h"

void json_set_real(json_t *object, const char *key, double value);
void json_set_count(json_t *object, const char *key, uint64_t value);
void json_set_flag(json_t *object, const char *key, bool value);
void json_set_text(json_t *object, const char *key, const char *text); /* NULL: "" */

/* The names of a set's mechanisms. */
json_t *json_mechanisms(mechanism_set set);

/* The text alone, for arrays. */
json_t *json_text(const char *text);

#endif
