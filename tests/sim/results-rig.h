/* results-rig.h - result databases, and sweeps that fill them. */
#pragma once

#include "folder-rig.h"
#include "store/database.h"

#include <pipesim/sweep.h>

#include <string.h>

static inline PsSweep *
parse (const char *text)
{
  return fine (ps_sweep_parse ("s.ini", text, strlen (text), &error));
}

#define SPEC                                                                                                           \
  "[sweep]\nschedule = all\ndevices = 2, 4\nmicrobatches = 4..12 step 4\n"                                             \
  "costs = f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB; f=1ms,b=2ms,w=1ms,c=500us,act=3MiB\n"                         \
  "bandwidth-factor = 0.25..4 x2\nmemory-limit = 16MiB, 32MiB\n"

static inline PsResults *
open_results (const char *name, PsResultsMode mode)
{
  g_autofree char *path = path_of (name);

  return fine (ps_results_open (path, mode, &error));
}

/* The tables of a database of results. */
static inline PsDatabase *
tables_of (const PsResults *results)
{
  static const PsDatabaseKind kind
      = { .what = "result database", .application_id = 0x50535257, .version = PS_RESULTS_VERSION };

  return fine (ps_database_open (ps_results_path (results), &kind, TRUE, &error));
}

static inline PsSweepProgress
run (const PsSweep *sweep, const char *name, guint n_jobs, PsShard shard)
{
  g_autoptr (PsResults) results = open_results (name, PS_RESULTS_WRITE);
  PsSweepRun how = { .n_jobs = n_jobs, .shard = shard };
  PsSweepProgress progress;

  fine (ps_sweep_run (sweep, results, &how, &progress, &error));
  g_assert_cmpuint (progress.present + progress.predicted + progress.skipped, ==, progress.n_points);
  return progress;
}
