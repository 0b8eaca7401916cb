/* nccl-endpoint.h - one device's ends of all its channels: how they come about, in an order that is the same
 * everywhere, and how they end. */
#pragma once

#include "nccl-channel.h"

#include "train/cuda/cuda-clock.h"

typedef struct {
  PsDevice *device;
  guint at;            /* first .. first + n_here - 1, as in PsTransportSetting */
  guint index;         /* of its pipeline's devices */
  gboolean staged;     /* the device's tensors are host memory: they travel by way of staging memory */
  gsize wire_bytes;    /* of every message */
  PsNcclChannel **out; /* [n_devices] to each device; NULL: nothing goes there */
  PsNcclChannel **in;  /* [n_devices] from each */
  PsNcclChannel *sums[PS_N_CIRCLE_KINDS]; /* to the others of each circle, by PsCircleKind; NULL: there are none */
  PsCudaClock clock;
  cudaStream_t idle; /* for the clock, and copies between host and GPU */
} PsNcclEndpoint;

/* setting outlives the endpoint, and so does *aborted. */
PsNcclEndpoint *ps_nccl_endpoint_new (const PsTransportSetting *setting, guint at, gint *aborted);
void ps_nccl_endpoint_free (PsNcclEndpoint *endpoint, guint n_devices);

/* Connects the endpoint of a device that the calling thread has attached: refuses GPUs that two devices want, exchanges
 * the communicators' names, creates them pair by pair, and sends a first message over each. */
gboolean ps_nccl_endpoint_join (PsNcclEndpoint *endpoint, const PsTransportSetting *setting, PsDevice *device,
                                GError **error);

/* Calls visit for all channels that there are, in the order in which they were opened. */
void ps_nccl_endpoint_visit (PsNcclEndpoint *endpoint, guint n_devices,
                             void (*visit) (PsNcclChannel *channel, gpointer data), gpointer data);

/* See ps_cuda_clock_set. */
gboolean ps_nccl_endpoint_anchor (PsNcclEndpoint *endpoint, GError **error);

/* When an event that is done took place, by the host's clock. */
gint64 ps_nccl_endpoint_time (const PsNcclEndpoint *endpoint, cudaEvent_t event);
