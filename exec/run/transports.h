/* transports.h - what transport classes share, and the class that is in no module. */
#pragma once

#include <pipesim/transport.h>

/* Equal for two ops that name the same message: B and BW hand on the same thing. */
static inline guint64 ps_message_key (PsOp op)
{
  guint64 kind = op.kind == PS_OP_BW ? PS_OP_B : op.kind;

  return kind << 56 | (guint64)op.slice << 48 | (guint64)op.stage << 32 | op.microbatch;
}

/* The devices of a PsCircleKind. */
typedef struct {
  guint n, own; /* devices, and the place of this one among them */
  guint first;  /* the device at place 0, counted over all pipelines */
  guint pair;   /* from it to its twin, which has the next place; 0: it has none */
  guint step;   /* from it to the next device without a twin between them */
} PsCircle;

static inline PsCircle ps_circle_of (const PsTransportSetting *setting, guint at, PsCircleKind kind)
{
  const guint n_tensor = MAX (setting->n_tensor, 1), device = at % setting->n_devices;
  const guint pipeline = setting->pipeline + at / setting->n_devices;
  const guint replica = pipeline / n_tensor, part = pipeline % n_tensor;
  const guint twin = kind == PS_CIRCLE_WEIGHTS && setting->twin != NULL ? setting->twin[device] : device;
  const guint first = MIN (device, twin), pair = MAX (device, twin) - first;

  if (kind == PS_CIRCLE_TENSOR)
    return (PsCircle){
      .n = n_tensor, .own = part, .first = replica * n_tensor * setting->n_devices + device, .step = setting->n_devices
    };
  return (PsCircle){ .n = setting->n_replicas * (pair > 0 ? 2 : 1),
                     .own = pair > 0 ? 2 * replica + (device > first) : replica,
                     .first = part * setting->n_devices + first,
                     .pair = pair,
                     .step = n_tensor * setting->n_devices };
}

/* The device at a place, counted over all pipelines. */
static inline guint ps_circle_device (const PsCircle *circle, guint place)
{
  if (circle->pair == 0)
    return circle->first + place * circle->step;
  return circle->first + place / 2 * circle->step + place % 2 * circle->pair;
}

extern const PsTransportClass ps_threads_transport; /* between threads of one process */
