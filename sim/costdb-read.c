/* costdb-read.c - reads profiles and measurements back. */
#include "costdb-private.h"

GPtrArray *
ps_costdb_profiles (PsCostDb *db, GError **error)
{
  g_autoptr (GPtrArray) profiles = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_profile_free);
  g_autoptr (PsRows) rows
      = ps_rows_new (db->file, error,
                     "SELECT name, model_name, model_digest, model_text, device, transport, host, processor, kernel, "
                     "libraries, version, created FROM profile ORDER BY name",
                     "");
  gboolean found = rows != NULL;
  while (found)
    {
      if (!ps_rows_next (rows, &found, error))
        return NULL;
      if (!found)
        break;
      PsProfile *profile = g_new0 (PsProfile, 1);
      char **const fields[] = { &profile->name,   &profile->model_name, &profile->model_digest, &profile->model_text,
                                &profile->device, &profile->transport,  &profile->host,         &profile->processor,
                                &profile->kernel, &profile->libraries,  &profile->version,      &profile->created };
      for (int i = 0; i < (int)G_N_ELEMENTS (fields); i++)
        *fields[i] = ps_rows_text (rows, i);
      g_ptr_array_add (profiles, profile);
    }
  return rows ? g_steal_pointer (&profiles) : NULL;
}

static PsOpKind
parse_kind (const char *name)
{
  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    if (g_str_equal (name, ps_op_kind_name ((PsOpKind)kind)))
      return (PsOpKind)kind;
  return PS_OP_F; /* transfers have none */
}

/* Columns as in the query of ps_costdb_measurements. */
static PsMeasurement *
read_measurement (PsRows *rows)
{
  PsMeasurement *m = g_new0 (PsMeasurement, 1);
  g_autofree char *subject = ps_rows_text (rows, 1);
  g_autofree char *kind = ps_rows_text (rows, 3);
  m->transfer = g_str_equal (subject, "transfer");
  m->shape = ps_rows_text (rows, 2);
  m->kind = parse_kind (kind);
  m->bytes = ps_rows_integer (rows, 4);
  m->devices = (guint)ps_rows_integer (rows, 5);
  m->time.n = (guint)ps_rows_integer (rows, 6);
  m->time.median_ns = ps_rows_integer (rows, 7);
  m->time.q1_ns = ps_rows_integer (rows, 8);
  m->time.q3_ns = ps_rows_integer (rows, 9);
  m->time.mad_ns = ps_rows_integer (rows, 10);
  m->time.min_ns = ps_rows_integer (rows, 11);
  m->take_bytes = ps_rows_integer (rows, 12);
  m->give_bytes = ps_rows_integer (rows, 13);
  m->state_bytes = ps_rows_integer (rows, 14);
  m->stop = ps_rows_text (rows, 15);
  m->taken = ps_rows_text (rows, 16);
  return m;
}

static gboolean
read_samples (PsCostDb *db, gint64 row, PsMeasurement *measurement, GError **error)
{
  g_autoptr (GArray) samples = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_autoptr (PsRows) rows
      = ps_rows_new (db->file, error, "SELECT ns FROM sample WHERE measurement = ?1 ORDER BY position", "i", row);
  gboolean found = rows != NULL;
  while (found)
    {
      if (!ps_rows_next (rows, &found, error))
        return FALSE;
      gint64 ns = found ? ps_rows_integer (rows, 0) : 0;
      if (found)
        g_array_append_val (samples, ns);
    }
  measurement->n_samples = samples->len;
  measurement->samples_ns = (gint64 *)(gpointer)g_array_free (g_steal_pointer (&samples), FALSE);
  return rows != NULL;
}

GPtrArray *
ps_costdb_measurements (PsCostDb *db, const char *profile, gboolean with_samples, GError **error)
{
  g_autoptr (GPtrArray) measurements = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);
  g_autoptr (PsRows) rows = ps_rows_new (
      db->file, error,
      "SELECT measurement.id, subject, shape, kind, bytes, devices, n, median_ns, q1_ns, q3_ns, mad_ns, min_ns, "
      "take_bytes, give_bytes, state_bytes, stop, taken "
      "FROM measurement JOIN profile ON profile.id = measurement.profile WHERE profile.name = ?1 "
      "ORDER BY subject, shape, instr ('|F|B|W|BW|R|O|', '|' || kind || '|'), bytes, devices",
      "s", profile);
  gboolean found = rows != NULL;
  while (found)
    {
      if (!ps_rows_next (rows, &found, error))
        return NULL;
      if (!found)
        break;
      PsMeasurement *measurement = read_measurement (rows);
      g_ptr_array_add (measurements, measurement);
      if (with_samples && !read_samples (db, ps_rows_integer (rows, 0), measurement, error))
        return NULL;
    }
  return rows ? g_steal_pointer (&measurements) : NULL;
}
