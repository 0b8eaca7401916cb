/* torch-csv.c - lists of actions as CSV: a line per rank, a cell per action. */
#include "text.h"
#include "torch-actions.h"

#include <string.h>

typedef struct
{
  const char *where;
  gboolean compute_only;
  GPtrArray *rows; /* of GArray of PsTorchAction */
  guint64 n_stages;
  guint32 n_microbatches;
  gboolean waits;
  GArray *cells; /* the row being read */
} Reader;

char *
ps_torch_place (const char *where, guint rank, const PsTorchAction *action)
{
  GString *place = g_string_new (NULL);

  g_string_append_printf (place, "%s:%u:%u: ", where, rank + 1, action->cell);
  ps_torch_action_append (place, action);
  return g_string_free (place, FALSE);
}

static gboolean
refuse_cell (const Reader *reader, guint cell, const char *text, gsize length, const char *problem, GError **error)
{
  g_autofree char *start = g_strndup (text, MIN (length, 40));
  g_autofree char *shown = g_strescape (start, NULL);

  return ps_refuse (error, PS_ERROR_INPUT, "%s:%u:%u: '%s' %s", reader->where, reader->rows->len + 1, cell, shown,
                    problem);
}

static void
unquote (const char **text, gsize *length)
{
  if (*length >= 2 && (*text)[0] == '"' && (*text)[*length - 1] == '"')
    {
      (*text)++;
      *length -= 2;
    }
}

static gboolean
is_blank (const char *text, gsize length)
{
  for (gsize i = 0; i < length; i++)
    if (!g_ascii_isspace (text[i]))
      return FALSE;
  return TRUE;
}

static gboolean
read_cell (Reader *reader, guint cell, const char *text, gsize length, GError **error)
{
  PsTorchAction actions[2];
  guint n;

  unquote (&text, &length);
  if (is_blank (text, length))
    return reader->compute_only
               ? TRUE
               : refuse_cell (reader, cell, text, length, "is an empty cell, which torch-comms does not allow", error);
  const char *problem = ps_torch_cell_parse (text, length, actions, &n);
  if (problem != NULL)
    return refuse_cell (reader, cell, text, length, problem, error);
  for (guint i = 0; i < n; i++)
    {
      if (reader->compute_only && actions[i].type >= TORCH_N_COMPUTE)
        return refuse_cell (reader, cell, text, length, "is no computation, which is all that torch-compute holds",
                            error);
      actions[i].cell = cell;
      reader->waits |= ps_torch_is_wait (actions[i].type);
      reader->n_stages = MAX (reader->n_stages, actions[i].stage + 1U);
      reader->n_microbatches = MAX (reader->n_microbatches, actions[i].microbatch + 1);
      g_array_append_val (reader->cells, actions[i]);
    }
  return TRUE;
}

static gboolean
read_row (Reader *reader, const char *text, const char *end, GError **error)
{
  g_autoptr (GArray) cells = g_array_new (FALSE, FALSE, sizeof (PsTorchAction));

  if (end > text && end[-1] == '\r')
    end--;
  reader->cells = cells;
  for (guint cell = 1; text <= end; cell++)
    {
      const char *comma = memchr (text, ',', (gsize)(end - text));
      const char *stop = comma != NULL ? comma : end;

      if (cell > PS_MAX_OPS)
        return refuse_cell (reader, cell, text, 0, "is one cell too many", error);
      if (cells->len > 0 || comma != NULL || !is_blank (text, (gsize)(stop - text)))
        if (!read_cell (reader, cell, text, (gsize)(stop - text), error))
          return FALSE;
      text = stop + 1;
    }
  if (cells->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: is a line without actions; each line is a rank", reader->where,
                      reader->rows->len + 1);
  g_ptr_array_add (reader->rows, g_steal_pointer (&cells));
  return TRUE;
}

static gboolean
read_rows (Reader *reader, const char *text, gsize length, GError **error)
{
  const char *end = text + length;

  while (text < end)
    {
      const char *newline = memchr (text, '\n', (gsize)(end - text));

      if (reader->rows->len == PS_MAX_DEVICES)
        return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: is a line too many; %d ranks are possible", reader->where,
                          PS_MAX_DEVICES + 1, PS_MAX_DEVICES);
      if (!read_row (reader, text, newline != NULL ? newline : end, error))
        return FALSE;
      text = newline != NULL ? newline + 1 : end;
    }
  if (reader->rows->len == 0)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: is empty; a line of actions per rank would be right",
                 reader->where);
  return reader->rows->len > 0;
}

static gboolean
assign_stages (const Reader *reader, PsTorchLists *lists, GError **error)
{
  g_autofree gboolean *seen = g_new0 (gboolean, lists->n_stages);

  for (guint r = 0; r < lists->n_ranks; r++)
    for (guint i = 0; i < lists->actions[r]->len; i++)
      {
        const PsTorchAction *action = ps_torch_lists_action (lists, r, i);

        if (seen[action->stage] && lists->rank[action->stage] != r)
          return ps_refuse_at (ps_torch_place (reader->where, r, action), error,
                               "stage %u is in line %u already; a stage has one rank", action->stage,
                               lists->rank[action->stage] + 1U);
        seen[action->stage] = TRUE;
        lists->rank[action->stage] = (guint16)r;
      }
  for (guint stage = 0; stage < lists->n_stages; stage++)
    if (!seen[stage])
      return ps_refuse (error, PS_ERROR_INPUT, "%s: stage %u has no action, but stage %u has", reader->where, stage,
                        lists->n_stages - 1);
  return TRUE;
}

PsTorchLists *
ps_torch_lists_parse (const char *where, const char *text, gsize length, gboolean compute_only, GError **error)
{
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)g_array_unref);
  Reader reader = { .where = where, .compute_only = compute_only, .rows = rows };

  if (!read_rows (&reader, text, length, error))
    return NULL;
  g_autoptr (PsTorchLists) lists = ps_torch_lists_new (rows->len, (guint)reader.n_stages, reader.n_microbatches);
  lists->waits = reader.waits;
  for (guint r = 0; r < rows->len; r++)
    {
      g_array_unref (lists->actions[r]);
      lists->actions[r] = g_array_ref (g_ptr_array_index (rows, r));
    }
  return assign_stages (&reader, lists, error) ? g_steal_pointer (&lists) : NULL;
}

char *
ps_torch_lists_to_csv (const PsTorchLists *lists)
{
  GString *text = g_string_new (NULL);

  for (guint r = 0; r < lists->n_ranks; r++)
    {
      gboolean joined = FALSE;

      for (guint i = 0; i < lists->actions[r]->len; i++)
        {
          const PsTorchAction *action = ps_torch_lists_action (lists, r, i);

          g_string_append (text, i == 0 ? "" : joined ? ";" : ",");
          if (action->paired)
            g_string_append_c (text, '(');
          ps_torch_action_append (text, action);
          if (joined)
            g_string_append (text, ")OVERLAP_F_B");
          joined = action->paired;
        }
      g_string_append (text, "\r\n");
    }
  return g_string_free (text, FALSE);
}
