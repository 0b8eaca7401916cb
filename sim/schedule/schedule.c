/* schedule.c - building, naming and checking the orders of ops. */
#include "base/large.h"
#include "base/put.h"

#include <pipesim/schedule.h>

#include <string.h>

void
ps_schedule_free (PsSchedule *schedule)
{
  if (schedule == NULL)
    return;
  g_free (schedule->name);
  g_free (schedule->origin);
  g_free (schedule->family);
  ps_placement_free (schedule->placement);
  g_free (schedule->copy);
  g_free (schedule->length);
  g_free (schedule->weight_versions);
  g_free (schedule->first);
  g_free (schedule->ops);
  g_clear_pointer (&schedule->posts, g_array_unref);
  g_free (schedule);
}

PsSchedule *
ps_schedule_copy (const PsSchedule *schedule)
{
  PsSchedule *copy = g_memdup2 (schedule, sizeof *schedule);
  guint n_devices = schedule->placement->n_devices;

  copy->name = g_strdup (schedule->name);
  copy->origin = g_strdup (schedule->origin);
  copy->family = g_strdup (schedule->family);
  copy->placement = ps_placement_copy (schedule->placement);
  copy->copy = g_memdup2 (schedule->copy, schedule->n_microbatches * sizeof *schedule->copy);
  copy->length = g_memdup2 (schedule->length, ps_schedule_n_cells (schedule) * sizeof *schedule->length);
  copy->weight_versions = g_memdup2 (schedule->weight_versions, n_devices * sizeof *schedule->weight_versions);
  copy->first = g_memdup2 (schedule->first, (n_devices + (gsize)1) * sizeof *schedule->first);
  copy->ops = g_memdup2 (schedule->ops, ps_schedule_n_ops (schedule) * sizeof *schedule->ops);
  if (schedule->posts != NULL)
    g_array_ref (copy->posts);
  return copy;
}

struct _PsScheduleBuilder
{
  PsSchedule *schedule;
  guint n_ops;
  guint n_allocated;
  guint device;
};

PsScheduleBuilder *
ps_schedule_builder_new (const char *name, PsPlacement *placement, guint n_microbatches)
{
  PsScheduleBuilder *builder = g_new0 (PsScheduleBuilder, 1);
  PsSchedule *schedule = builder->schedule = g_new0 (PsSchedule, 1);

  schedule->name = g_strdup (name);
  schedule->placement = placement;
  schedule->n_microbatches = n_microbatches;
  schedule->n_slices = 1;
  schedule->first = g_new0 (guint, (gsize)placement->n_devices + 1);
  return builder;
}

void
ps_schedule_builder_reserve (PsScheduleBuilder *builder, guint n)
{
  PsSchedule *schedule = builder->schedule;

  if (n <= builder->n_allocated - builder->n_ops)
    return;
  builder->n_allocated = MAX (1024, builder->n_ops + MAX (n, builder->n_ops));
  schedule->ops = g_renew (PsOp, schedule->ops, builder->n_allocated);
  ps_large (schedule->ops, builder->n_allocated * sizeof *schedule->ops);
}

void
ps_schedule_builder_add_op (PsScheduleBuilder *builder, PsOp op)
{
  if (G_UNLIKELY (builder->n_ops == builder->n_allocated))
    ps_schedule_builder_reserve (builder, 1);
  builder->schedule->ops[builder->n_ops++] = op;
}

PsOp *
ps_schedule_builder_room (PsScheduleBuilder *builder, guint n)
{
  ps_schedule_builder_reserve (builder, n);
  builder->n_ops += n;
  return &builder->schedule->ops[builder->n_ops - n];
}

void
ps_schedule_builder_add_ops (PsScheduleBuilder *builder, const PsOp *ops, guint n)
{
  memcpy (ps_schedule_builder_room (builder, n), ops, n * sizeof *ops);
}

void
ps_schedule_builder_add (PsScheduleBuilder *builder, PsOpKind kind, guint stage, guint microbatch)
{
  PsOp op = { .kind = (guint8)kind, .stage = (guint16)stage, .microbatch = microbatch & G_MAXINT32 };

  ps_schedule_builder_add_op (builder, op);
}

void
ps_schedule_builder_add_post (PsScheduleBuilder *builder, guint type, PsOp op)
{
  PsPost post = { .place = builder->n_ops, .device = (guint16)builder->device, .type = (guint8)type, .op = op };

  if (builder->schedule->posts == NULL)
    builder->schedule->posts = g_array_new (FALSE, FALSE, sizeof post);
  g_array_append_val (builder->schedule->posts, post);
}

