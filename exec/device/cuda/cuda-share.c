/* cuda-share.c - which GPU a device gets, and how many multiprocessors of it. */
#include "cuda-share.h"

static guint
gpu_of (guint index, guint n_local, guint n_gpus)
{
  return n_local <= n_gpus ? index : (guint)((guint64)index * n_gpus / n_local);
}

PsCudaPlace
ps_cuda_place (guint index, guint n_local, gboolean exclusive, guint n_gpus)
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

static gboolean
share_evenly (guint n_sms, guint least, guint multiple, guint n, guint *sms, GError **error)
{
  const guint each = n_sms / n / multiple * multiple;

  if (each < least || each == 0)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
                   "cuda device: %u devices can't share a GPU of %u multiprocessors: each needs %u at least", n, n_sms,
                   MAX (least, multiple));
      return FALSE;
    }
  for (guint i = 0; i < n; i++)
    sms[i] = each;
  return TRUE;
}

gboolean
ps_cuda_share (guint n_sms, guint least, guint multiple, guint n, const guint *wanted, guint *sms, GError **error)
{
  guint64 sum = 0;

  if (wanted == NULL)
    return share_evenly (n_sms, least, multiple, n, sms, error);
  for (guint i = 0; i < n; i++)
    {
      if (wanted[i] < least || wanted[i] % multiple != 0)
        {
          g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
                       "cuda device: a share of %u multiprocessors: at least %u and a multiple of %u would be right",
                       wanted[i], least, multiple);
          return FALSE;
        }
      sum += sms[i] = wanted[i];
    }
  if (sum <= n_sms)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
               "cuda device: shares of %" G_GUINT64_FORMAT " multiprocessors together: the GPU has %u", sum, n_sms);
  return FALSE;
}
