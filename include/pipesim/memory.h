/* memory.h - the bytes that each device holds by their use, over time and at its peak. */
#ifndef PIPESIM_MEMORY_H
#define PIPESIM_MEMORY_H

#include <pipesim/simulate.h>

G_BEGIN_DECLS

typedef enum
{
  PS_MEMORY_WEIGHTS,       /* the copy that kernels read; gathered ones too */
  PS_MEMORY_GRADIENTS,     /* accumulated over the microbatches; those too that wait to be scattered */
  PS_MEMORY_OPTIMIZER,     /* moments and master weights */
  PS_MEMORY_STATE,         /* these three together, if only their sum is known */
  PS_MEMORY_VERSIONS,      /* further versions of the weights */
  PS_MEMORY_ACTIVATIONS,   /* an F leaves them for its B or BW */
  PS_MEMORY_WEIGHT_INPUTS, /* a B leaves them for its W */
  PS_MEMORY_WORKSPACE,     /* ops need it only while they run; activations that are recomputed or come back from the
                              host count here too */
  PS_MEMORY_BUFFERS,       /* messages, see below */
  PS_MEMORY_FRAMEWORK,     /* of the framework itself, see framework.h: dummy gradients, workspaces */
  PS_MEMORY_CONTEXT,       /* of driver, libraries and allocator, which the framework does not count */
  PS_N_MEMORY_PARTS
} PsMemoryPart;

/* Stable keys: "weights", "gradients", "optimizer", "state", "versions", "activations", "weight_inputs", "workspace",
 * "buffers", "framework", "context". */
const char *ps_memory_part_key (PsMemoryPart part);

/* One device from time_ns on, until the next moment. */
typedef struct
{
  gint64 time_ns;
  gint64 bytes[PS_N_MEMORY_PARTS];
} PsMemoryMoment;

/* The bytes of one microbatch (or slice of it) on one stage. */
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
  GArray *curve; /* PsMemoryMoment, by time, from 0 on; all changes of one instant make one moment, so a peak that lasts
                    no time is not on the curve */
} PsDeviceMemory;

typedef struct
{
  guint n_devices;
  PsDeviceMemory *device; /* [n_devices] */
} PsMemory;

/* Walks the result of either engine; every peak_bytes equals that of the simulation. Messages count if
 * PsCosts.message_bytes gives their size. At the receiver they count from when its stream has come to the RECEIVE, or
 * the transfer has started; until an F takes the activation over, or the B or BW that reads the gradient ends. At the
 * sender they count from the producer's end until the transfer's. Free with ps_memory_free. */
PsMemory *ps_memory_new (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation);
void ps_memory_free (PsMemory *memory);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsMemory, ps_memory_free)

/* Bytes of all parts together. */
gint64 ps_memory_sum (const PsMemoryMoment *moment);

/* "stage 0: 0-3, 5; stage 4: 1, W 0": the microbatches of each stage that have activations, then the
 * microbatches with only W's inputs left. Free with g_free. */
char *ps_memory_describe_alive (const PsDeviceMemory *memory);

G_END_DECLS

#endif