void
ps_schedule_builder_next_device (PsScheduleBuilder *builder)
{
  g_return_if_fail (builder->device < builder->schedule->placement->n_devices);
  builder->schedule->first[++builder->device] = builder->n_ops;
}

PsSchedule *
ps_schedule_builder_end (PsScheduleBuilder *builder)
{
  PsSchedule *schedule = builder->schedule;

  while (builder->device < schedule->placement->n_devices)
    ps_schedule_builder_next_device (builder);
  schedule->ops = g_renew (PsOp, schedule->ops, MAX (builder->n_ops, 1));
  for (guint i = 0; i < builder->n_ops; i++)
    schedule->recomputes |= schedule->ops[i].kind == PS_OP_R;
  g_free (builder);
  return schedule;
}

char *
ps_op_format (PsOp op, char *buffer)
{
  char *to = ps_put_integer (ps_put (buffer, ps_op_kind_name ((PsOpKind)op.kind)), op.microbatch);

  to = ps_put_integer (ps_put (to, "."), op.stage);
  if (op.slice > 0)
    ps_put_integer (ps_put (to, "/"), op.slice);
  return buffer;
}

static gboolean
parse_digits (const char **text, guint64 max, guint64 *value)
{
  if (!g_ascii_isdigit (**text))
    return FALSE;
  for (*value = 0; g_ascii_isdigit (**text) && *value <= max; ++*text)
    *value = *value * 10 + (guint64)(**text - '0');
  return *value <= max;
}

static gboolean
parse_kind (const char **text, guint *kind)
{
  gsize length = 0;

  while (g_ascii_isupper ((*text)[length]))
    length++;
  for (*kind = 0; *kind < PS_N_OP_KINDS; ++*kind)
    {
      const char *name = ps_op_kind_name ((PsOpKind)*kind);

      if (strncmp (name, *text, length) == 0 && name[length] == '\0')
        {
          *text += length;
          return TRUE;
        }
    }
  return FALSE;
}

gboolean
ps_op_parse (const char *text, const char **end, PsOp *op)
{
  guint64 microbatch, stage, slice = 0;
  guint kind;

  if (!parse_kind (&text, &kind) || !parse_digits (&text, PS_MAX_MICROBATCHES - 1, &microbatch) || *text++ != '.'
      || !parse_digits (&text, PS_MAX_STAGES - 1, &stage))
    return FALSE;
  if (*text == '/')
    {
      text++;
      if (!parse_digits (&text, G_MAXUINT8, &slice))
        return FALSE;
    }
  *op = (PsOp){
    .kind = (guint8)kind, .slice = (guint8)slice, .stage = (guint16)stage, .microbatch = microbatch & G_MAXINT32
  };
  *end = text;
  return TRUE;
}

guint8 *
ps_schedule_recomputed (const PsSchedule *schedule)
{
  guint8 *recomputed;

  if (!schedule->recomputes)
    return NULL;
  recomputed = g_new0 (guint8, ps_schedule_n_cells (schedule));
  for (guint i = 0; i < ps_schedule_n_ops (schedule); i++)
    if (schedule->ops[i].kind == PS_OP_R)
      recomputed[ps_schedule_cell (schedule, schedule->ops[i])] = 1;
  return recomputed;
}

/* seen has one bit per op kind for each stage, microbatch and slice (ps_schedule_cell). */
typedef struct
{
  const PsSchedule *schedule;
  guint8 *seen;
} Check;

#define BIT(kind) (1U << (kind))
#define BACKWARD (BIT (PS_OP_B) | BIT (PS_OP_BW))

static const char *
range_problem (const PsSchedule *schedule, PsOp op)
{
  if (op.kind == PS_OP_O)
    return "the optimizer step is no part of a schedule";
  if (op.stage >= schedule->placement->n_stages)
    return "no such stage";
  if (op.microbatch >= schedule->n_microbatches)
    return "no such microbatch";
  return op.slice >= schedule->n_slices ? "no such slice" : NULL;
}

