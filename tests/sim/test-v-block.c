/* Tests of blocks on a V, in sim/schedule/families/slots.c: sliding against its definition, evaluated from scratch for
 * every op. */
#include "schedule/families/slots.c"

#include "error-rig.h"

typedef guint Offsets[4];

/* A block as every family on a V has it: the ways of a microbatch one after the other, each op after the one that it
 * needs, in a slot that no repeat of another op of its device takes. Here with gaps drawn at random; FALSE where they
 * leave no such slot. */
static gboolean draw_offsets (GRand *rand, Offsets *offset, guint p, guint b_length)
{
  g_autofree guint *busy = g_new0 (guint, p); /* bit per slot of the period */
  guint slot = 0;

  for (guint type = F_DOWN; type <= B_UP; type++)
    for (guint i = 0; i < p; i++) {
      guint device = type == F_DOWN || type == B_DOWN ? i : p - 1 - i;
      guint length = type >= B_DOWN ? b_length : 1;
      guint tries = 0;

      slot += slot > 0 ? (guint)g_rand_int_range (rand, 0, 4) : 0;
      while (busy[device] & (1U << slot % PERIOD | 1U << (slot + length - 1) % PERIOD))
        if (slot++, ++tries == PERIOD)
          return FALSE;
      busy[device] |= 1U << slot % PERIOD | 1U << (slot + length - 1) % PERIOD;
      offset[device][type] = slot;
      slot += length;
    }
  return TRUE;
}

static guint length_of (const Block *block, Type type)
{
  return type == B_DOWN || type == B_UP ? block->b_length : 1;
}

/* Most activations of a device over all slots from `from` on to before `end`. */
static gint most_held (const Block *block, guint device, guint from, guint end)
{
  gint held = 0, most = 0;
  Type type;
  guint microbatch;

  for (guint slot = 0; slot < end; slot++) {
    if (block_op (block, device, slot, &type, &microbatch))
      held += type <= F_UP ? 1 : (type <= B_UP) != block->split ? -1 : 0;
    if (slot >= from)
      most = MAX (most, held);
  }
  return most;
}

/* No op starts in the slots, and none that starts before reaches them. */
static gboolean is_vacant (const Block *block, guint device, guint slot, guint length)
{
  Type type;
  guint microbatch;

  for (guint i = slot > 0 ? slot - 1 : 0; i < slot + length; i++)
    if (block_op (block, device, i, &type, &microbatch) && i + length_of (block, type) > slot)
      return FALSE;
  return TRUE;
}

/* One op slides to the first free slot after what it needs and after what stays, from which on its device never holds
 * `limit` before it takes one more. */
static void slide_one (Block *block, guint device, Type type, guint microbatch, guint from, guint barrier, gint limit)
{
  guint length = length_of (block, type), neighbour = device, to = barrier;
  Type needed = type;

  if (block_input (block, &neighbour, &needed))
    to = MAX (to, *block_slot (block, neighbour, needed, microbatch) + length_of (block, needed));
  while (type <= F_UP && to < from && most_held (block, device, to, from) >= limit)
    to++;
  if (to >= from)
    return;
  block_take (block, device, type, microbatch);
  while (to < from && !is_vacant (block, device, to, length))
    to++;
  block_put (block, device, type, microbatch, to);
}

static void slide_all (Block *block, gint64 after, guint end)
{
  Type type;
  guint microbatch;
  gint limit = 0;
  g_autofree guint *barrier = g_new0 (guint, block->n_devices);

  for (guint device = 0; device < block->n_devices; device++)
    limit = MAX (limit, most_held (block, device, 0, block->n_slots));
  for (guint device = 0; device < block->n_devices; device++)
    for (guint slot = 0; after >= 0 && slot < (guint)after + (device == 0); slot++)
      if (block_op (block, device, slot, &type, &microbatch))
        barrier[device] = slot + block->b_length;
  for (guint slot = after < 0 ? 0 : (guint)after; slot < MIN (end, block->n_slots); slot++)
    for (guint device = 0; device < block->n_devices; device++)
      if ((after < 0 || slot >= (guint)after + (device == 0)) && block_op (block, device, slot, &type, &microbatch))
        slide_one (block, device, type, microbatch, slot, barrier[device], limit);
}

static void check_slide (GRand *rand, guint b_length)
{
  guint p = (guint)g_rand_int_range (rand, 1, 7), m = (guint)g_rand_int_range (rand, 1, 14);
  PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = 2 };
  g_autofree Offsets *offset = g_new (Offsets, p);

  while (!draw_offsets (rand, offset, p, b_length))
    ;
  g_autoptr (Block) block = block_new (&setting, (const guint (*)[4])offset, b_length);
  g_autoptr (Block) expected = block_new (&setting, (const guint (*)[4])offset, b_length);
  /* As the families use it: all of a fused block; of a split one its beginning, and its end after a forward. */
  gboolean end = b_length == 1 && g_rand_boolean (rand);
  gint64 after = end ? (gint64)PERIOD * (m - 1) : -1;
  guint until = b_length == 1 && !end ? offset[0][B_UP] : G_MAXUINT;
  block_slide (block, after, until);
  slide_all (expected, after, until);
  g_assert_cmpmem (block->slot, (gsize)p * N_TYPES * m * sizeof *block->slot, expected->slot,
                   (gsize)p * N_TYPES * m * sizeof *expected->slot);
  g_assert_cmpmem (block->op, (gsize)p * block->n_slots * sizeof *block->op, expected->op,
                   (gsize)p * expected->n_slots * sizeof *expected->op);
}

static void test_slide (gconstpointer b_length)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);

  for (guint i = 0; i < 600; i++)
    check_slide (rand, GPOINTER_TO_UINT (b_length));
}

/* Whatever the waits, the schedule of a block is valid. */
static void test_hops (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (4);

  for (guint i = 0; i < 300; i++) {
    guint p = (guint)g_rand_int_range (rand, 1, 10), m = (guint)g_rand_int_range (rand, 1, 14);
    const PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = 2, .n_slices = 1 };
    g_autofree guint8 *wait = g_new (guint8, 4 * (gsize)p);

    for (guint k = 0; k < 4 * p; k++)
      wait[k] = (guint8)g_rand_int_range (rand, 0, 3);
    g_autoptr (PsSchedule) schedule = ps_family_v_hops (&setting, wait, g_rand_boolean (rand));
    fine (ps_schedule_validate (schedule, &error));
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/v-block/slide/split", GUINT_TO_POINTER (1), test_slide);
  g_test_add_data_func ("/v-block/slide/fused", GUINT_TO_POINTER (2), test_slide);
  g_test_add_func ("/v-block/hops", test_hops);
  return g_test_run ();
}
