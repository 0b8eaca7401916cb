/* costdb-rig.h - cost databases, and measurements to put into them. */
#pragma once

#include "folder-rig.h"

#include <pipesim/costdb.h>

static inline void remove_database (const char *path)
{
  g_autofree char *log = g_strconcat (path, "-wal", NULL);
  g_autofree char *index = g_strconcat (path, "-shm", NULL);

  g_unlink (path);
  g_unlink (log);
  g_unlink (index);
}

static inline PsCostDb *open_db (const char *path, PsCostDbMode mode)
{
  return fine (ps_costdb_open (path, mode, &error));
}

/* In the folder of these tests. */
static inline PsCostDb *new_db (const char *name)
{
  g_autofree char *path = path_of (name);

  return open_db (path, PS_COSTDB_WRITE);
}

static inline PsModel *tiny (void)
{
  return ps_model_load ("tiny-gpt", NULL);
}

static inline PsProfile *new_profile (const char *name)
{
  g_autoptr (PsModel) model = tiny ();
  PsProfile *profile = g_new0 (PsProfile, 1);

  *profile = (PsProfile){ .name = g_strdup (name),
                          .model_name = g_strdup (model->name),
                          .model_digest = ps_model_digest (model),
                          .model_text = ps_model_to_text (model),
                          .device = g_strdup ("cpu"),
                          .transport = g_strdup ("threads"),
                          .shares = g_strdup (""),
                          .host = g_strdup ("box"),
                          .processor = g_strdup ("Fast CPU"),
                          .kernel = g_strdup ("Linux 6"),
                          .libraries = g_strdup ("BLAS 1"),
                          .version = g_strdup ("0.1.0"),
                          .created = g_strdup ("2026-01-01T00:00:00Z"),
                          .source = g_strdup (""),
                          .choices = g_strdup (""),
                          .places = g_strdup ("") };
  return profile;
}

static inline gint64 begin (PsCostDb *db, const char *name)
{
  g_autoptr (PsProfile) profile = new_profile (name);
  gint64 id = 0;

  fine (ps_costdb_begin_profile (db, profile, &id, &error));
  return id;
}

/* An op whose samples are median - 2, median, median + 5. */
static inline PsMeasurement *new_op (PsOpKind kind, const char *shape, guint devices, gint64 median)
{
  PsMeasurement *m = g_new0 (PsMeasurement, 1);
  const gint64 samples[] = { median + 5, median - 2, median };

  *m = (PsMeasurement){ .kind = kind,
                        .shape = g_strdup (shape),
                        .devices = devices,
                        .time = { median, median - 2, median + 5, 2, median - 2, 3 },
                        .take_bytes = 100 + kind,
                        .give_bytes = 10 + kind,
                        .state_bytes = 7000,
                        .stop = g_strdup ("converged"),
                        .samples_ns = g_memdup2 (samples, sizeof samples),
                        .n_samples = 3,
                        .taken = g_strdup ("2026-01-01T00:00:01Z") };
  return m;
}

static inline PsMeasurement *new_transfer (gint64 bytes, guint devices, gint64 median)
{
  PsMeasurement *m = new_op (PS_OP_F, "", devices, median);

  m->subject = PS_SUBJECT_TRANSFER;
  m->bytes = bytes;
  m->take_bytes = m->give_bytes = m->state_bytes = 0;
  return m;
}

static inline void store (PsCostDb *db, gint64 profile, PsMeasurement *taken)
{
  g_autoptr (PsMeasurement) measurement = taken;

  fine (ps_costdb_store (db, profile, measurement, &error));
}
