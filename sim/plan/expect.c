/* expect.c - a file of predictions that a configuration is held to. Made by one writer and read by one parser. */
#include "expect.h"

#include "base/json.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

#define FORMAT "pipesim-expect/1"

static const PsCellColumn columns[] = {
  PS_CELL (PsExpected, command, "command", NULL, TEXT),
  PS_CELL (PsExpected, schedule, "schedule", NULL, TEXT),
  PS_CELL (PsExpected, n_devices, "devices", NULL, INTEGER),
  PS_CELL (PsExpected, n_microbatches, "microbatches", NULL, INTEGER),
  PS_CELL (PsExpected, n_chunks, "chunks", NULL, INTEGER),
  PS_CELL (PsExpected, iteration_ns, "iteration_ns", NULL, TIME),
  PS_CELL (PsExpected, peak_memory_bytes, "peak_memory_bytes", NULL, SIZE),
  PS_CELL (PsExpected, fits, "fits", NULL, TEXT),
  PS_CELL (PsExpected, tolerance, "tolerance", NULL, RATIO),
};

static void expected_free (gpointer data)
{
  PsExpected *row = data;

  if (row == NULL)
    return;
  g_free (row->command);
  g_free (row->schedule);
  g_free (row->fits);
  g_free (row);
}

GPtrArray *ps_expected_new (void)
{
  return g_ptr_array_new_with_free_func (expected_free);
}

void ps_expected_add (GPtrArray *rows, const char *command, const PsPrediction *prediction)
{
  const PsSchedule *schedule = prediction->program->schedule;
  PsExpected *row = g_new (PsExpected, 1);

  *row = (PsExpected){ .command = g_strdup (command),
                       .schedule = g_strdup (schedule->name),
                       .n_devices = schedule->placement->n_devices,
                       .n_microbatches = schedule->n_microbatches,
                       .n_chunks = ps_placement_max_chunks (schedule->placement),
                       .iteration_ns = prediction->metrics.iteration_ns,
                       .peak_memory_bytes = prediction->metrics.peak_memory_bytes,
                       .fits = g_strdup (prediction->fits),
                       .tolerance = PS_EXPECT_TOLERANCE };
  g_ptr_array_add (rows, row);
}

/* Command lines */

char *ps_expected_command (char *const *words)
{
  static const struct {
    const char *name;
    gboolean takes;
  } left_out[] = { { "--expect", TRUE }, { "--update", FALSE }, { "--tolerance", TRUE }, { "--json", FALSE } };
  GString *command = g_string_new (NULL);

  for (; *words != NULL; words++) {
    gsize length = strcspn (*words, "=");
    guint i = 0;

    while (i < G_N_ELEMENTS (left_out)
           && (strlen (left_out[i].name) != length || strncmp (*words, left_out[i].name, length) != 0))
      i++;
    if (i < G_N_ELEMENTS (left_out)) {
      words += left_out[i].takes && (*words)[length] == '\0' && words[1] != NULL;
      continue;
    }
    g_autofree char *word = ps_shell_word (*words);

    g_string_append_printf (command, "%s%s", command->len > 0 ? " " : "", word);
  }
  return g_string_free (command, FALSE);
}

char **ps_expected_commands (const GPtrArray *rows)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  GPtrArray *commands = g_ptr_array_new ();

  for (guint i = 0; i < rows->len; i++) {
    const PsExpected *row = rows->pdata[i];

    if (g_hash_table_add (seen, row->command))
      g_ptr_array_add (commands, g_strdup (row->command));
  }
  g_ptr_array_add (commands, NULL);
  return (char **)g_ptr_array_free (commands, FALSE);
}

static gboolean is_of (const PsExpected *row, char *const *commands)
{
  return g_strv_contains ((const char *const *)commands, row->command);
}

gboolean ps_expected_holds (const GPtrArray *file, char *const *commands)
{
  for (guint i = 0; i < file->len; i++)
    if (is_of (file->pdata[i], commands))
      return TRUE;
  return FALSE;
}

/* The row of the same schedule and setting; NULL: there is none. */
static PsExpected *find_same (const GPtrArray *rows, const PsExpected *like)
{
  for (guint i = 0; i < rows->len; i++) {
    PsExpected *row = rows->pdata[i];

    if (g_str_equal (row->command, like->command) && g_str_equal (row->schedule, like->schedule)
        && row->n_devices == like->n_devices && row->n_microbatches == like->n_microbatches
        && row->n_chunks == like->n_chunks)
      return row;
  }
  return NULL;
}

/* The row of the same setting; else, where the command line has one row before and now, that one: a change of its file
 * may have changed m, p or v. NULL: there is none. */
