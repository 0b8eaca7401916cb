/* what-if.c - savings of faster parts: one scenario per part. For the best parts, also the saving at which another path
 * becomes critical. */
#include "what-if-private.h"

#include <math.h>

__extension__ typedef __int128 Wide; /* products of two sums of times */

char *
ps_part_format (const PsPart *part)
{
  switch (part->kind)
    {
    case PS_PART_KIND:
      return g_strdup (ps_op_kind_name ((PsOpKind)part->a));
    case PS_PART_LINK:
      return g_strdup_printf ("link %u-%u", part->a, part->b);
    default:
      return g_strdup_printf ("%s %u", part->kind == PS_PART_STAGE ? "stage" : "device", part->a);
    }
}

static gboolean
has_op (const PsPart *part, const PsOpClass *op, guint32 cost, const PsCosts *costs)
{
  switch (part->kind)
    {
    case PS_PART_KIND:
      return ps_costs_alike (costs, cost) / costs->n_stages == part->a;
    case PS_PART_STAGE:
      return cost % costs->n_stages == part->a;
    case PS_PART_DEVICE:
      return op->device == part->a;
    default:
      return FALSE;
    }
}

gint64
ps_part_of_op (const PsPart *part, const PsOpClass *op, const PsCosts *costs)
{
  gint64 whole = ps_op_class_duration (op, costs), a = costs->op[op->cost].duration_ns, b, first;
  gboolean has_first = has_op (part, op, op->cost, costs), has_second;

  if (op->partner == PS_NO_PARTNER)
    return has_first ? whole : 0;
  b = costs->op[op->partner].duration_ns;
  first = a + b == 0 ? whole / 2 : (gint64)(((Wide)whole * a + (a + b) / 2) / (a + b));
  has_second = has_op (part, op, op->partner, costs);
  return (has_first ? first : 0) + (has_second ? whole - first : 0);
}

gint64
ps_part_of_transfer (const PsPart *part, const PsTransferClass *transfer, const PsCosts *costs)
{
  gboolean same = part->kind == PS_PART_LINK && part->a == MIN (transfer->from, transfer->to)
                  && part->b == MAX (transfer->from, transfer->to);

  return same ? ps_transfer_class_duration (transfer, costs) : 0;
}

static int
compare_parts (gconstpointer a, gconstpointer b)
{
  const PsPart *x = a, *y = b;

  return x->kind != y->kind ? PS_COMPARE (x->kind, y->kind)
         : x->a != y->a     ? PS_COMPARE (x->a, y->a)
                            : PS_COMPARE (x->b, y->b);
}

/* Whether a device's ops are exactly those of one stage; the stage then stands for it. */
static gboolean
is_stage (const PsRecurrence *recurrence, guint device)
{
  const PsPlacement *placement = recurrence->program->schedule->placement;
  guint n_held = 0;

  for (guint i = 0; i < placement->n_stages; i++)
    n_held += placement->device[i] == device;
  return placement->n_copies == 1 && n_held == 1;
}

static void
append_part (GArray *parts, PsPartKind kind, guint a, guint b)
{
  PsPart part = { kind, a, b };

  g_array_append_val (parts, part);
}

GArray *
ps_parts (const PsRecurrence *recurrence, const PsCosts *costs)
{
  GArray *parts = g_array_new (FALSE, FALSE, sizeof (PsPart));
  guint n = 0;

  for (guint i = 1; i < recurrence->n_op_classes; i++)
    for (guint k = 0; k < (recurrence->op[i].partner == PS_NO_PARTNER ? 1 : 2); k++)
      {
        guint32 cost = k == 0 ? recurrence->op[i].cost : recurrence->op[i].partner;

        if (ps_op_class_duration (&recurrence->op[i], costs) == 0)
          continue;
        append_part (parts, PS_PART_KIND, ps_costs_alike (costs, cost) / costs->n_stages, 0);
        append_part (parts, PS_PART_STAGE, cost % costs->n_stages, 0);
        if (!is_stage (recurrence, recurrence->op[i].device))
          append_part (parts, PS_PART_DEVICE, recurrence->op[i].device, 0);
      }
  for (guint i = 1; i < recurrence->n_transfer_classes; i++)
    if (ps_transfer_class_duration (&recurrence->transfer[i], costs) > 0)
      append_part (parts, PS_PART_LINK, MIN (recurrence->transfer[i].from, recurrence->transfer[i].to),
                   MAX (recurrence->transfer[i].from, recurrence->transfer[i].to));
  g_array_sort (parts, compare_parts);
  for (guint i = 0; i < parts->len; i++)
    if (n == 0 || compare_parts (&g_array_index (parts, PsPart, i), &g_array_index (parts, PsPart, n - 1)) != 0)
      g_array_index (parts, PsPart, n++) = g_array_index (parts, PsPart, i);
  g_array_set_size (parts, n);
  return parts;
}

