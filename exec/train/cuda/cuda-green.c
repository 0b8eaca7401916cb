/* cuda-green.c - splits a GPU's multiprocessors. */
#include "cuda-green.h"

#include "cuda-share.h"

#include <string.h>

/* Declares a pointer of the function's type in the header. */
#define ENTRY(name) __typeof__ (name) *name

static struct {
  ENTRY (cuGetErrorString);
  ENTRY (cuDeviceGet);
  ENTRY (cuDeviceGetDevResource);
  ENTRY (cuDevSmResourceSplitByCount);
  ENTRY (cuDevResourceGenerateDesc);
  ENTRY (cuGreenCtxCreate);
  ENTRY (cuGreenCtxDestroy);
  ENTRY (cuGreenCtxStreamCreate);
  ENTRY (cuCtxFromGreenCtx);
  ENTRY (cuCtxSetCurrent);
} driver;

static gboolean look_up (const char *name, void *entry)
{
  enum cudaDriverEntryPointQueryResult result;
  void *found = NULL;

  if (cudaGetDriverEntryPointByVersion (name, &found, CUDA_VERSION, cudaEnableDefault, &result) != cudaSuccess
      || result != cudaDriverEntryPointSuccess || found == NULL)
    return FALSE;
  memcpy (entry, &found, sizeof found);
  return TRUE;
}

#define LOOK_UP(name) look_up (#name, &driver.name)

static gboolean driver_load (void)
{
  return LOOK_UP (cuGetErrorString) && LOOK_UP (cuDeviceGet) && LOOK_UP (cuDeviceGetDevResource)
         && LOOK_UP (cuDevSmResourceSplitByCount) && LOOK_UP (cuDevResourceGenerateDesc) && LOOK_UP (cuGreenCtxCreate)
         && LOOK_UP (cuGreenCtxDestroy) && LOOK_UP (cuGreenCtxStreamCreate) && LOOK_UP (cuCtxFromGreenCtx)
         && LOOK_UP (cuCtxSetCurrent);
}

/* FALSE with *reason: the call failed. */
static gboolean succeeded (const char *what, CUresult result, char **reason)
{
  const char *text = NULL;

  if (result == CUDA_SUCCESS)
    return TRUE;
  driver.cuGetErrorString (result, &text);
  *reason = g_strdup_printf ("%s: %s", what, text != NULL ? text : "unknown error");
  return FALSE;
}

#define TRY(function, arguments, reason) succeeded (#function, driver.function arguments, reason)

/* One split into groups. Its results can't be split again, so all parts come from one split. */
typedef struct {
  CUdevResource *groups;
  guint n_groups; /* groups of the whole split */
  guint *n;       /* part i has the next n[i] groups */
} Split;

static void split_clear (Split *split)
{
  g_free (split->groups);
  g_free (split->n);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Split, split_clear)

static guint sms_of (const Split *split, guint first, guint n)
{
  guint sms = 0;

  for (guint i = first; i < first + n; i++)
    sms += split->groups[i].sm.smCount;
  return sms;
}

/* Returns the number that group sizes must be multiples of. An alignment that leaves no room for n groups is not meant
 * for groups. */
static guint alignment_of (const CUdevResource *whole, guint n)
{
  const guint alignment = MAX (whole->sm.smCoscheduledAlignment, 1);

  return alignment <= whole->sm.smCount / n ? alignment : 1;
}

/* Splits into n equal groups. The hardware makes fewer groups, or none, where they would cross the GPU's clusters. Then
 * smaller groups are tried. */
static gboolean split_evenly (const CUdevResource *whole, guint n, guint each, Split *split, char **reason)
{
  const guint step = alignment_of (whole, n);

  for (; each >= MAX (whole->sm.minSmPartitionSize, 1); each -= MIN (step, each)) {
    split->n_groups = n;
    g_clear_pointer (reason, g_free);
    if (TRY (cuDevSmResourceSplitByCount, (split->groups, &split->n_groups, whole, NULL, 0, each), reason)
        && split->n_groups == n)
      return TRUE;
  }
  if (*reason == NULL)
    *reason = g_strdup_printf ("its multiprocessors can't be split into %u parts", n);
  return FALSE;
}

/* Splits into the smallest possible groups, and divides them by weights. Wrong weights are an error; a refusal of the
 * driver is a reason. */
static gboolean split_by_weights (const CUdevResource *whole, guint unit, guint n, const guint *weights, Split *split,
                                  char **reason, GError **error)
{
  split->n_groups = whole->sm.smCount / unit;
  return TRY (cuDevSmResourceSplitByCount, (split->groups, &split->n_groups, whole, NULL, 0, unit), reason)
         && ps_cuda_share_units (split->n_groups, n, weights, split->n, error);
}

