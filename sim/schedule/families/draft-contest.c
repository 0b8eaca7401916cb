/* draft-contest.c - choosing among several drafts for the same setting. More memory must not make the best draft
 * longer, yet each way of making drafts may come to a longer one. So a contest lowers the limits step by step and tries
 * each way again that may come to another draft.
 *
 * Why that is enough: a try notes in slack_bytes the least that a limit left it. Limits lower by up to that make the
 * same draft, which has been entered already, so the contest goes on with the next lower limits, which can make
 * another. A contest whose limits are higher by the same bytes on every device therefore makes all drafts of this one.
 * It leaves out drafts that already are longer than its best and drafts that the bound rules out. Where limits go down
 * in larger steps this holds for limits on the grid: whole steps above the weights of device 0. */
#include "draft.h"

#include <pipesim/bound.h>

/* Ops of a draft up to which the contest tries every lower limit. For more it tries whole numbers of activations, in
 * steps that double with the ops. */
#define MAX_OPS_EXACT 2048

static gint64
activation_bytes (const PsDraftDevice *device)
{
  return device->cost[PS_OP_F][PS_NEAR].take_bytes + device->cost[PS_OP_F][PS_FAR].take_bytes;
}

/* Forgets tries of ways from `first` on. */
static void
forget_tries (PsContest *contest, guint first)
{
  for (guint i = first; i < PS_CONTEST_WAYS; i++)
    contest->way[i] = (PsContestWay){ -1, 0 };
}

static void
forget_slack (PsContest *contest)
{
  contest->draft->slack_bytes = contest->best->slack_bytes = contest->list->slack_bytes = G_MAXINT64;
}

void
ps_contest_init (PsContest *contest, const PsFamilySetting *setting)
{
  *contest = (PsContest){ .setting = setting,
                          .draft = ps_draft_new (setting, 0),
                          .best = ps_draft_new (setting, 0),
                          .list = ps_draft_new (setting, 0),
                          .least_ns = { -1, -1 },
                          .bound_ns = -1 };
  contest->placement = ps_placement_new (setting->n_chunks == 1 ? PS_PLACEMENT_LOOP : PS_PLACEMENT_V,
                                         setting->n_devices, setting->n_chunks);
  guint64 ops = (guint64)PS_DRAFT_KINDS * setting->n_devices * setting->n_chunks * setting->n_microbatches;
  contest->step_bytes = ops <= MAX_OPS_EXACT ? 1 : MAX (activation_bytes (&contest->draft->device[0]), 1);
  for (; ops >= 2 * MAX_OPS_EXACT && contest->step_bytes < G_MAXINT64 / 2; ops /= 2)
    contest->step_bytes *= 2;
  forget_tries (contest, 0);
}

void
ps_contest_clear (PsContest *contest)
{
  g_clear_pointer (&contest->draft, ps_draft_free);
  g_clear_pointer (&contest->best, ps_draft_free);
  g_clear_pointer (&contest->list, ps_draft_free);
  g_clear_pointer (&contest->placement, ps_placement_free);
}

/* Below 0: a is better than b. */
static int
compare (const PsDraft *a, const PsDraft *b)
{
  gint64 span = ps_draft_span (a) - ps_draft_span (b), makespan = ps_draft_makespan (a) - ps_draft_makespan (b);
  gint64 first = a->by_makespan ? makespan : span, then = first != 0 ? first : span + makespan;

  return (then > 0) - (then < 0);
}

static gboolean
fits (const PsDraft *draft)
{
  guint device;

  return ps_draft_fits (draft, &device);
}

static void
swap (PsDraft **a, PsDraft **b)
{
  PsDraft *draft = *a;

  *a = *b;
  *b = draft;
}

void
ps_contest_enter (PsContest *contest)
{
  if (!fits (contest->draft) || (contest->found && compare (contest->draft, contest->best) >= 0))
    return;
  swap (&contest->draft, &contest->best);
  contest->found = TRUE;
}

/* The list schedule that lies ready counts: it will be entered, unless no draft can be shorter than the best one. */
gint64
ps_contest_limit (const PsContest *contest)
{
  gint64 limit = contest->found ? ps_draft_length (contest->best) : G_MAXINT64;

  return contest->has_list ? MIN (limit, ps_draft_length (contest->list)) : limit;
}