/* Sets the scenario `index` to the costs with `saving` of a part's time saved. */
static void
set_saving (PsScenarios *scenarios, guint index, const PsCosts *costs, const PsPart *part, double saving)
{
  const PsRecurrence *recurrence = scenarios->recurrence;

  ps_scenarios_set_costs (scenarios, index, costs);
  for (gsize i = 1; i < recurrence->n_op_classes; i++)
    scenarios->op_ns[i * scenarios->n + index]
        -= llrint (saving * (double)ps_part_of_op (part, &recurrence->op[i], costs));
  for (gsize i = 1; i < recurrence->n_transfer_classes; i++)
    scenarios->transfer_ns[i * scenarios->n + index]
        -= llrint (saving * (double)ps_part_of_transfer (part, &recurrence->transfer[i], costs));
}

/* The length of a path as a function of the saving s of one part: whole - s * part. */
typedef struct
{
  gint64 whole;
  gint64 part;
} Line;

/* s = above / below */
typedef struct
{
  gint64 above;
  gint64 below;
} Fraction;

static inline Wide
value_at (Line line, Fraction s)
{
  return (Wide)line.whole * s.below - (Wide)line.part * s.above;
}

/* The larger of two lines at s; if equal there, the one that is larger just beyond s. */
static inline Line
later_at (Line a, Line b, Fraction s)
{
  Wide x = value_at (a, s), y = value_at (b, s);

  if (x != y)
    return x > y ? a : b;
  return a.part <= b.part ? a : b;
}

typedef struct
{
  const PsRecurrence *recurrence;
  Line *op;       /* [n_op_classes] */
  Line *transfer; /* [n_transfer_classes] */
  Line *slots;    /* [n_slots] */
} Lines;

static void
lines_init (Lines *lines, const PsRecurrence *recurrence, const PsCosts *costs, const PsPart *part)
{
  lines->recurrence = recurrence;
  lines->op = g_new0 (Line, recurrence->n_op_classes);
  lines->transfer = g_new0 (Line, recurrence->n_transfer_classes);
  lines->slots = g_new0 (Line, recurrence->n_slots);
  for (guint i = 1; i < recurrence->n_op_classes; i++)
    lines->op[i]
        = (Line){ ps_op_class_duration (&recurrence->op[i], costs), ps_part_of_op (part, &recurrence->op[i], costs) };
  for (guint i = 1; i < recurrence->n_transfer_classes; i++)
    lines->transfer[i] = (Line){ ps_transfer_class_duration (&recurrence->transfer[i], costs),
                                 ps_part_of_transfer (part, &recurrence->transfer[i], costs) };
}

static void
lines_clear (Lines *lines)
{
  g_free (lines->op);
  g_free (lines->transfer);
  g_free (lines->slots);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Lines, lines_clear)

static inline Line
add (Line a, Line b)
{
  return (Line){ a.whole + b.whole, a.part + b.part };
}

/* The longest path at s. */
static Line
longest_at (Lines *lines, Fraction s)
{
  const PsRecurrence *recurrence = lines->recurrence;
  Line longest = { 0, 0 };

  for (guint i = 0; i < recurrence->n_steps; i++)
    {
      PsScenarioStep step = recurrence->steps[i];
      Line arrival = add (lines->slots[step.input], lines->transfer[step.transfer]);

      lines->slots[step.output] = add (later_at (lines->slots[step.previous], arrival, s), lines->op[step.op]);
    }
  for (guint device = 0; device < recurrence->program->schedule->placement->n_devices; device++)
    longest = later_at (longest, lines->slots[recurrence->last_slot[device]], s);
  return longest;
}

