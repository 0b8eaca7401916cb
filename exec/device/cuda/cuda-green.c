/* cuda-green.c - splits a GPU's multiprocessors. */
#include "cuda-green.h"

#include "cuda-share.h"

#include <string.h>

/* Types from the header's prototypes. */
#define ENTRY(name) __typeof__ (name) *name

static struct
{
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

static gboolean
look_up (const char *name, void *entry)
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

static gboolean
driver_load (void)
{
  return LOOK_UP (cuGetErrorString) && LOOK_UP (cuDeviceGet) && LOOK_UP (cuDeviceGetDevResource)
         && LOOK_UP (cuDevSmResourceSplitByCount) && LOOK_UP (cuDevResourceGenerateDesc) && LOOK_UP (cuGreenCtxCreate)
         && LOOK_UP (cuGreenCtxDestroy) && LOOK_UP (cuGreenCtxStreamCreate) && LOOK_UP (cuCtxFromGreenCtx)
         && LOOK_UP (cuCtxSetCurrent);
}

/* FALSE with *reason on failure. */
static gboolean
succeeded (const char *what, CUresult result, char **reason)
{
  const char *text = NULL;

  if (result == CUDA_SUCCESS)
    return TRUE;
  driver.cuGetErrorString (result, &text);
  *reason = g_strdup_printf ("%s: %s", what, text != NULL ? text : "unknown error");
  return FALSE;
}

#define TRY(function, arguments, reason) succeeded (#function, driver.function arguments, reason)

/* The results of a split can't be split again, so all parts come from one. */
typedef struct
{
  CUdevResource *groups;
  guint n_groups; /* of the whole split */
  guint first, n; /* those that make this device's part */
} Split;

/* n equal groups; fewer are made than arithmetic says where they would cross the GPU's clusters: then smaller ones. */
static gboolean
split_evenly (const CUdevResource *whole, guint n, guint each, guint index, Split *split, char **reason)
{
  const guint step = MAX (whole->sm.smCoscheduledAlignment, 1);

  for (; each >= MAX (whole->sm.minSmPartitionSize, 1); each -= MIN (step, each))
    {
      *split = (Split){ .groups = split->groups, .n_groups = n, .first = index, .n = 1 };
      if (!TRY (cuDevSmResourceSplitByCount, (split->groups, &split->n_groups, whole, NULL, 0, each), reason))
        return FALSE;
      if (split->n_groups == n)
        return TRUE;
    }
  *reason = g_strdup_printf ("its multiprocessors can't be split into %u parts", n);
  return FALSE;
}

/* As many of the smallest groups as each share wants. */
static gboolean
split_by_shares (const CUdevResource *whole, guint unit, const guint *sms, guint index, Split *split, char **reason)
{
  guint n_needed;

  *split = (Split){ .groups = split->groups, .n_groups = whole->sm.smCount / unit, .n = sms[index] / unit };
  for (guint i = 0; i < index; i++)
    split->first += sms[i] / unit;
  n_needed = split->first + split->n;
  if (!TRY (cuDevSmResourceSplitByCount, (split->groups, &split->n_groups, whole, NULL, 0, unit), reason))
    return FALSE;
  if (split->n_groups >= n_needed)
    return TRUE;
  *reason
      = g_strdup_printf ("its multiprocessors make %u groups of %u, %u are needed", split->n_groups, unit, n_needed);
  return FALSE;
}

static gboolean
create (PsCudaContext *context, CUdevice device, const Split *split, char **reason)
{
  CUdevResourceDesc description;

  if (!TRY (cuDevResourceGenerateDesc, (&description, split->groups + split->first, split->n), reason)
      || !TRY (cuGreenCtxCreate, (&context->green, description, device, CU_GREEN_CTX_DEFAULT_STREAM), reason))
    return FALSE;
  context->n_sms = 0;
  for (guint i = 0; i < split->n; i++)
    context->n_sms += split->groups[split->first + i].sm.smCount;
  return TRY (cuCtxFromGreenCtx, (&context->current, context->green), reason)
         && TRY (cuGreenCtxStreamCreate, (&context->stream, context->green, CU_STREAM_NON_BLOCKING, 0), reason);
}

/* What was made before a failure is given back. */
static void
give_up (PsCudaContext *context, guint n_sms)
{
  if (context->stream != NULL)
    cudaStreamDestroy (g_steal_pointer (&context->stream));
  ps_cuda_green_close (context);
  context->n_sms = n_sms;
}

static gboolean
split_and_create (PsCudaContext *context, CUdevice device, const CUdevResource *whole, guint n, guint index,
                  const guint *shares, char **reason, GError **error)
{
  const guint least = MAX (whole->sm.minSmPartitionSize, 1), step = MAX (whole->sm.smCoscheduledAlignment, 1);
  const guint unit = (least + step - 1) / step * step, n_sms = context->n_sms;
  g_autofree CUdevResource *groups = g_new0 (CUdevResource, n + whole->sm.smCount / unit);
  g_autofree guint *sms = g_new (guint, n);
  Split split = { .groups = groups };
  gboolean done;

  if (!ps_cuda_share (whole->sm.smCount, least, shares != NULL ? unit : step, n, shares, sms, error))
    return FALSE;
  done = shares != NULL ? split_by_shares (whole, unit, sms, index, &split, reason)
                        : split_evenly (whole, n, sms[0], index, &split, reason);
  if (!done || !create (context, device, &split, reason))
    give_up (context, n_sms);
  return TRUE;
}

gboolean
ps_cuda_green_open (PsCudaContext *context, guint n, guint index, const guint *shares, char **reason, GError **error)
{
  static gsize loaded = 0;
  CUdevResource whole;
  CUdevice device;

  if (g_once_init_enter (&loaded))
    g_once_init_leave (&loaded, driver_load () ? 1 : 2);
  if (loaded == 2)
    {
      *reason = g_strdup ("the driver has none");
      return TRUE;
    }
  if (!TRY (cuDeviceGet, (&device, context->gpu), reason)
      || !TRY (cuDeviceGetDevResource, (device, &whole, CU_DEV_RESOURCE_TYPE_SM), reason))
    return TRUE;
  return split_and_create (context, device, &whole, n, index, shares, reason, error);
}

gboolean
ps_cuda_green_enter (const PsCudaContext *context, GError **error)
{
  g_autofree char *reason = NULL;

  if (TRY (cuCtxSetCurrent, (context->current), &reason))
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "cuda device: entering a part of a GPU: %s", reason);
  return FALSE;
}

/* The runtime takes back the thread first: a destroyed context may not stay current. */
void
ps_cuda_green_close (PsCudaContext *context)
{
  if (context->green == NULL)
    return;
  cudaSetDevice (context->gpu);
  driver.cuGreenCtxDestroy (g_steal_pointer (&context->green));
  context->current = NULL;
}
