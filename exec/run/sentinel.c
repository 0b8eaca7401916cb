/* sentinel.c - times the sentinel op, F of one layer, which shows how fast the machine is. BW follows each F, because
 * it gives back what F keeps. */
#include "runtime.h"

#include "transports.h"

typedef struct {
  PsSentinelSample sample;
  gpointer data;
  gint64 begin_ns; /* of the first sample; 0: it has not begun */
} Sentinel;

/* PsMeasuring.step */
static gboolean read_sentinel (const PsMeasuredStep *step, gpointer data, gboolean *more, GError **error)
{
  Sentinel *sentinel = data;
  const PsMeasuredEvent *f = &g_array_index (step->events, PsMeasuredEvent, 0);
  const PsMeasuredEvent *bw = &g_array_index (step->events, PsMeasuredEvent, 1);

  *more = TRUE;
  if (step->number == 0)
    return TRUE;
  if (sentinel->begin_ns == 0)
    sentinel->begin_ns = f->times.start_ns;
  *more = sentinel->sample (sentinel->data, f->own_ns > 0 ? f->own_ns : f->times.end_ns - f->times.start_ns,
                            bw->times.end_ns - sentinel->begin_ns);
  return TRUE;
}

gboolean ps_sentinel_run (const PsDeviceClass *class, const PsModel *model, guint64 seed, GBytes *choices,
                          PsSentinelSample sample, gpointer data, GError **error)
{
  const PsStageShape shapes[PS_LAYER_STAGES] = { [PS_LAYER_STAGE] = { .n_layers = 1 } };
  Sentinel sentinel = { .sample = sample, .data = data };
  const PsMeasuring measuring = { .n_local = 1, .step = read_sentinel, .data = &sentinel };
  const PsRunSetting setting = { .device = class,
                                 .transport = &ps_threads_transport,
                                 .model = model,
                                 .shapes = shapes,
                                 .n_steps = 1,
                                 .n_replicas = 1,
                                 .seed = seed,
                                 .choices = choices,
                                 .measuring = &measuring };
  g_autoptr (GArray) stream = g_array_new (FALSE, FALSE, sizeof (PsInstruction));

  ps_stream_add (stream, PS_INSTRUCTION_COMPUTE, (PsOp){ .kind = PS_OP_F, .stage = PS_LAYER_STAGE }, 0);
  ps_stream_add (stream, PS_INSTRUCTION_COMPUTE, (PsOp){ .kind = PS_OP_BW, .stage = PS_LAYER_STAGE }, 0);
  g_autoptr (PsProgram) program = ps_measuring_program (&stream, 1, PS_LAYER_STAGES, 1, 1);
  g_autoptr (PsRunResult) result = ps_run (program, &setting, error);
  if (result == NULL)
    g_prefix_error (error, "sentinel: ");
  return result != NULL;
}
