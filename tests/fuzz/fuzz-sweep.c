/* fuzz-sweep.c - specs of sweeps. One that is taken has settings, and its first and last one can be told apart. */
#include "fuzz.h"

#include <pipesim/sweep.h>

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = fuzz_text (data, size);
  g_autoptr (PsSweep) sweep = ps_sweep_parse ("fuzz", text, size, &error);
  char first[PS_DIGEST_LENGTH + 1], last[PS_DIGEST_LENGTH + 1];

  fuzz_check_error (sweep != NULL, &error);
  if (sweep == NULL)
    return 0;
  g_assert_cmpuint (ps_sweep_n_points (sweep), >=, 1);
  g_assert_cmpuint (ps_sweep_n_points (sweep), <=, PS_MAX_SWEEP_POINTS);
  ps_sweep_point_digest (sweep, 0, first);
  ps_sweep_point_digest (sweep, ps_sweep_n_points (sweep) - 1, last);
  g_assert_true (g_str_equal (first, last) == (ps_sweep_n_points (sweep) == 1));
  return 0;
}
