/* 1f1b-v.c - 1F1B on a V with backwards in one op: a block of six slots, packed as early as its repeats allow, at two
 * thirds of 1F1B's memory. */
#include "v-block.h"

/* Where in the period each device is busy already. */
typedef gboolean Busy[PS_V_PERIOD];

static gboolean
collides (const Busy busy, guint slot, guint length)
{
  return busy[slot % PS_V_PERIOD] || busy[(slot + length - 1) % PS_V_PERIOD];
}

/* The way of one microbatch, each op in the first slot that no repeat of another op of its device takes. */
static void
pack (guint (*offset)[4], guint p)
{
  g_autofree Busy *busy = g_new0 (Busy, p);
  guint slot = 0;

  for (guint type = PS_V_F_DOWN; type <= PS_V_B_UP; type++)
    for (guint i = 0; i < p; i++)
      {
        guint device = type == PS_V_F_DOWN || type == PS_V_B_DOWN ? i : p - 1 - i;
        guint length = type >= PS_V_B_DOWN ? 2 : 1;

        while (collides (busy[device], slot, length))
          slot++;
        busy[device][slot % PS_V_PERIOD] = busy[device][(slot + length - 1) % PS_V_PERIOD] = TRUE;
        offset[device][type] = slot;
        slot += length;
      }
}

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_two_chunks ("1f1b-v", setting, error);
}

static PsSchedule *
generate (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  guint p = setting->n_devices;
  g_autofree guint (*offset)[4] = g_malloc (p * sizeof *offset);

  pack (offset, p);
  g_autoptr (PsVBlock) block = ps_v_block_new (setting, (const guint (*)[4])offset, 2);
  ps_v_block_slide (block, -1, G_MAXUINT);
  PsScheduleBuilder *builder = ps_family_builder ("1f1b-v", PS_PLACEMENT_V, setting);
  PsVType type;
  guint microbatch;
  for (guint device = 0; device < p; device++)
    {
      for (guint slot = 0; slot < block->n_slots; slot++)
        if (ps_v_block_op (block, device, slot, &type, &microbatch))
          ps_schedule_builder_add_op (builder, ps_v_block_name (block, device, type, microbatch));
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}

const PsFamily ps_family_1f1b_v = {
  .name = "1f1b-v",
  .description = "1F1B on a V, backwards in one op, at about two thirds of the memory of 1F1B",
  .constraints = "v = 2",
  .memory = "min (m, 2 p / 3 + 1), rounded down",
  .source = "Pipeline Parallelism with Controllable Memory, arXiv 2405.15362",
  .default_chunks = 2,
  .check = check,
  .generate = generate,
};
