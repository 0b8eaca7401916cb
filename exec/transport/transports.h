/* transports.h - what transport classes share, and the class that is in no module. */
#pragma once

#include <pipesim/transport.h>

/* Equal for two ops that name the same message: B and BW hand on the same thing. */
static inline guint64
ps_message_key (PsOp op)
{
  guint64 kind = op.kind == PS_OP_BW ? PS_OP_B : op.kind;

  return kind << 56 | (guint64)op.slice << 48 | (guint64)op.stage << 32 | op.microbatch;
}

/* The devices of a PsCircleKind. */
typedef struct
{
  guint n, own; /* devices, and the place of this one among them */
  guint first;  /* the device at place 0, counted over all pipelines */
  guint pair;   /* from it to its twin, which has the next place; 0: it has none */
  guint step;   /* from it to the next device without a twin between them */
} PsCircle;

PsCircle ps_circle_of (const PsTransportSetting *setting, guint at, PsCircleKind kind);

/* The device at a place, counted over all pipelines. */
guint ps_circle_device (const PsCircle *circle, guint place);

extern const PsTransportClass ps_threads_transport; /* between threads of one process */
