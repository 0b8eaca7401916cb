/* lengths-file.c - the strict reader of the file of --lengths. */
#include "base/text.h"

#include <pipesim/costs.h>
#include <pipesim/model.h>

#include <string.h>

#define MAX_LENGTH ((gsize)1 << 24) /* bytes of a file */

/* The columns; those of factors are in the order of PsLengthFactors. */
enum
{
  TOKENS,
  FACTOR,
  F,
  B,
  W,
  C,
  ACT,
  MSG,
  N_COLUMNS
};

static const char *const names[N_COLUMNS] = { "tokens", "factor", "f", "b", "w", "c", "act", "msg" };

typedef struct
{
  const char *where;
  guint line;
  guint n_fields; /* 0: the header is still to come */
  guint column[N_COLUMNS];
  gboolean has[N_COLUMNS];
  GArray *of;     /* guint16 */
  GArray *length; /* PsLength */
} Reader;

static void
reader_clear (Reader *reader)
{
  g_array_unref (reader->of);
  g_array_unref (reader->length);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Reader, reader_clear)

static char *
place (const Reader *reader)
{
  return g_strdup_printf ("%s:%u", reader->where, reader->line);
}

static gboolean
read_header (Reader *reader, char **fields, GError **error)
{
  for (guint i = 0; fields[i] != NULL; i++)
    {
      g_autofree char *quoted = ps_text_quote (fields[i]);
      guint column = 0;

      while (column < N_COLUMNS && !g_str_equal (g_strstrip (fields[i]), names[column]))
        column++;
      if (column == N_COLUMNS)
        return ps_refuse_at (place (reader), error,
                             "unknown column %s; the first line is tokens, or some of factor,f,b,w,c,act,msg", quoted);
      if (reader->has[column])
        return ps_refuse_at (place (reader), error, "column %s appears twice", quoted);
      reader->has[column] = TRUE;
      reader->column[i] = column;
      reader->n_fields = i + 1;
    }
  if (reader->has[TOKENS] && reader->n_fields > 1)
    return ps_refuse_at (place (reader), error, "tokens stand alone: the factors follow from them");
  return TRUE;
}

static gboolean
read_value (const Reader *reader, guint column, const char *text, PsLength *length, double *factors, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s:%u: %s", reader->where, reader->line, names[column]);
  g_autofree char *quoted = ps_text_quote (text), *printable = g_strndup (quoted + 1, strlen (quoted) - 2);
  gint64 tokens;

  if (column != TOKENS)
    return ps_parse_number (where, printable, PS_MIN_LENGTH_FACTOR, PS_MAX_LENGTH_FACTOR, &factors[column], error)
           || ps_text_blame_input (error);
  if (!ps_parse_integer (where, printable, 1, PS_MAX_SEQUENCE, &tokens, error))
    return ps_text_blame_input (error);
  length->tokens = (guint)tokens;
  return TRUE;
}

/* Adds a microbatch, whose length may be there already. */
static void
append (Reader *reader, const PsLength *length)
{
  guint16 i = 0;

  while (i < reader->length->len && memcmp (&g_array_index (reader->length, PsLength, i), length, sizeof *length) != 0)
    i++;
  if (i == reader->length->len)
    g_array_append_val (reader->length, *length);
  g_array_append_val (reader->of, i);
}

static gboolean
read_fields (Reader *reader, char **fields, GError **error)
{
  double factors[N_COLUMNS] = { 0 };
  PsLength length;

  memset (&length, 0, sizeof length);
  if (g_strv_length (fields) != reader->n_fields)
    return ps_refuse_at (place (reader), error, "%u fields; the first line has %u", g_strv_length (fields),
                         reader->n_fields);
  if (reader->of->len == PS_MAX_LENGTHS)
    return ps_refuse_at (place (reader), error, "more than %u microbatches", PS_MAX_LENGTHS);
  for (guint i = 0; i < reader->n_fields; i++)
    if (!read_value (reader, reader->column[i], g_strstrip (fields[i]), &length, factors, error))
      return FALSE;
  if (!reader->has[FACTOR])
    factors[FACTOR] = 1;
  for (guint i = F; i < N_COLUMNS; i++)
    if (!reader->has[i])
      factors[i] = factors[FACTOR];
  length.factors = (PsLengthFactors){ factors[F], factors[B], factors[W], factors[C], factors[ACT], factors[MSG] };
  append (reader, &length);
  return TRUE;
}

PsLengths *
ps_lengths_parse (const char *where, const char *text, gsize size, GError **error)
{
  g_auto (Reader) reader = { .where = where,
                             .of = g_array_new (FALSE, FALSE, sizeof (guint16)),
                             .length = g_array_new (FALSE, FALSE, sizeof (PsLength)) };

  if (!ps_text_check (where, text, size, MAX_LENGTH, error))
    return NULL;
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      reader.line = i + 1;
      if (*g_strstrip (lines[i]) == '\0' || lines[i][0] == '#')
        continue;
      g_auto (GStrv) fields = g_strsplit (lines[i], ",", -1);
      if (!(reader.n_fields == 0 ? read_header : read_fields) (&reader, fields, error))
        return NULL;
    }
  if (reader.of->len == 0)
    {
      ps_refuse_at (g_strdup (where), error, "no microbatches; give each a line after the names of the columns");
      return NULL;
    }
  PsLengths *lengths = g_new0 (PsLengths, 1);
  lengths->n = reader.of->len;
  lengths->n_lengths = reader.length->len;
  lengths->of = g_memdup2 (reader.of->data, lengths->n * sizeof *lengths->of);
  lengths->length = g_memdup2 (reader.length->data, lengths->n_lengths * sizeof *lengths->length);
  return lengths;
}

PsLengths *
ps_lengths_read (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize size;

  return ps_read_file (path, &text, &size, error) ? ps_lengths_parse (path, text, size, error) : NULL;
}

void
ps_lengths_free (PsLengths *lengths)
{
  if (lengths == NULL)
    return;
  g_free (lengths->of);
  g_free (lengths->length);
  g_free (lengths);
}
