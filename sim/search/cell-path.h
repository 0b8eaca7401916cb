/* cell-path.h - the positions of a cell's ops on each device: private to cells. */
#pragma once

#include "cell.h"

/* A device runs N_TRACKS ops in a turn, and their W. The results of the first N_FORTH ops go to the next device. The
 * inputs of the others come from the next device. */
#define N_TRACKS 4
#define N_FORTH 2

/* Ops of a kind, of the lanes of a direction. A lane is n_devices stages, one on each device. */
typedef struct
{
  guint8 kind;
  guint8 back;
} Track;

typedef struct
{
  const PsProblem *problem;
  const Track *track; /* [N_TRACKS] */
  guint n;            /* units of a turn */
  guint n_w;          /* W that have room in a turn */
  double unit_ns;
  guint (*at)[N_TRACKS];                              /* [n_devices] positions in the turn, in units */
  gboolean (*spend) (guint64 n_moves, gpointer data); /* as of ps_cell_plan */
  gpointer data;
} PsCellPath;

/* The tracks of a problem's cells: of lanes that all go one way, or of as many back as forth. */
const Track *ps_cell_tracks (const PsProblem *problem);

/* The mean over the track's lanes of what an op of theirs takes on a device. */
double ps_cell_duration (const PsProblem *problem, Track track, guint device);

/* The mean time from the start of an op on a device to the start of the next one on another device. */
double ps_cell_move (const PsProblem *problem, Track track, guint from, guint to);

/* Sets the positions for which the waits between devices are shortest in total. FALSE: there are none, or it was to
 * stop. */
gboolean ps_cell_path_find (const PsCellPath *path);

static inline guint
lanes_of (const PsProblem *problem)
{
  return problem->n_stages / problem->n_devices;
}

static inline gboolean
goes_back (const PsProblem *problem, guint lane)
{
  return problem->device[lane * problem->n_devices] != 0;
}

static inline guint
stage_at (const PsProblem *problem, guint lane, guint device)
{
  guint p = problem->n_devices;

  return lane * p + (goes_back (problem, lane) ? p - 1 - device : device);
}

static inline guint
modulo (gint64 x, guint n)
{
  return (guint)((x % n + n) % n);
}
