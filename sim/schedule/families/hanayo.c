/* hanayo.c - waves: the chunks of a device go down and up the devices in turn. The order is that of a device that never
 * waits when it can work, with F = 1 and BW = 2. A backward that can run goes first, else the forward of the deepest
 * stage, then the earlier microbatch. Published for m = p; more microbatches follow within the same memory. */
#include "families-private.h"

/* Counts say which microbatches are done, because they go in order within a stage. */
typedef struct
{
  const PsFamilySetting *setting;
  guint n_stages;
  guint first;     /* microbatch of the group that is being ordered */
  guint n;         /* how many it has */
  guint *done[2];  /* [F, backward][stage] */
  guint32 *end[2]; /* [F, backward][stage * m + microbatch] when it is done */
  guint32 *busy;   /* [device] until when */
  guint *held;     /* [device] activations of its chunks */
  GArray **order;  /* [device] of PsOp */
} Wave;

static guint
stage_of (const Wave *wave, guint device, guint chunk)
{
  guint p = wave->setting->n_devices;

  return chunk * p + (chunk % 2 ? p - 1 - device : device);
}

/* TRUE: a device may hold the activation of one more forward. It holds at most p for each chunk, and leaves room for
 * the forwards that its oldest microbatch still needs. So it can always go on. */
static gboolean
has_room (const Wave *wave, guint device, guint microbatch)
{
  guint v = wave->setting->n_chunks, oldest = microbatch, n_left = 0;

  for (guint chunk = 0; chunk < v; chunk++)
    oldest = MIN (oldest, wave->done[0][stage_of (wave, device, chunk)]);
  for (guint chunk = 0; chunk < v && oldest < microbatch; chunk++)
    n_left += wave->done[0][stage_of (wave, device, chunk)] == oldest;
  return wave->held[device] + 1 + n_left <= v * wave->setting->n_devices;
}

/* TRUE: the stage's next forward or backward can start at that time. At most 3 p / 2 microbatches are under way: more
 * of them, of several waves, would only be in each other's way. */
static gboolean
is_ready (const Wave *wave, guint device, gboolean backward, guint stage, guint32 now)
{
  guint m = wave->setting->n_microbatches, p = wave->setting->n_devices, microbatch = wave->done[backward][stage];
  gboolean last = stage + 1 == wave->n_stages;

  if (microbatch == wave->n || (!backward && !has_room (wave, device, microbatch)))
    return FALSE;
  if (!backward && stage == 0)
    return microbatch < wave->done[1][0] + p + p / 2;
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

      if (is_ready (wave, device, TRUE, candidate, now) && wave->done[1][candidate] < best)
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
      found = is_ready (wave, device, FALSE, *stage, now);
    }
  return found;
}

static void
start (Wave *wave, guint device, guint32 now, gboolean backward, guint stage)
{
  guint microbatch = wave->done[backward][stage]++;
  PsOp op = { .kind = backward ? PS_OP_BW : PS_OP_F,
              .stage = (guint16)stage,
              .microbatch = (wave->first + microbatch) & G_MAXINT32 };

  wave->busy[device] = wave->end[backward][(gsize)stage * wave->setting->n_microbatches + microbatch]
      = now + (backward ? 2 : 1);
  wave->held[device] += backward ? -1 : 1;
  g_array_append_val (wave->order[device], op);
}

/* The next n microbatches. Every moment at which something ends is a whole number. */
static void
run (Wave *wave, guint n)
{
  wave->n = n;
  for (guint stage = 0; stage < wave->n_stages; stage++)
    wave->done[0][stage] = wave->done[1][stage] = 0;
  for (guint device = 0; device < wave->setting->n_devices; device++)
    wave->busy[device] = 0;
  for (guint32 now = 0; wave->done[1][0] < n; now++)
    for (guint device = 0; device < wave->setting->n_devices; device++)
      {
        gboolean backward;
        guint stage;

        if (wave->busy[device] <= now && choose (wave, device, now, &backward, &stage))
          start (wave, device, now, backward, stage);
      }
  wave->first += n;
}

/* With two chunks the next wave fills the gaps of the one before, whatever ops take. With more chunks it could get in
 * the way, so waves of p follow each other. Fewer than p at the end go with the last of them. */
static void
run_all (Wave *wave)
{
  guint p = wave->setting->n_devices, m = wave->setting->n_microbatches;

  while (wave->first < m)
    {
      guint left = m - wave->first;

      run (wave, wave->setting->n_chunks == 2 || left < 2 * p ? left : p);
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
  wave->held = g_new0 (guint, setting->n_devices);
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
  g_free (wave->held);
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
  run_all (&wave);
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
  .description = "v / 2 waves down and up the devices; published for m = p, others follow within that memory",
  .constraints = "v even",
  .memory = "min (m, p)",
  .source = "Hanayo, arXiv 2308.15762",
  .default_chunks = 2,
  .check = check,
  .generate = generate,
};
