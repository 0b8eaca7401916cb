/* sweep-rows.h - the settings of a sweep that a picture shows, and how it says what they have in common. */
#pragma once

#include <pipesim/sweep.h>

typedef struct
{
  PsScope *scope;
  char **columns; /* the picture's own, then those that are held apart */
  guint n_own;
  PsResultValues *values; /* of these columns */
} PsSweepRows;

void ps_sweep_rows_clear (PsSweepRows *rows);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsSweepRows, ps_sweep_rows_clear)

/* Reads the fastest settings of each group of the question. Errors: those of ps_results_values. */
gboolean ps_sweep_rows_read (PsSweepRows *rows, PsResults *results, const PsQuestion *question, const char *const *own,
                             GError **error);

static inline const PsValue *
ps_sweep_rows_at (const PsSweepRows *rows, guint row)
{
  return &rows->values->values[row * rows->values->n_columns];
}

/* The title of the i-th column. */
const char *ps_sweep_rows_title (const PsSweepRows *rows, guint i);

/* Appends ", bandwidth factor 0.5", without the comma where nothing stands before it. */
void ps_sweep_rows_append_apart (const PsSweepRows *rows, guint row, GString *name);

/* The titles of the columns that are held apart: "bandwidth factor, p"; "" for none. Free with g_free. */
char *ps_sweep_rows_apart (const PsSweepRows *rows);