static PsExpected *find_now (const GPtrArray *file, const GPtrArray *rows, const PsExpected *expected)
{
  PsExpected *same = find_same (rows, expected), *only = NULL;
  guint n = 0;

  for (guint i = 0; i < file->len; i++)
    n += g_str_equal (((PsExpected *)file->pdata[i])->command, expected->command);
  for (guint i = 0; i < rows->len; i++)
    if (g_str_equal (((PsExpected *)rows->pdata[i])->command, expected->command)) {
      only = rows->pdata[i];
      n++;
    }
  return same != NULL || n != 2 ? same : only;
}

/* Files */

static gboolean read_tolerance (const PsJsonObject *object, double *tolerance, GError **error)
{
  PsJsonReader *reader = ps_json_object_go (object, "tolerance");

  if (ps_json_read_number (reader, tolerance) && *tolerance >= 0 && *tolerance <= PS_MAX_PERCENT / 100.0)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: tolerance: a number from 0 to %d would be right; 0.02 is 2 %%",
                    reader->where, PS_MAX_PERCENT / 100);
}

static gboolean read_row (PsJsonReader *reader, PsExpected *row, GError **error)
{
  static const char *const keys[] = { "command",      "schedule",          "devices", "microbatches", "chunks",
                                      "iteration_ns", "peak_memory_bytes", "fits",    "tolerance",    NULL };
  g_auto (PsJsonObject) object = { 0 };

  if (!ps_json_object_init (&object, reader, NULL, keys, NULL, error))
    return FALSE;
  const char *end = reader->at; /* members are read out of order */
  gboolean done = ps_json_get_text (&object, "command", &row->command, error)
                  && ps_json_get_text (&object, "schedule", &row->schedule, error)
                  && ps_json_get_integer (&object, "devices", 1, PS_MAX_DEVICES, &row->n_devices, error)
                  && ps_json_get_integer (&object, "microbatches", 1, PS_MAX_MICROBATCHES, &row->n_microbatches, error)
                  && ps_json_get_integer (&object, "chunks", 1, PS_MAX_STAGES, &row->n_chunks, error)
                  && ps_json_get_integer (&object, "iteration_ns", 0, (gint64)PS_MAX_SUM_NS, &row->iteration_ns, error)
                  && ps_json_get_integer (&object, "peak_memory_bytes", 0, G_MAXINT64, &row->peak_memory_bytes, error)
                  && ps_json_get_text (&object, "fits", &row->fits, error)
                  && read_tolerance (&object, &row->tolerance, error);
  reader->at = end;
  return done;
}

GPtrArray *ps_expected_parse (const char *where, const char *text, gssize length, GError **error)
{
  static const char *const keys[] = { "results", NULL };
  g_auto (PsJsonReader) reader = { 0 };
  g_auto (PsJsonObject) file = { 0 };
  g_autoptr (GPtrArray) rows = ps_expected_new ();

  if (!ps_json_reader_init (&reader, where, text, length, error)
      || !ps_json_object_init (&file, &reader, FORMAT, keys, NULL, error)
      || !ps_json_get_array (&file, "results", error))
    return NULL;
  while (ps_json_next_element (&reader)) {
    g_autofree char *place = g_strdup_printf ("%s: results[%u]", where, rows->len);
    PsExpected *row = g_new0 (PsExpected, 1);
    const PsExpected *same;

    g_ptr_array_add (rows, row);
    reader.where = place;
    if (!read_row (&reader, row, error))
      return NULL;
    reader.where = where;
    same = find_same (rows, row);
    if (same != row)
      return ps_refuse_null (error, PS_ERROR_INPUT, "%s: the setting of '%s' is there twice", place, row->schedule);
  }
  return g_steal_pointer (&rows);
}

char *ps_expected_to_json (const GPtrArray *rows)
{
  g_autoptr (PsTable) table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);

  for (guint i = 0; i < rows->len; i++)
    ps_table_add (table, rows->pdata[i]);
  return ps_table_to_json (table, FORMAT, NULL);
}

void ps_expected_update (GPtrArray *file, GPtrArray *rows, char *const *commands, double tolerance)
{
  for (guint i = file->len; i-- > 0;)
    if (is_of (file->pdata[i], commands) && find_same (rows, file->pdata[i]) == NULL)
      g_ptr_array_remove_index (file, i);
  for (guint i = 0; i < rows->len; i++) {
    PsExpected *row = rows->pdata[i], *same = find_same (file, row);

    row->tolerance = tolerance >= 0 ? tolerance : same != NULL ? same->tolerance : row->tolerance;
    if (same == NULL)
      g_ptr_array_add (file, g_steal_pointer (&rows->pdata[i]));
    else {
      PsExpected old = *same;

      *same = *row;
      *row = old;
    }
  }
  g_ptr_array_set_size (rows, 0);
}

/* What moved */