static Fraction
crossing (Line a, Line b)
{
  return (Fraction){ a.whole - b.whole, a.part - b.part };
}

/* The first corner of the makespan as a function of s. s begins at 1. It moves down to where the line of the path
 * critical at s meets that of the path critical at 0, until both are the same. */
static double
find_change_point (Lines *lines, gint64 *least_ns)
{
  const Fraction nothing = { 0, 1 }, all = { 1, 1 };
  Line now = longest_at (lines, nothing), other = longest_at (lines, all);
  Fraction s = all;

  *least_ns = (gint64)value_at (other, all);
  while (value_at (other, s) > value_at (now, s))
    {
      s = crossing (now, other);
      other = longest_at (lines, s);
    }
  return (double)s.above / (double)s.below;
}

static int
compare_what_ifs (gconstpointer a, gconstpointer b)
{
  const PsWhatIf *x = a, *y = b;

  return x->iteration_ns != y->iteration_ns ? PS_COMPARE (x->iteration_ns, y->iteration_ns)
                                            : compare_parts (&x->part, &y->part);
}

#define N_AT_ONCE 255 /* parts of one batch, so that memory holds the costs of one batch only */

/* The makespan with a saving on each part, and that of the costs as they are. */
static gint64 *
evaluate (const PsRecurrence *recurrence, const PsCosts *costs, const GArray *parts, double saving, gint64 *base_ns)
{
  guint n_at_once = MIN (parts->len, N_AT_ONCE);
  g_autoptr (PsScenarios) scenarios = ps_scenarios_new (recurrence, n_at_once + 1);
  gint64 *makespan_ns = g_new (gint64, parts->len + 1);

  ps_scenarios_set_costs (scenarios, n_at_once, costs);
  for (guint first = 0; first < parts->len; first += n_at_once)
    {
      guint n = MIN (parts->len - first, n_at_once);

      for (guint i = 0; i < n; i++)
        set_saving (scenarios, i, costs, &g_array_index (parts, PsPart, first + i), saving);
      ps_scenarios_run (scenarios);
      for (guint i = 0; i < n; i++)
        makespan_ns[first + i] = scenarios->makespan_ns[i];
    }
  *base_ns = scenarios->makespan_ns[n_at_once];
  return makespan_ns;
}

GArray *
ps_what_if_rank (const GArray *parts, const gint64 *makespan_ns, gint64 base_ns, gint64 rest_ns, guint n_best)
{
  GArray *what_ifs = g_array_sized_new (FALSE, TRUE, sizeof (PsWhatIf), parts->len);
  double iteration_ns = (double)(base_ns + rest_ns);

  for (guint i = 0; i < parts->len; i++)
    {
      PsWhatIf what_if = { .part = g_array_index (parts, PsPart, i), .iteration_ns = makespan_ns[i] + rest_ns };

      what_if.gain = (double)(base_ns - makespan_ns[i]) / iteration_ns;
      g_array_append_val (what_ifs, what_if);
    }
  g_array_sort (what_ifs, compare_what_ifs);
  g_array_set_size (what_ifs, MIN (what_ifs->len, n_best));
  return what_ifs;
}

GArray *
ps_what_if (const PsRecurrence *recurrence, const PsCosts *costs, gint64 rest_ns, double saving, guint n_best)
{
  g_autoptr (GArray) parts = ps_parts (recurrence, costs);
  g_autofree gint64 *makespan_ns = NULL;
  GArray *what_ifs;
  gint64 base_ns = 0;

  g_return_val_if_fail (saving > 0 && saving <= 1, NULL);
  if (parts->len > 0)
    makespan_ns = evaluate (recurrence, costs, parts, saving, &base_ns);
  what_ifs = ps_what_if_rank (parts, makespan_ns, base_ns, rest_ns, n_best);
  for (guint i = 0; i < what_ifs->len; i++)
    {
      PsWhatIf *what_if = &g_array_index (what_ifs, PsWhatIf, i);
      g_auto (Lines) lines = { 0 };

      lines_init (&lines, recurrence, costs, &what_if->part);
      what_if->change_point = find_change_point (&lines, &what_if->least_ns);
      what_if->least_ns += rest_ns;
    }
  return what_ifs;
}
