/* reference.h - reading the files of published and recorded results that lie beside a development checkout. Tests of
 * them are skipped where they are not there. */
#pragma once

#include "lower.h"

#include <json-glib/json-glib.h>
#include <pipesim/simulate.h>

#include <math.h>

/* The path of a reference file or directory; NULL, and the test is skipped, where there is none. */
static inline char *reference_path (const char *name)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "..", "..", "shared", "reference", name, NULL);

  if (g_file_test (path, G_FILE_TEST_EXISTS))
    return g_steal_pointer (&path);
  g_test_skip ("no reference files beside this checkout");
  return NULL;
}

/* The lines of a reference file, without line ends; NULL as above. */
static inline GStrv reference_lines (const char *name)
{
  g_autofree char *path = reference_path (name), *text = NULL;

  if (path == NULL)
    return NULL;
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_autoptr (GString) plain = g_string_new (text);
  g_string_replace (plain, "\r", "", 0);
  if (plain->len && plain->str[plain->len - 1] == '\n')
    g_string_truncate (plain, plain->len - 1);
  return g_strsplit (plain->str, "\n", -1);
}

/* One row of a table with its header. */
typedef struct {
  GStrv header;
  GStrv cells;
} ReferenceRow;

static inline const char *reference_text (const ReferenceRow *row, const char *column)
{
  for (guint i = 0; row->header[i] != NULL; i++)
    if (g_str_equal (row->header[i], column))
      return row->cells[i];
  g_error ("no column %s", column);
}

static inline double reference_number (const ReferenceRow *row, const char *column)
{
  return g_ascii_strtod (reference_text (row, column), NULL);
}

static inline gint64 reference_integer (const ReferenceRow *row, const char *column)
{
  return (gint64)llround (reference_number (row, column));
}

static inline guint reference_count (const ReferenceRow *row, const char *column)
{
  return (guint)reference_integer (row, column);
}

/* Calls check for every row of a CSV table in lines; the number of rows for which it returned TRUE. */
static inline guint reference_line_rows (GStrv lines, gboolean (*check) (const ReferenceRow *row, gpointer data),
                                         gpointer data)
{
  guint n = 0;
  g_auto (GStrv) header = g_strsplit (lines[0], ",", -1);

  for (guint i = 1; lines[i] != NULL; i++) {
    g_auto (GStrv) cells = g_strsplit (lines[i], ",", -1);

    g_assert_cmpuint (g_strv_length (cells), ==, g_strv_length (header));
    n += check (&(ReferenceRow){ header, cells }, data);
  }
  return n;
}

/* The same for a reference file; 0 where there is none. */
static inline guint reference_rows (const char *name, gboolean (*check) (const ReferenceRow *row, gpointer data),
                                    gpointer data)
{
  g_auto (GStrv) lines = reference_lines (name);

  return lines != NULL ? reference_line_rows (lines, check, data) : 0;
}

/* The same for the objects of family_orders.jsonl. */
static inline guint reference_orders (gboolean (*check) (JsonObject *row, gpointer data), gpointer data)
{
  g_auto (GStrv) lines = reference_lines ("family_orders.jsonl");
  guint n = 0;

  for (guint i = 0; lines != NULL && lines[i] != NULL; i++) {
    g_autoptr (JsonNode) node = json_from_string (lines[i], NULL);

    g_assert_nonnull (node);
    n += check (json_node_get_object (node), data);
  }
  return n;
}

/* Costs with the same F, B and W on every stage, c per transfer, act kept from F, wact of it from B on. */
static inline PsCosts *reference_costs (guint n_stages, gint64 f, gint64 b, gint64 w, gint64 c, gint64 act, gint64 wact)
{
  PsCosts *costs = ps_costs_new (n_stages);

  for (guint stage = 0; stage < n_stages; stage++) {
    ps_costs_op (costs, PS_OP_F, stage)->duration_ns = f;
    ps_costs_op (costs, PS_OP_B, stage)->duration_ns = b;
    ps_costs_op (costs, PS_OP_W, stage)->duration_ns = w;
    ps_costs_op (costs, PS_OP_BW, stage)->duration_ns = b + w;
    costs->transfer_ns[ps_transfer_forward (costs, stage)] = c;
    costs->transfer_ns[ps_transfer_backward (costs, stage)] = c;
    ps_costs_set_memory (costs, stage, act, wact);
  }
  return costs;
}

static inline PsSchedule *reference_generate (const char *name, const PsFamilySetting *setting)
{
  const PsFamily *family = ps_family_find (name);

  g_assert_nonnull (family);
  return fine (ps_family_generate (family, setting, &error));
}

/* Validates, lowers and simulates; takes the schedule. */
static inline PsSimulation *reference_simulate (PsSchedule *schedule, const PsCosts *costs, PsProgram **program)
{
  *program = lower (schedule);
  PsSimulation *simulation = ps_simulation_new (*program);
  ps_simulate (*program, costs, simulation);
  return simulation;
}

static inline gint64 reference_peak (const PsSimulation *simulation)
{
  gint64 peak = 0;

  for (guint device = 0; device < simulation->n_devices; device++)
    peak = MAX (peak, simulation->device[device].peak_bytes);
  return peak;
}

/* The order of a device as family_orders.jsonl writes it, without the numbers of pairs: "F:0:0 BW:0:0 F:0:1:q2". */
static inline char *reference_order (const PsSchedule *schedule, guint device)
{
  GString *text = g_string_new (NULL);

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++) {
    PsOp op = schedule->ops[i];

    g_string_append_printf (text, "%s%s:%u:%u", text->len ? " " : "", ps_op_kind_name ((PsOpKind)op.kind),
                            (guint)op.stage, (guint)op.microbatch);
    if (schedule->n_slices > 1)
      g_string_append_printf (text, ":q%u", (guint)op.slice);
  }
  return g_string_free (text, FALSE);
}

/* The costs of a row of peer_schedulers.csv. */
static inline PsCosts *reference_peer_costs (const ReferenceRow *row, guint n_stages)
{
  return reference_costs (n_stages, reference_integer (row, "f"), reference_integer (row, "b"),
                          reference_integer (row, "w"), reference_integer (row, "c"), reference_integer (row, "mem_f"),
                          -reference_integer (row, "mem_w"));
}
