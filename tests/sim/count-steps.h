/* count-steps.h - counts how often code reads an element of a GArray. A test compiles the sources under test once more
 * with this header before them, so that their g_array_index counts. */
#pragma once

#include <glib.h>

extern guint64 ps_n_steps;

static inline gpointer ps_count_step (const GArray *array)
{
  ps_n_steps++;
  return array->data;
}

#undef g_array_index
#define g_array_index(array, type, i) (((type *)ps_count_step (array))[(i)])
