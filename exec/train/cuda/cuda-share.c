/* cuda-share.c - chooses a device's GPU and its number of multiprocessors. */
#include "cuda-share.h"

static guint gpu_of (guint index, guint n_local, guint n_gpus)
{
  return n_local <= n_gpus ? index : (guint)((guint64)index * n_gpus / n_local);
}

PsCudaPlace ps_cuda_place (guint index, guint n_local, gboolean exclusive, guint n_gpus)
{
  const guint n = MAX (n_local, 1);
  PsCudaPlace place = { .gpu = gpu_of (index, n, n_gpus), .first = index };

  if (exclusive)
    return (PsCudaPlace){ .gpu = index % n_gpus, .first = index, .n = 1 };
  while (place.first > 0 && gpu_of (place.first - 1, n, n_gpus) == place.gpu)
    place.first--;
  while (place.first + place.n < n && gpu_of (place.first + place.n, n, n_gpus) == place.gpu)
    place.n++;
  return place;
}

static gboolean refuse (guint n, guint n_parts, const char *what, GError **error)
{
  return ps_refuse (error, PS_ERROR_USAGE, "cuda device: %u devices can't share a GPU of %u %s", n, n_parts, what);
}

gboolean ps_cuda_share_evenly (guint n_sms, guint least, guint multiple, guint n, guint *sms, GError **error)
{
  *sms = n_sms / n / multiple * multiple;
  if (*sms >= MAX (least, 1))
    return TRUE;
  g_autofree char *what = g_strdup_printf ("multiprocessors: each needs %u at least", MAX (least, multiple));
  return refuse (n, n_sms, what, error);
}

/* TRUE if the first device has the greater claim to the next piece. A device without a piece comes before any other. */
static gboolean comes_before (guint weight, guint n_units, guint other_weight, guint n_other_units)
{
  if (n_units == 0 || n_other_units == 0)
    return n_units < n_other_units;
  return (guint64)weight * (2 * (guint64)n_other_units + 1) > (guint64)other_weight * (2 * (guint64)n_units + 1);
}

gboolean ps_cuda_share_units (guint n_units, guint n, const guint *weights, guint *units, GError **error)
{
  if (n_units < n)
    return refuse (n, n_units, "pieces: each needs one", error);
  for (guint i = 0; i < n; i++)
    units[i] = 0;
  for (guint unit = 0; unit < n_units; unit++) {
    guint next = 0;

    for (guint i = 1; i < n; i++)
      if (comes_before (weights[i], units[i], weights[next], units[next]))
        next = i;
    units[next]++;
  }
  for (guint i = 0; i < n; i++)
    for (guint k = 0; k < n; k++)
      if (weights[k] == weights[i])
        units[i] = MIN (units[i], units[k]);
  return TRUE;
}
