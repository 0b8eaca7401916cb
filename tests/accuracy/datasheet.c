/* datasheet.c - the machines of the rows by what their datasheets state, and nothing else. */
#include "datasheet.h"

#include <glib/gstdio.h>

/* Peaks are dense, links and networks in one direction. */
static const struct {
  const char *set;     /* the data set whose machine it is; NULL: any */
  const char *cluster; /* name of the shipped cluster with this GPU */
  const char *text;
} sheets[] = {
  /* ConnectX-6, four ports of 200 Gb/s for eight GPUs */
  { "vtrain", "a100-80gb",
    "memory = 80GB\npeak_flops = 312e12\nmemory_bandwidth = 2039GB/s\nlink_bandwidth = 300GB/s\n"
    "devices_per_node = 8\nnetwork_bandwidth = 12.5GB/s\n" },
  /* Omni-Path, four ports of 100 Gb/s for eight GPUs */
  { "bloom", "a100-80gb",
    "memory = 80GB\npeak_flops = 312e12\nmemory_bandwidth = 2039GB/s\nlink_bandwidth = 300GB/s\n"
    "devices_per_node = 8\nnetwork_bandwidth = 6.25GB/s\n" },
  { NULL, "h100-80gb",
    "memory = 80GB\npeak_flops = 989e12\npeak_flops_fp8 = 1979e12\nmemory_bandwidth = 3350GB/s\n"
    "link_bandwidth = 450GB/s\ndevices_per_node = 8\nnetwork_bandwidth = 50GB/s\n" },
  { NULL, "h200-141gb",
    "memory = 141GB\npeak_flops = 989e12\npeak_flops_fp8 = 1979e12\nmemory_bandwidth = 4800GB/s\n"
    "link_bandwidth = 450GB/s\ndevices_per_node = 8\nnetwork_bandwidth = 50GB/s\n" },
  { NULL, "b200-180gb",
    "memory = 180GB\npeak_flops = 2250e12\npeak_flops_fp8 = 4500e12\npeak_flops_fp4 = 9000e12\n"
    "memory_bandwidth = 7700GB/s\nlink_bandwidth = 900GB/s\ndevices_per_node = 8\n"
    "network_bandwidth = 50GB/s\n" },
  { NULL, "b300-270gb",
    "memory = 288GB\npeak_flops = 2250e12\npeak_flops_fp8 = 4500e12\npeak_flops_fp4 = 13500e12\n"
    "memory_bandwidth = 8000GB/s\nlink_bandwidth = 900GB/s\ndevices_per_node = 8\n"
    "network_bandwidth = 100GB/s\n" },
  { NULL, "gb200-186gb",
    "memory = 186GB\npeak_flops = 2500e12\npeak_flops_fp8 = 5000e12\npeak_flops_fp4 = 10000e12\n"
    "memory_bandwidth = 8000GB/s\nlink_bandwidth = 900GB/s\ndevices_per_node = 72\n"
    "network_bandwidth = 50GB/s\n" },
  { NULL, "gb300-279gb",
    "memory = 279GB\npeak_flops = 2500e12\npeak_flops_fp8 = 5000e12\npeak_flops_fp4 = 15000e12\n"
    "memory_bandwidth = 8000GB/s\nlink_bandwidth = 900GB/s\ndevices_per_node = 72\n"
    "network_bandwidth = 100GB/s\n" },
};

PsCluster *datasheet_cluster (const Row *row)
{
  for (guint i = 0; i < G_N_ELEMENTS (sheets); i++)
    if (g_str_equal (sheets[i].cluster, row_cluster_name (row))
        && (sheets[i].set == NULL || g_str_has_prefix (row->set->file, sheets[i].set))) {
      g_autofree char *path = g_build_filename (g_get_tmp_dir (), "datasheet-XXXXXX.ini", NULL);
      g_autofree char *text = g_strconcat ("[cluster]\nnodes = 1\n", sheets[i].text, NULL);
      int file = g_mkstemp (path);
      PsCluster *cluster = NULL;

      if (file >= 0 && g_close (file, NULL) && g_file_set_contents (path, text, -1, NULL))
        cluster = ps_cluster_load (path, NULL);
      g_unlink (path);
      return cluster;
    }
  return NULL;
}