/* Slices run forward in order and backward in reverse. */
static const char *
order_problem (const Check *check, PsOp op)
{
  const guint8 *cell = &check->seen[ps_schedule_cell (check->schedule, op)], seen = *cell;
  gboolean last_slice = op.slice + 1U == check->schedule->n_slices;

  if (seen & BIT (op.kind) || (op.kind == PS_OP_BW && seen & BIT (PS_OP_B))
      || (op.kind == PS_OP_B && seen & BIT (PS_OP_BW)))
    return "is there twice";
  if (op.kind == PS_OP_F)
    return op.slice > 0 && !(cell[-1] & BIT (PS_OP_F)) ? "comes before the previous slice" : NULL;
  if (op.kind == PS_OP_W)
    return seen & BIT (PS_OP_B)    ? NULL
           : seen & BIT (PS_OP_BW) ? "its weights are done by BW already"
                                   : "comes before its B";
  if (!(seen & BIT (PS_OP_F)))
    return "comes before its F";
  if (op.kind == PS_OP_R)
    return seen & BACKWARD ? "comes after its backward" : NULL;
  return !last_slice && !(cell[1] & BACKWARD) ? "comes before the next slice" : NULL;
}

static const char *
pair_problem (const PsSchedule *schedule, guint index, guint end)
{
  PsOp op = schedule->ops[index];

  if (!op.paired)
    return NULL;
  if (index + 1 == end)
    return "is paired with nothing";
  PsOp next = schedule->ops[index + 1];
  if (next.paired)
    return "is paired with an op that is paired again";
  guint kinds = BIT (op.kind) | BIT (next.kind);
  if (!(kinds & BIT (PS_OP_F)) || !(kinds & BACKWARD))
    return "is paired, but a pair is one F and one B or BW";
  return next.stage == op.stage && next.microbatch == op.microbatch ? "is paired with an op that depends on it" : NULL;
}

static const char *
op_problem (const Check *check, guint device, guint index, guint end)
{
  const PsSchedule *schedule = check->schedule;
  PsOp op = schedule->ops[index];
  const char *problem = range_problem (schedule, op);

  if (problem != NULL)
    return problem;
  if (ps_schedule_device (schedule, op.stage, op.microbatch) != device)
    return "belongs to another device";
  problem = order_problem (check, op);
  check->seen[ps_schedule_cell (schedule, op)] |= (guint8)BIT (op.kind);
  return problem != NULL ? problem : pair_problem (schedule, index, end);
}

static gboolean
check_orders (const Check *check, GError **error)
{
  const PsSchedule *schedule = check->schedule;
  char name[48];

  for (guint device = 0; device < schedule->placement->n_devices; device++)
    for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
      {
        const char *problem = op_problem (check, device, i, schedule->first[device + 1]);

        if (problem != NULL)
          return ps_refuse (error, PS_ERROR_SCHEDULE, "device %u: op %u (%s): %s", device, i - schedule->first[device],
                            ps_op_format (schedule->ops[i], name), problem);
      }
  return TRUE;
}

static const char *
missing_kind (guint seen)
{
  if (!(seen & BIT (PS_OP_F)))
    return "F";
  if (!(seen & BACKWARD))
    return "B or BW";
  return seen & BIT (PS_OP_B) && !(seen & BIT (PS_OP_W)) ? "W" : NULL;
}

static gboolean
check_complete (const Check *check, GError **error)
{
  const PsSchedule *schedule = check->schedule;
  const guint8 *seen = check->seen;

  for (guint stage = 0; stage < schedule->placement->n_stages; stage++)
    for (guint microbatch = 0; microbatch < schedule->n_microbatches; microbatch++)
      for (guint slice = 0; slice < schedule->n_slices; slice++)
        {
          const char *missing = missing_kind (*seen++);

          if (missing != NULL)
            return ps_refuse (error, PS_ERROR_SCHEDULE, "device %u: has no %s of microbatch %u on stage %u",
                              ps_schedule_device (schedule, stage, microbatch), missing, microbatch, stage);
        }
  return TRUE;
}

gboolean
ps_schedule_validate (const PsSchedule *schedule, GError **error)
{
  gsize cells = ps_schedule_n_cells (schedule);

  if (cells > PS_MAX_OPS)
    return ps_refuse (error, PS_ERROR_SCHEDULE, "%s: %" G_GSIZE_FORMAT " forwards are more than %u ops", schedule->name,
                      cells, (guint)PS_MAX_OPS);
  if (schedule->n_microbatches % ps_schedule_update_every (schedule) != 0)
    return ps_refuse (error, PS_ERROR_SCHEDULE, "%s: an optimizer step every %u microbatches: does not divide %u",
                      schedule->name, schedule->update_every, schedule->n_microbatches);
  g_autofree guint8 *seen = g_malloc0 (cells);
  Check check = { schedule, seen };
  return check_orders (&check, error) && check_complete (&check, error);
}
