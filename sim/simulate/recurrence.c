/* recurrence.c - the steps of the scenario engine, with slots instead of ids, and classes of equal durations. */
#include <pipesim/simulate.h>

#define KEPT G_MAXUINT32

/* A recurrence under construction. */
typedef struct
{
  PsRecurrence *recurrence;
  guint32 *op_class;       /* [n_copies * n kinds * n_lengths * n_stages] class of ops outside pairs; 0 = none yet */
  guint32 *transfer_class; /* [n_copies * (1 + 2 n_lengths n_stages)] class of transfers; 0 = none yet */
  GHashTable *pair_class;  /* (cost, partner, device) as one number -> class */
  guint32 *last_use;       /* [n_steps] last step that reads this one's end; KEPT: the results read it too */
  GArray *op;              /* PsOpClass */
  GArray *transfer;        /* PsTransferClass */
  GArray *free_slots;      /* guint32, used as a stack: the slot freed last is in the cache */
} Builder;

static void
builder_clear (Builder *builder)
{
  g_free (builder->op_class);
  g_free (builder->transfer_class);
  g_hash_table_unref (builder->pair_class);
  g_free (builder->last_use);
  g_array_unref (builder->op);
  g_array_unref (builder->transfer);
  g_array_unref (builder->free_slots);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Builder, builder_clear)

static void
builder_init (Builder *builder, PsRecurrence *recurrence)
{
  const PsPlacement *placement = recurrence->program->schedule->placement;
  gsize stages = (gsize)placement->n_copies * placement->n_stages;

  builder->recurrence = recurrence;
  builder->op_class = g_new0 (guint32, stages * PS_N_OP_KINDS * recurrence->program->n_lengths);
  builder->transfer_class = g_new0 (guint32, 2 * stages * recurrence->program->n_lengths + placement->n_copies);
  builder->pair_class = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  builder->last_use = g_new0 (guint32, recurrence->n_steps);
  builder->op = g_array_new (FALSE, TRUE, sizeof (PsOpClass));
  builder->transfer = g_array_new (FALSE, TRUE, sizeof (PsTransferClass));
  builder->free_slots = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_array_set_size (builder->op, 1);
  g_array_set_size (builder->transfer, 1);
  recurrence->n_slots = 1;
}

static guint
copy_of (const PsProgram *program, guint step)
{
  const PsSchedule *schedule = program->schedule;

  return schedule->copy != NULL ? schedule->copy[schedule->ops[program->op_of[step]].microbatch] : 0;
}

static guint32
append_op_class (Builder *builder, guint32 cost, guint32 partner, guint16 device)
{
  PsOpClass class = { cost, partner, device };

  g_array_append_val (builder->op, class);
  return builder->op->len - 1;
}

static guint32
pair_class (Builder *builder, const PsStep *first, const PsStep *second)
{
  gint64 key = ((gint64)first->cost << 38) ^ ((gint64)second->cost << 16) ^ first->device;
  gpointer found = g_hash_table_lookup (builder->pair_class, &key);

  if (found == NULL)
    {
      found = GUINT_TO_POINTER (append_op_class (builder, first->cost, second->cost, first->device));
      g_hash_table_insert (builder->pair_class, g_memdup2 (&key, sizeof key), found);
    }
  return GPOINTER_TO_UINT (found);
}

static guint32
op_class (Builder *builder, guint i)
{
  const PsProgram *program = builder->recurrence->program;
  const PsStep *step = &program->steps[i];
  guint n_costs = PS_N_OP_KINDS * program->n_lengths * program->schedule->placement->n_stages;
  guint32 *class = &builder->op_class[(gsize)copy_of (program, i) * n_costs + step->cost];

  if (program->pair != NULL && program->pair[i] == PS_PAIR_FIRST)
    return 0;
  if (program->pair != NULL && program->pair[i] == PS_PAIR_SECOND)
    return pair_class (builder, step - 1, step);
  if (*class == 0)
    *class = append_op_class (builder, step->cost, PS_NO_PARTNER, step->device);
  return *class;
}

static guint32
transfer_class (Builder *builder, guint i)
{
  const PsProgram *program = builder->recurrence->program;
  const PsStep *step = &program->steps[i];
  guint n_transfers = 1 + 2 * program->n_lengths * program->schedule->placement->n_stages;
  guint32 *class = &builder->transfer_class[(gsize)copy_of (program, i) * n_transfers + step->transfer];

  if (step->input == 0)
    return 0;
  if (*class == 0)
    {
      PsTransferClass transfer = { step->transfer, program->steps[step->input - 1].device, step->device };

      g_array_append_val (builder->transfer, transfer);
      *class = builder->transfer->len - 1;
    }
  return *class;
}

