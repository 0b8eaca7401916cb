/* fuzz-megatron-log.c - logs of Megatron-LM's timers. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsObserved) observed = ps_observed_new ();
  g_autoptr (GBytes) log = g_bytes_new (data, size);
  gboolean ok = ps_observed_add_log (observed, "fuzz", log, &error);

  fuzz_check_error (ok, &error);
  for (guint i = 0; ok && i < PS_N_OP_KINDS * observed->n_stages; i++)
    for (guint k = 0; k < observed->op[i]->len; k++) {
      gint64 ns = g_array_index (observed->op[i], gint64, k);

      g_assert_true (ns >= 0 && ns <= PS_MAX_TIME_NS);
    }
  return 0;
}
