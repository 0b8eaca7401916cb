/* fuzz-cluster.c - cluster descriptions. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsCluster) cluster = ps_cluster_load (fuzz_file (data, size), &error);

  fuzz_check_error (cluster != NULL, &error);
  if (cluster != NULL) {
    const gint64 most = G_MAXINT64;
    const PsWork endless
        = { .n_kernels = 1,
            .kernel
            = { { .repeats = 1, .products = most, .m = most, .n = most, .k = most, .bits = 16, .bytes = most } } };

    g_assert_cmpint (ps_cluster_transfer_ns (cluster, 0, 1, 1 << 20), >=, 0);
    g_assert_cmpint (ps_work_ns (&endless, cluster, 0), >, 0);
  }
  return 0;
}
