/* layouts-rig.h - questions about layouts on a small cluster. */
#pragma once

#include "folder-rig.h"

#include <pipesim/plan.h>

#define CLUSTER                                                                                                        \
  "[cluster]\nnodes = 1\ndevices_per_node = 4\nmemory = 4GiB\npeak_flops = 1e12\nefficiency = 0.5\n"                   \
  "link_latency = 20us\nlink_bandwidth = 5GB/s\n"

static inline char *
write_cluster (const char *name, const char *text)
{
  char *path = g_build_filename (folder, name, NULL);

  fine (g_file_set_contents (path, text, -1, &error));
  return path;
}

static inline char *
cluster_file (void)
{
  return write_cluster ("c.ini", CLUSTER);
}

static inline PsLayouts *
find (const PsLayoutQuestion *question)
{
  return fine (ps_layouts_find (question, &error));
}

static inline const PsLayout *
at (const PsLayouts *layouts, guint i)
{
  g_assert_cmpuint (i, <, layouts->best->len);
  return &g_array_index (layouts->best, PsLayout, i);
}