static void
find_last_uses (Builder *builder)
{
  const PsProgram *program = builder->recurrence->program;
  const guint *first = program->schedule->first;

  for (guint i = 0; i < program->n_steps; i++)
    {
      if (program->steps[i].previous)
        builder->last_use[program->steps[i].previous - 1] = i;
      if (program->steps[i].input)
        builder->last_use[program->steps[i].input - 1] = i;
    }
  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    if (first[device] < first[device + 1])
      {
        builder->last_use[program->step_of[first[device]]] = KEPT;
        builder->last_use[program->step_of[first[device + 1] - 1]] = KEPT;
      }
}

/* The slot of an earlier step (id + 1; 0 = none). The slot is freed if step i is the last that reads it. */
static guint32
read_slot (Builder *builder, guint32 id, guint i)
{
  guint32 slot = id ? builder->recurrence->steps[id - 1].output : 0;

  if (id && builder->last_use[id - 1] == i)
    {
      g_array_append_val (builder->free_slots, slot);
      builder->last_use[id - 1] = KEPT;
    }
  return slot;
}

static guint32
take_slot (Builder *builder)
{
  guint n = builder->free_slots->len;
  guint32 slot;

  if (n == 0)
    return builder->recurrence->n_slots++;
  slot = g_array_index (builder->free_slots, guint32, n - 1);
  g_array_set_size (builder->free_slots, n - 1);
  return slot;
}

static void
build_steps (Builder *builder)
{
  PsRecurrence *recurrence = builder->recurrence;

  for (guint i = 0; i < recurrence->n_steps; i++)
    {
      const PsStep *step = &recurrence->program->steps[i];
      PsScenarioStep *built = &recurrence->steps[i];

      built->input = read_slot (builder, step->input, i);
      built->previous = read_slot (builder, step->previous, i);
      built->output = take_slot (builder);
      built->op = op_class (builder, i);
      built->transfer = transfer_class (builder, i);
    }
}

static void
find_ends (PsRecurrence *recurrence)
{
  const PsProgram *program = recurrence->program;
  const guint *first = program->schedule->first;
  guint n_devices = program->schedule->placement->n_devices;

  recurrence->first_slot = g_new0 (guint32, n_devices);
  recurrence->first_class = g_new0 (guint32, n_devices);
  recurrence->first_step = g_new0 (guint32, n_devices);
  recurrence->last_slot = g_new0 (guint32, n_devices);
  for (guint device = 0; device < n_devices; device++)
    if (first[device] < first[device + 1])
      {
        guint32 begin = program->step_of[first[device]], end = program->step_of[first[device + 1] - 1];

        recurrence->first_step[device] = begin;
        recurrence->first_slot[device] = recurrence->steps[begin].output;
        recurrence->first_class[device] = recurrence->steps[begin].op;
        recurrence->last_slot[device] = recurrence->steps[end].output;
      }
}

PsRecurrence *
ps_recurrence_new (const PsProgram *program)
{
  PsRecurrence *recurrence = g_new0 (PsRecurrence, 1);
  g_auto (Builder) builder = { 0 };

  recurrence->program = program;
  recurrence->n_steps = program->n_steps;
  recurrence->steps = g_new0 (PsScenarioStep, program->n_steps);
  builder_init (&builder, recurrence);
  find_last_uses (&builder);
  build_steps (&builder);
  find_ends (recurrence);
  recurrence->n_op_classes = builder.op->len;
  recurrence->n_transfer_classes = builder.transfer->len;
  recurrence->op = g_memdup2 (builder.op->data, builder.op->len * sizeof (PsOpClass));
  recurrence->transfer = g_memdup2 (builder.transfer->data, builder.transfer->len * sizeof (PsTransferClass));
  return recurrence;
}

void
ps_recurrence_free (PsRecurrence *recurrence)
{
  if (recurrence == NULL)
    return;
  g_free (recurrence->steps);
  g_free (recurrence->op);
  g_free (recurrence->transfer);
  g_free (recurrence->first_slot);
  g_free (recurrence->first_class);
  g_free (recurrence->first_step);
  g_free (recurrence->last_slot);
  g_free (recurrence);
}

gint64
ps_op_class_duration (const PsOpClass *op, const PsCosts *costs)
{
  return op->partner == PS_NO_PARTNER ? costs->op[op->cost].duration_ns
                                      : ps_costs_pair_ns (costs, op->cost, op->partner);
}

gint64
ps_transfer_class_duration (const PsTransferClass *transfer, const PsCosts *costs)
{
  return costs->transfer_ns[transfer->transfer];
}
