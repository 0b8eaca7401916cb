/* torch-reader.h - the state of reading PyTorch profiler traces. Private to sim/observe. */
#pragma once

#include "trace-events.h"
#include "trace-ranks.h"

/* The ranges of one thread, or one GPU stream, in one file, whose names tell equally much. */
typedef struct
{
  guint file;
  gboolean gpu;
  gint64 pid;
  gint64 tid;
  PsRangeNaming naming;
  PsRank *rank; /* its ranges, posts and waits */
} PsTorchThread;

/* An act of a thread at one instant: it posted one end of a message, received one, or ended an iteration. */
typedef struct
{
  guint file;
  gboolean gpu;
  enum
  {
    EVENT_RECEIVE,
    EVENT_SEND,
    EVENT_ARRIVED,
    EVENT_UPDATE,
    EVENT_MARK,
  } kind;
  gint64 start_ns;
  gint64 end_ns;
  gint64 pid;
  gint64 tid;
} PsTorchEvent;

typedef struct
{
  const char *where;
  PsTrace *traces;
  guint n_traces;
  gboolean gpu;         /* the GPU's ranges count, not the processor's */
  PsRangeNaming naming; /* ranges with these names count */
  guint8 *ops;          /* [n_traces] whether the file has any cpu_op */
  GPtrArray *threads;   /* of PsTorchThread */
  GArray *events;       /* of PsTorchEvent, by start */
  GPtrArray *ranks;     /* of PsRank, which the threads own */
  GPtrArray *owners;    /* the PsTorchThread of each rank */
} PsTorchReader;

static inline gboolean
ps_torch_is_op (const PsTraceRange *range)
{
  return g_str_equal (range->category, "cpu_op");
}

/* Finds when each range computes, and its posts. On a processor a range includes the time that it waits before it
 * computes, and with GPipe its messages. Without ops ranges count as they are. */
void ps_torch_find_computing (PsTorchReader *reader);
