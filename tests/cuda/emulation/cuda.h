/* cuda.h - stands in for the CUDA driver API: what sharing a GPU by green contexts needs. Meanings: CUDA Driver API
 * reference, "Green Contexts". */
#pragma once

#define CUDA_VERSION 13000

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 914,
} CUresult;

typedef enum {
  CU_DEV_RESOURCE_TYPE_INVALID = 0,
  CU_DEV_RESOURCE_TYPE_SM = 1,
} CUdevResourceType;

typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUstream_st *CUstream;

typedef struct {
  CUdevResourceType type;
  struct {
    unsigned smCount, minSmPartitionSize, smCoscheduledAlignment; /* 8 and 8; before capability 9 4 and 2 */
  } sm;
  int was_split; /* and so can't be split again */
} CUdevResource;

typedef CUdevResource *CUdevResourceDesc;

#define CU_GREEN_CTX_DEFAULT_STREAM 1u
#define CU_STREAM_NON_BLOCKING 1u

CUresult cuGetErrorString (CUresult error, const char **text);
CUresult cuDeviceGet (CUdevice *device, int ordinal);
CUresult cuDeviceGetDevResource (CUdevice device, CUdevResource *resource, CUdevResourceType type);
CUresult cuDevSmResourceSplitByCount (CUdevResource *result, unsigned *n_groups, const CUdevResource *input,
                                      CUdevResource *remaining, unsigned flags, unsigned least);
CUresult cuDevResourceGenerateDesc (CUdevResourceDesc *description, CUdevResource *resources, unsigned n);
CUresult cuGreenCtxCreate (CUgreenCtx *green, CUdevResourceDesc description, CUdevice device, unsigned flags);
CUresult cuGreenCtxDestroy (CUgreenCtx green);
CUresult cuGreenCtxStreamCreate (CUstream *stream, CUgreenCtx green, unsigned flags, int priority);
CUresult cuCtxFromGreenCtx (CUcontext *context, CUgreenCtx green);
CUresult cuCtxSetCurrent (CUcontext context);

#ifdef __cplusplus
}
#endif
