/* json-text.h - strings and numbers of JSON, for the writers that build their text row by row. */
#pragma once

#include <pipesim/base.h>

/* Appends text in quotes; bytes that are no UTF-8 become U+FFFD. */
void ps_json_append_string (GString *json, const char *text);

/* Appends the shortest text that reads back as exactly this value; null for NaN and the infinities. */
void ps_json_append_double (GString *json, double value);