/* Bound on the makespan, or the span, of all drafts. */
static gint64
least (PsContest *contest, PsObjective objective)
{
  gint64 *ns = &contest->least_ns[objective];

  if (*ns < 0)
    *ns = ps_lower_bound_within (contest->placement, contest->setting->n_microbatches, contest->draft->costs,
                                 contest->setting->memory_limit, objective);
  return *ns;
}

/* TRUE: no draft is better than the best one. */
static gboolean
is_settled (PsContest *contest)
{
  return contest->found && ps_draft_makespan (contest->best) <= least (contest, PS_OBJECTIVE_MAKESPAN)
         && ps_draft_span (contest->best) <= least (contest, PS_OBJECTIVE_SPAN);
}

/* TRUE: a way can make another draft than at its last try. */
static gboolean
may_change (const PsContest *contest, guint way)
{
  return contest->lowered_bytes > contest->way[way].until_bytes;
}

/* Notes the lowest limits at which a way makes the same drafts again. */
static void
note_try (PsContest *contest, guint way, guint used)
{
  gint64 slack = MIN (MIN (contest->draft->slack_bytes, contest->best->slack_bytes), contest->list->slack_bytes);
  gint64 until = slack == G_MAXINT64 ? slack : contest->lowered_bytes + slack;

  contest->way[way] = (PsContestWay){ until, used };
  forget_slack (contest);
}

void
ps_contest_enter_order (PsContest *contest, PsSchedule *(*make) (const PsFamilySetting *setting, GError **error))
{
  if (is_settled (contest))
    return;
  g_autoptr (PsSchedule) order = make (contest->setting, NULL);
  if (ps_draft_replay (contest->draft, order, ps_contest_limit (contest)))
    ps_contest_enter (contest);
}

/* The list rule that is best most often. */
#define AHEAD 2

/* A rule does the same as an earlier one in which the difference decided nothing. */
static const struct
{
  PsListRule rule;
  guint earlier;
  guint used; /* the difference; 0: no earlier one */
} lists[PS_LIST_WAYS] = {
  { { .backward = TRUE }, 0, 0 },
  { { .backward = TRUE, .wait = TRUE }, 0, 0 },
  { { 0 }, 0, PS_LIST_USED_HEAD_START },
  { { .wait = TRUE }, 1, PS_LIST_USED_HEAD_START },
  { { .reserve = TRUE }, 0, 0 }, /* nothing to reserve with one chunk */
  { { .deep = TRUE }, AHEAD, PS_LIST_USED_DEPTH },
};

#define DEEP 5

static gboolean
try_list (PsContest *contest, guint i)
{
  guint used;
  gboolean made = ps_draft_list (contest->draft, lists[i].rule, ps_contest_limit (contest), &used);

  note_try (contest, i, used);
  return made && fits (contest->draft);
}

/* TRUE: list i makes the same draft as an earlier one. */
static gboolean
is_same_list (PsContest *contest, guint i)
{
  const PsContestWay *earlier = &contest->way[lists[i].earlier];
  gboolean same = lists[i].used != 0 && earlier->until_bytes >= 0 && !(earlier->used & lists[i].used);

  if (same)
    contest->way[i] = *earlier;
  return same;
}

/* A deep list that is no shorter may hold more for nothing. */
void
ps_contest_look_ahead (PsContest *contest)
{
  PsObjective objective = contest->draft->by_makespan ? PS_OBJECTIVE_MAKESPAN : PS_OBJECTIVE_SPAN;

  contest->list_rule = AHEAD;
  contest->has_list = try_list (contest, AHEAD);
  if (!contest->has_list)
    return;
  swap (&contest->draft, &contest->list);
  if (ps_draft_length (contest->list) <= least (contest, objective) || is_same_list (contest, DEEP)
      || !try_list (contest, DEEP) || ps_draft_length (contest->draft) >= ps_draft_length (contest->list))
    return;
  swap (&contest->draft, &contest->list);
  contest->list_rule = DEEP;
}

void
ps_contest_enter_lists (PsContest *contest)
{
  for (guint i = 0; i < PS_LIST_WAYS; i++)
    {
      gboolean is_made = contest->has_list && i == contest->list_rule;

      if (lists[i].rule.reserve && contest->draft->n_chunks == 1)
        continue;
      if (!is_made && (is_same_list (contest, i) || !may_change (contest, i)))
        continue;
      if (ps_contest_is_over (contest))
        break;
      if (is_made)
        swap (&contest->draft, &contest->list);
      if (is_made || try_list (contest, i))
        ps_contest_enter (contest);
      contest->has_list &= !is_made;
    }
  contest->has_list = FALSE;
}

