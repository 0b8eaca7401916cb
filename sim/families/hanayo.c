/* hanayo.c - waves: the chunks of a device go down and up the devices in turn. The order is what a device that never
 * waits when it can work comes to with F = 1 and BW = 2: a backward that can run goes first, else the forward of the
 * deepest stage, then the earlier microbatch. */
#include "families-private.h"

/* Within one stage microbatches go in order, so counts say what is done. */
typedef struct
{
  const PsFamilySetting *setting;
  guint n_stages;
  guint *done[2];  /* [F, backward][stage] */
  guint32 *end[2]; /* [F, backward][stage * m + microbatch] when it is done */
  guint32 *busy;   /* [device] until when */
  GArray **order;  /* [device] of PsOp */
} Wave;

static guint
stage_of (const Wave *wave, guint device, guint chunk)
{
  guint p = wave->setting->n_devices;
  return chunk * p + (chunk % 2 ? p - 1 - device : device);
}

/* Whether the stage's next forward or backward can start at that time. No more than p microbatches are under way. */
static gboolean
is_ready (const Wave *wave, gboolean backward, guint stage, guint32 now)
{
  guint m = wave->setting->n_microbatches, microbatch = wave->done[backward][stage];
  gboolean last = stage + 1 == wave->n_stages;
  if (microbatch == m)
    return FALSE;
  if (!backward && stage == 0)
    return microbatch < wave->done[1][0] + wave->setting->n_devices;
  guint from = !backward ? stage - 1 : last ? stage : stage + 1;
  gboolean kind = backward && !last;
  return microbatch < wave->done[kind][from] && wave->end[kind][(gsize)from * m + microbatch] <= now;
}

static gboolean
choose (const Wave *wave, guint device, guint32 now, gboolean *backward, guint *stage)
{
  guint found = 0, best = G_MAXUINT;
  for (guint chunk = 0; chunk < wave->setting->n_chunks; chunk++)
    {
      guint candidate = stage_of (wave, device, chunk);
      if (is_ready (wave, TRUE, candidate, now) && wave->done[1][candidate] < best)
        {
          best = wave->done[1][candidate];
          *stage = candidate;
          found = *backward = TRUE;
        }
    }
  for (guint chunk = wave->setting->n_chunks; !found && chunk-- > 0;)
    {
      *stage = stage_of (wave, device, chunk);
      *backward = FALSE;
      found = is_ready (wave, FALSE, *stage, now);
    }
  return found;
}

static void
start (Wave *wave, guint device, guint32 now, gboolean backward, guint stage)
{
  guint microbatch = wave->done[backward][stage]++;
  PsOp op = { .kind = backward ? PS_OP_BW : PS_OP_F, .stage = (guint16)stage, .microbatch = microbatch & G_MAXINT32 };
  wave->busy[device] = wave->end[backward][(gsize)stage * wave->setting->n_microbatches + microbatch]
      = now + (backward ? 2 : 1);
  g_array_append_val (wave->order[device], op);
}

/* Every moment at which something ends is a whole number. */
static void
run (Wave *wave)
{
  for (guint32 now = 0; wave->done[1][0] < wave->setting->n_microbatches; now++)
    for (guint device = 0; device < wave->setting->n_devices; device++)
      {
        gboolean backward;
        guint stage;
        if (wave->busy[device] <= now && choose (wave, device, now, &backward, &stage))
          start (wave, device, now, backward, stage);
      }
}

static void
wave_init (Wave *wave, const PsFamilySetting *setting)
{
  guint n_stages = setting->n_devices * setting->n_chunks;
  *wave = (Wave){ .setting = setting, .n_stages = n_stages };
  for (guint i = 0; i < 2; i++)
    {
      wave->done[i] = g_new0 (guint, n_stages);
      wave->end[i] = g_new (guint32, (gsize)n_stages * setting->n_microbatches);
    }
  wave->busy = g_new0 (guint32, setting->n_devices);
  wave->order = g_new (GArray *, setting->n_devices);
  for (guint device = 0; device < setting->n_devices; device++)
    wave->order[device] = g_array_new (FALSE, FALSE, sizeof (PsOp));
}

static void
wave_clear (Wave *wave)
{
  for (guint i = 0; i < 2; i++)
    {
      g_free (wave->done[i]);
      g_free (wave->end[i]);
    }
  for (guint device = 0; device < wave->setting->n_devices; device++)
    g_array_unref (wave->order[device]);
  g_free (wave->order);
  g_free (wave->busy);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Wave, wave_clear)

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_multiple ("hanayo", "chunks", setting->n_chunks, 2, error);
}

static PsSchedule *
generate (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  PsScheduleBuilder *builder = ps_family_builder ("hanayo", PS_PLACEMENT_WAVE, setting);
  g_auto (Wave) wave;
  wave_init (&wave, setting);
  run (&wave);
  for (guint device = 0; device < setting->n_devices; device++)
    {
      for (guint i = 0; i < wave.order[device]->len; i++)
        ps_schedule_builder_add_op (builder, g_array_index (wave.order[device], PsOp, i));
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}

const PsFamily ps_family_hanayo = {
  .name = "hanayo",
  .description = "v / 2 waves down and up the devices; at most p microbatches under way, published for m = p",
  .constraints = "v even",
  .memory = "min (m, p)",
  .source = "Hanayo, arXiv 2308.15762",
  .default_chunks = 2,
  .check = check,
  .generate = generate,
};
