/* sentinel.c - times the sentinel op, F of one layer, which shows how fast the machine is. BW follows each F, because
 * it gives back what F keeps. */
#include "runtime.h"

#include "clock.h"
#include "transports.h"

#define MOST_SAMPLES 1000 /* of ops so short that more would say nothing new */

typedef struct {
  gint64 limit_ns;
  gint64 begin_ns;    /* of the first sample */
  GArray *samples_ns; /* gint64 */
} Reading;

/* PsMeasuring.step: the first one warms up. */
static gboolean take_sample (const PsMeasuredStep *step, gpointer data, gboolean *more, GError **error)
{
  Reading *reading = data;
  const PsMeasuredEvent *f = &g_array_index (step->events, PsMeasuredEvent, 0);
  const PsMeasuredEvent *bw = &g_array_index (step->events, PsMeasuredEvent, 1);
  const gint64 ns = f->own_ns > 0 ? f->own_ns : f->times.end_ns - f->times.start_ns;

  if (step->number == 1)
    reading->begin_ns = f->times.start_ns;
  if (step->number > 0)
    g_array_append_val (reading->samples_ns, ns);
  *more = reading->samples_ns->len < PS_MEDIAN_MIN_SAMPLES
          || (reading->samples_ns->len < MOST_SAMPLES && bw->times.end_ns - reading->begin_ns < reading->limit_ns);
  return TRUE;
}

PsSentinel *ps_sentinel_read (const PsDeviceClass *class, const PsModel *model, guint64 seed, GBytes *choices,
                              gint64 limit_ns, GError **error)
{
  const PsStageShape shapes[PS_LAYER_STAGES] = { [PS_LAYER_STAGE] = { .n_layers = 1 } };
  g_autoptr (GArray) samples = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_autoptr (GArray) stream = g_array_new (FALSE, FALSE, sizeof (PsInstruction));
  Reading reading = { .limit_ns = MIN (limit_ns, PS_SENTINEL_READING_NS), .samples_ns = samples };
  const PsMeasuring measuring = { .n_local = 1, .step = take_sample, .data = &reading };
  const PsRunSetting setting = { .device = class,
                                 .transport = &ps_threads_transport,
                                 .model = model,
                                 .shapes = shapes,
                                 .n_steps = 1,
                                 .n_replicas = 1,
                                 .seed = seed,
                                 .choices = choices,
                                 .measuring = &measuring };

  ps_stream_add (stream, PS_INSTRUCTION_COMPUTE, (PsOp){ .kind = PS_OP_F, .stage = PS_LAYER_STAGE }, 0);
  ps_stream_add (stream, PS_INSTRUCTION_COMPUTE, (PsOp){ .kind = PS_OP_BW, .stage = PS_LAYER_STAGE }, 0);
  if (!ps_measuring_run (&stream, 1, PS_LAYER_STAGES, 1, 1, &setting, error)) {
    g_prefix_error (error, "sentinel: ");
    return NULL;
  }
  PsSentinel *sentinel = g_new0 (PsSentinel, 1);
  *sentinel = (PsSentinel){ .what = g_strdup (PS_SENTINEL_OP),
                            .median_ns = ps_median ((gint64 *)(gpointer)samples->data, samples->len),
                            .n = samples->len,
                            .taken = ps_moment_now () };
  return sentinel;
}
