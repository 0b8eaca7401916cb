/* nccl.h - stands in for NCCL where the tests emulate it: communicators over Unix sockets, between threads and
 * processes of one machine. Names and meanings: NCCL user guide, "NCCL API". Every operation is a rendezvous: a send is
 * done only when its receive has taken the data, however small it is. When the other end is gone, operations hang until
 * the communicator is aborted, as kernels do; so does send number PS_EMULATED_LOST_SEND of a process, 1 being the
 * first. With PS_EMULATED_POST_US every operation stays in progress that long; with PS_EMULATED_STUCK_POSTS for ever.
 */
#pragma once

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm *ncclComm_t;

typedef struct {
  char internal[128];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclSystemError = 2,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
} ncclResult_t;

/* Only blocking = 0 is understood. */
typedef struct {
  int blocking;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                                                                                        \
  {                                                                                                                    \
    1                                                                                                                  \
  }

typedef enum {
  ncclChar = 0,
  ncclFloat = 7,
} ncclDataType_t;

typedef enum {
  ncclSum = 0,
} ncclRedOp_t;

ncclResult_t ncclGetVersion (int *version);
const char *ncclGetErrorString (ncclResult_t result);
const char *ncclGetLastError (ncclComm_t comm);

/* Rank 0 must be in the process that has made the id. */
ncclResult_t ncclGetUniqueId (ncclUniqueId *id);
ncclResult_t ncclCommInitRankConfig (ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank, ncclConfig_t *config);
ncclResult_t ncclCommGetAsyncError (ncclComm_t comm, ncclResult_t *result);
ncclResult_t ncclCommFinalize (ncclComm_t comm);
ncclResult_t ncclCommDestroy (ncclComm_t comm);
ncclResult_t ncclCommAbort (ncclComm_t comm);

/* Between two ranks in one direction per communicator; or a rank's send to itself, grouped with its receive. */
ncclResult_t ncclGroupStart (void);
ncclResult_t ncclGroupEnd (void);
ncclResult_t ncclSend (const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv (void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);

/* Sums in the order of ranks. */
ncclResult_t ncclAllReduce (const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                            cudaStream_t stream);

#ifdef __cplusplus
}
#endif