void
ps_contest_enter_heuristic (PsContest *contest, guint n_switches, PsContestTry try_off)
{
  PsContestWay *way = &contest->way[PS_LIST_WAYS];

  for (guint off = 0; off < 1U << n_switches; off++)
    {
      guint same = off;

      for (guint bit = 1; bit <= off; bit *= 2)
        if (off & bit && !(way[off ^ bit].used & bit))
          same = off ^ bit;
      if (same != off)
        way[off] = way[same];
      else if (may_change (contest, PS_LIST_WAYS + off) && !is_settled (contest))
        note_try (contest, PS_LIST_WAYS + off, try_off (contest, off));
    }
}

void
ps_contest_limit_activations (PsContest *contest, guint n_activations)
{
  if (contest->setting->memory_limit != NULL)
    return;
  ps_draft_set_limits (contest->draft, contest->setting, n_activations);
  ps_draft_set_limits (contest->best, contest->setting, n_activations);
  forget_tries (contest, PS_LIST_WAYS);
  contest->n_activations = n_activations;
  contest->bound_ns = -1;
}

/* The least bytes that a device holds: one microbatch. */
static gint64
least_bytes (const PsDraftDevice *device)
{
  const PsOpCost *near = &device->cost[PS_OP_F][PS_NEAR], *far = &device->cost[PS_OP_F][PS_FAR];

  return device->weight_bytes + MAX (near->take_bytes, near->take_bytes - near->give_bytes + far->take_bytes);
}

/* Bound on the length of drafts within the limits. */
static gint64
bound (PsContest *contest)
{
  const PsDraft *draft = contest->draft;
  PsObjective objective = draft->by_makespan ? PS_OBJECTIVE_MAKESPAN : PS_OBJECTIVE_SPAN;
  g_autofree gint64 *limit = NULL;

  if (contest->n_activations == 0 && contest->lowered_bytes == 0)
    return least (contest, objective);
  if (contest->bound_ns >= 0)
    return contest->bound_ns;
  limit = g_new (gint64, draft->n_devices);
  for (guint i = 0; i < draft->n_devices; i++)
    limit[i] = draft->device[i].limit_bytes;
  contest->bound_ns = ps_lower_bound_within (contest->placement, draft->n_microbatches, draft->costs, limit, objective);
  return contest->bound_ns;
}

gboolean
ps_contest_is_over (PsContest *contest)
{
  for (guint i = 0; i < contest->draft->n_devices; i++)
    if (contest->draft->device[i].limit_bytes < least_bytes (&contest->draft->device[i]))
      return TRUE;
  return contest->found && bound (contest) >= ps_draft_length (contest->best);
}

/* The bytes by which limits may go down until some way can make another draft; G_MAXINT64: no way can. */
static gint64
least_slack (const PsContest *contest)
{
  gint64 until = G_MAXINT64;

  for (guint i = 0; i < PS_CONTEST_WAYS; i++)
    if (contest->way[i].until_bytes >= 0)
      until = MIN (until, contest->way[i].until_bytes);
  return until == G_MAXINT64 ? until : until - contest->lowered_bytes;
}

gboolean
ps_contest_lower (PsContest *contest)
{
  const PsDraftDevice *first = &contest->draft->device[0];
  gint64 slack = least_slack (contest);

  if (!contest->found || slack == G_MAXINT64 || ps_contest_is_over (contest))
    return FALSE;
  gint64 by = slack + 1 + MAX (first->limit_bytes - slack - 1 - first->weight_bytes, 0) % contest->step_bytes;
  for (guint i = 0; i < contest->draft->n_devices; i++)
    contest->draft->device[i].limit_bytes = contest->best->device[i].limit_bytes -= by;
  contest->lowered_bytes += by;
  contest->bound_ns = -1;
  return !ps_contest_is_over (contest);
}

PsSchedule *
ps_contest_end (const PsContest *contest, const char *name, GError **error)
{
  guint device;

  if (contest->found)
    return ps_draft_schedule (contest->best, name, contest->setting);
  ps_draft_fits (contest->draft, &device);
  g_autofree char *need = ps_format_size (contest->draft->device[device].peak_bytes);
  g_autofree char *limit = ps_format_size (contest->draft->device[device].limit_bytes);
  return ps_refuse_null (error, PS_ERROR_SCHEDULE,
                         "%s: device %u needs at least %s for one microbatch, its limit is %s", name, device, need,
                         limit);
}
