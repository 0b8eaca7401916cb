/* nsys-trace.h - timelines from Nsight Systems exports: SQLite databases. Private to sim/formats. */
#pragma once

#include "trace-ranks.h"

/* Whether a file is an SQLite database. */
gboolean ps_nsys_recognise (const char *path);

/* Reads the exports of one run from n files. A list of PsTimeline. Errors: PS_ERROR_IO, PS_ERROR_INPUT. */
GPtrArray *ps_nsys_read (const char *where, const char *const *paths, guint n, GError **error);

/* A kernel that sends or receives. */
typedef struct
{
  gint64 launched_ns; /* when the host asked for it */
  gint64 start_ns;
  gint64 end_ns;
} PsNsysKernel;

/* Gives a rank's numbered ranges the times of the device in place of the host's, whose posts and waits go; finds the
 * ends of messages among the kernels, and waits. named: names tell the ops of messages. */
void ps_nsys_take_device (PsRank *rank, GArray *kernels, gboolean named, guint n_stages, guint n_ranks);