typedef struct {
  const PsExpected *expected;
  const char *figure;
  char *before, *now;
  double change; /* NAN: no ratio */
  double tolerance;
} Move;

static gpointer get_schedule (gconstpointer move)
{
  return g_strdup (((const Move *)move)->expected->schedule);
}

static gpointer get_tolerance (gconstpointer move)
{
  double tolerance = ((const Move *)move)->tolerance;

  return isnan (tolerance) ? NULL : g_strdup_printf ("%g %%", 100 * tolerance);
}

static gpointer get_command (gconstpointer move)
{
  return g_strdup (((const Move *)move)->expected->command);
}

static const PsCellColumn move_columns[] = {
  PS_CELL_GET (get_schedule, "schedule", "schedule", TEXT),
  PS_CELL_SET ("devices", "p", INTEGER),
  PS_CELL_SET ("microbatches", "m", INTEGER),
  PS_CELL_SET ("chunks", "v", INTEGER),
  PS_CELL (Move, figure, "figure", "figure", TEXT),
  PS_CELL (Move, before, "expected", "expected", TEXT),
  PS_CELL (Move, now, "predicted", "predicted", TEXT),
  PS_CELL (Move, change, "change", "change", PERCENT),
  PS_CELL_GET (get_tolerance, "tolerance", "tolerance", TEXT),
  PS_CELL_SET ("holds", NULL, BOOLEAN),
  PS_CELL_GET (get_command, "command", NULL, TEXT),
};

/* What compare adds to. */
typedef struct {
  PsTable *table;
  gboolean all;
  PsMoves *moves;
} Comparison;

/* The move's texts are taken. */
static void add_move (Comparison *to, Move move, gboolean holds)
{
  const PsExpected *expected = move.expected;

  if (!holds || to->all) {
    ps_table_add (to->table, &move);
    ps_table_set_integer (to->table, "devices", expected->n_devices);
    ps_table_set_integer (to->table, "microbatches", expected->n_microbatches);
    ps_table_set_integer (to->table, "chunks", expected->n_chunks);
    ps_table_set_boolean (to->table, "holds", holds);
  }
  to->moves->n_beyond += !holds;
  to->moves->n_within += holds;
  g_free (move.before);
  g_free (move.now);
}

static void compare_figure (Comparison *to, const PsExpected *expected, const char *figure, gint64 before, gint64 now,
                            double tolerance)
{
  char *(*format) (gint64) = g_str_equal (figure, "iteration") ? ps_format_time : ps_format_size;
  double change = before > 0 ? (double)(now - before) / (double)before : NAN;

  if (now != before)
    add_move (to, (Move){ expected, figure, format (before), format (now), change, tolerance },
              before > 0 && fabs (change) <= tolerance);
}

/* What the command line stands for now, where that is another setting. */
static void compare_setting (Comparison *to, const PsExpected *expected, const PsExpected *now)
{
  const struct {
    const char *name;
    guint before, now;
  } rows[] = { { "p", expected->n_devices, now->n_devices },
               { "m", expected->n_microbatches, now->n_microbatches },
               { "v", expected->n_chunks, now->n_chunks } };

  if (!g_str_equal (expected->schedule, now->schedule))
    add_move (to, (Move){ expected, "schedule", g_strdup (expected->schedule), g_strdup (now->schedule), NAN, NAN },
              FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].before != rows[i].now) {
      char *before = g_strdup_printf ("%u", rows[i].before), *after = g_strdup_printf ("%u", rows[i].now);

      add_move (to, (Move){ expected, rows[i].name, before, after, NAN, NAN }, FALSE);
    }
}

PsTable *ps_expected_compare (const GPtrArray *file, const GPtrArray *rows, char *const *commands, double tolerance,
                              gboolean all, PsMoves *moves)
{
  Comparison to = { ps_table_of (move_columns, G_N_ELEMENTS (move_columns), NULL, 0, 0), all, moves };

  for (guint i = 0; i < file->len; i++) {
    const PsExpected *expected = file->pdata[i], *now = find_now (file, rows, expected);
    double within = tolerance >= 0 ? tolerance : expected->tolerance;

    if (!is_of (expected, commands))
      continue;
    if (now == NULL || !g_str_equal (expected->fits, now->fits))
      add_move (&to,
                (Move){ expected, "fits", g_strdup (expected->fits),
                        g_strdup (now != NULL ? now->fits : "not predicted"), NAN, NAN },
                FALSE);
    if (now == NULL)
      continue;
    compare_setting (&to, expected, now);
    compare_figure (&to, expected, "iteration", expected->iteration_ns, now->iteration_ns, within);
    compare_figure (&to, expected, "peak memory", expected->peak_memory_bytes, now->peak_memory_bytes, within);
  }
  return to.table;
}