static gboolean create (PsCudaContext *context, CUdevice device, const Split *split, guint index, char **reason)
{
  CUdevResourceDesc description;
  guint first = 0;

  for (guint i = 0; i < index; i++)
    first += split->n[i];
  if (!TRY (cuDevResourceGenerateDesc, (&description, split->groups + first, split->n[index]), reason)
      || !TRY (cuGreenCtxCreate, (&context->green, description, device, CU_GREEN_CTX_DEFAULT_STREAM), reason))
    return FALSE;
  context->n_sms = sms_of (split, first, split->n[index]);
  return TRY (cuCtxFromGreenCtx, (&context->current, context->green), reason)
         && TRY (cuGreenCtxStreamCreate, (&context->stream, context->green, CU_STREAM_NON_BLOCKING, 0), reason);
}

/* Gives back everything made before a failure. */
static void give_up (PsCudaContext *context, guint n_sms)
{
  if (context->stream != NULL)
    cudaStreamDestroy (g_steal_pointer (&context->stream));
  ps_cuda_green_close (context);
  context->n_sms = n_sms;
}

/* FALSE with an error: the shares are wrong. FALSE with *reason: the driver refuses. */
static gboolean split_for (const CUdevResource *whole, guint n, const guint *shares, Split *split, char **reason,
                           GError **error)
{
  const guint least = MAX (whole->sm.minSmPartitionSize, 1), step = alignment_of (whole, n);
  const guint unit = (least + step - 1) / step * step;
  guint each;

  split->groups = g_new0 (CUdevResource, n + whole->sm.smCount / unit);
  split->n = g_new (guint, n);
  for (guint i = 0; i < n; i++)
    split->n[i] = 1;
  if (shares != NULL)
    return split_by_weights (whole, unit, n, shares, split, reason, error);
  return ps_cuda_share_evenly (whole->sm.smCount, least, step, n, &each, error)
         && split_evenly (whole, n, each, split, reason);
}

static gboolean split_and_create (PsCudaContext *context, CUdevice device, const CUdevResource *whole, guint n,
                                  guint index, const guint *shares, guint *sms, char **reason, GError **error)
{
  g_auto (Split) split = { 0 };

  if (!split_for (whole, n, shares, &split, reason, error))
    return FALSE;
  for (guint i = 0, first = 0; i < n; first += split.n[i++])
    sms[i] = sms_of (&split, first, split.n[i]);
  return create (context, device, &split, index, reason);
}

gboolean ps_cuda_green_open (PsCudaContext *context, guint n, guint index, const guint *shares, guint *sms,
                             char **reason, GError **error)
{
  static gsize loaded = 0;
  const guint n_sms = context->n_sms;
  CUdevResource whole;
  CUdevice device;

  if (g_once_init_enter (&loaded))
    g_once_init_leave (&loaded, driver_load () ? 1 : 2);
  if (loaded == 2) {
    *reason = g_strdup ("the driver has none");
    return TRUE;
  }
  if (!TRY (cuDeviceGet, (&device, context->gpu), reason)
      || !TRY (cuDeviceGetDevResource, (device, &whole, CU_DEV_RESOURCE_TYPE_SM), reason))
    return TRUE;
  if (split_and_create (context, device, &whole, n, index, shares, sms, reason, error))
    return TRUE;
  give_up (context, n_sms);
  return *reason != NULL;
}

gboolean ps_cuda_green_stream (PsCudaContext *context, GError **error)
{
  g_autofree char *reason = NULL;

  return succeeded ("making a stream",
                    driver.cuGreenCtxStreamCreate (&context->stream, context->green, CU_STREAM_NON_BLOCKING, 0),
                    &reason)
         || ps_refuse (error, PS_ERROR_UNAVAILABLE, "cuda device: %s", reason);
}

gboolean ps_cuda_green_enter (const PsCudaContext *context, GError **error)
{
  g_autofree char *reason = NULL;

  if (TRY (cuCtxSetCurrent, (context->current), &reason))
    return TRUE;
  return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cuda device: entering a part of a GPU: %s", reason);
}

/* The runtime must take the thread back first: a destroyed context may not stay current. */
void ps_cuda_green_close (PsCudaContext *context)
{
  if (context->green == NULL)
    return;
  cudaSetDevice (context->gpu);
  driver.cuGreenCtxDestroy (g_steal_pointer (&context->green));
  context->current = NULL;
}
