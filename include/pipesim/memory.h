/* memory.h - where the bytes of each device go, over time and at its peak. */
#ifndef PIPESIM_MEMORY_H
#define PIPESIM_MEMORY_H

#include <pipesim/simulate.h>

G_BEGIN_DECLS

typedef enum
{
  PS_MEMORY_WEIGHTS,       /* what kernels read */
  PS_MEMORY_GRADIENTS,     /* accumulated over the microbatches */
  PS_MEMORY_OPTIMIZER,     /* moments and master weights */
  PS_MEMORY_STATE,         /* these three together, where only their sum is known */
  PS_MEMORY_VERSIONS,      /* further versions of the weights */
  PS_MEMORY_ACTIVATIONS,   /* what an F leaves for its B or BW */
  PS_MEMORY_WEIGHT_INPUTS, /* what a B leaves for its W */
  PS_MEMORY_WORKSPACE,     /* what ops need only while they run; what is recomputed or comes back from the host counts
                              here too */
  PS_MEMORY_BUFFERS,       /* messages, see below */
  PS_N_MEMORY_PARTS
} PsMemoryPart;

/* Stable keys: "weights", "gradients", "optimizer", "state", "versions", "activations", "weight_inputs", "workspace",
 * "buffers". */
const char *ps_memory_part_key (PsMemoryPart part);

/* One device from time_ns on, until the next moment. */
typedef struct
{
  gint64 time_ns;
  gint64 bytes[PS_N_MEMORY_PARTS];
} PsMemoryMoment;

/* What one microbatch (or slice of it) has on one stage. */
typedef struct
{
  guint32 microbatch;
  guint16 stage;
  guint8 slice;
  guint8 part; /* PS_MEMORY_ACTIVATIONS or PS_MEMORY_WEIGHT_INPUTS */
  gint64 bytes;
} PsMemoryHolding;

typedef struct
{
  gint64 peak_bytes;   /* the largest sum of all parts */
  PsMemoryMoment peak; /* when it is first reached */
  GArray *alive;       /* PsMemoryHolding at that moment, by stage, microbatch, slice */
  GArray *curve; /* PsMemoryMoment, by time, from 0 on; what changes at one instant makes one moment, so that a peak
                    that lasts no time is not on the curve */
} PsDeviceMemory;

typedef struct
{
  guint n_devices;
  PsDeviceMemory *device; /* [n_devices] */
} PsMemory;

/* Walks the result of either engine; every peak_bytes is that of the simulation. Messages count where
 * PsCosts.message_bytes says how large they are: at the receiver from when its stream has come to the RECEIVE, or the
 * transfer has started, until an F has taken the activation over as part of what it keeps, or the B or BW that reads
 * the gradient ends; at the sender from the producer's end until the transfer's. Free with ps_memory_free. */
PsMemory *ps_memory_new (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation);
void ps_memory_free (PsMemory *memory);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsMemory, ps_memory_free)

/* Bytes of all parts together. */
gint64 ps_memory_sum (const PsMemoryMoment *moment);

/* "stage 0: 0-3, 5; stage 4: 1, W 0": the microbatches of each stage that have activations, then those of which only
 * W's inputs are left. Free with g_free. */
char *ps_memory_describe_alive (const PsDeviceMemory *memory);

G_END_DECLS

#endif
