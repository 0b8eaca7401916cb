/* sum.h - gradients added up over all devices with the same stages: both weight copies, all replicas. */
#pragma once

#include "worker.h"

/* The device with the same stages in the other weight copy, for each device; NULL: the schedule has one copy. Free with
 * g_free. PS_ERROR_UNAVAILABLE where devices do not pair up so, or where a device holds a stage twice. */
gboolean ps_sum_twins (const PsSchedule *schedule, guint **twin, GError **error);

/* Adds up the gradients of one of the worker's stages. Every device's thread calls it before each O, for the stages of
 * a step in ascending order. Where the optimizer state is spread and nothing else needs them, a replica gets the sums
 * of its share only. */
gboolean ps_sum_gradients (PsWorker *worker, guint stage, GError **error);

/* After an O: where the optimizer state is spread over replicas, brings the weights together that each has stepped. */
gboolean ps_sum_weights (PsWorker *worker, guint stage, GError **error);

/* Whether the device shows the gradients of a stage: it is the one with weight copy 0. */
static inline gboolean
ps_shows_gradients (const PsSchedule *schedule, guint device, guint stage)
{
  return ps_placement_device (schedule->placement, 0, stage) == device;
}
