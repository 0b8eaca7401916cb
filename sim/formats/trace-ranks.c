/* trace-ranks.c - collects the ranges, posts and waits of ranks. */
#include "trace-ranks.h"

#include <string.h>

PsRank *
ps_rank_new (const char *name)
{
  PsRank *rank = g_new0 (PsRank, 1);

  rank->name = name;
  rank->ranges = g_array_new (FALSE, FALSE, sizeof (PsRankRange));
  rank->posts = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  rank->waits = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  rank->links = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  rank->updates = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  rank->marks = g_array_new (FALSE, FALSE, sizeof (gint64));
  rank->starts = g_array_new (FALSE, FALSE, sizeof (guint));
  return rank;
}

void
ps_rank_free (gpointer data)
{
  PsRank *rank = data;

  g_array_unref (rank->ranges);
  g_array_unref (rank->posts);
  g_array_unref (rank->waits);
  g_array_unref (rank->links);
  g_array_unref (rank->updates);
  g_array_unref (rank->marks);
  g_array_unref (rank->starts);
  g_free (rank);
}

gint64
ps_rank_of_path (const char *path)
{
  g_autofree char *name = g_path_get_basename (path);
  const char *found = g_strrstr (name, "rank");

  if (found == NULL)
    return -1;
  found += strlen ("rank");
  while (*found && strchr ("_-=.", *found) != NULL)
    found++;
  return g_ascii_isdigit (*found) ? (gint64)MIN (g_ascii_strtoull (found, NULL, 10), PS_MAX_DEVICES) : -1;
}

static PsOp
action_op (const PsTorchAction *action)
{
  return (PsOp){ .kind = (guint8)ps_torch_op_kind (action->type),
                 .stage = action->stage,
                 .microbatch = action->microbatch & G_MAXINT32,
                 .paired = action->paired & 1U };
}

void
ps_rank_add_range (PsRank *rank, const PsRangeName *name, gint64 start_ns, gint64 end_ns)
{
  PsRankRange range = { .start_ns = start_ns,
                        .end_ns = end_ns,
                        .compute_start_ns = start_ns,
                        .compute_end_ns = end_ns,
                        .wait_start_ns = start_ns,
                        .wait_end_ns = start_ns,
                        .n = name->n };

  for (guint i = 0; i < name->n; i++)
    range.ops[i] = action_op (&name->actions[i]);
  g_array_append_val (rank->ranges, range);
}

/* Megatron's receives block: they are waits. */
void
ps_rank_add_span (PsRank *rank, const PsRangeName *name, gint64 start_ns, gint64 end_ns)
{
  const PsTorchAction *action = name->actions;
  gboolean backward = action->type == TORCH_SEND_B || action->type == TORCH_RECV_B || action->type == TORCH_WAIT_SEND_B;
  gboolean waits = name->naming == PS_RANGES_COUNTED && ps_torch_is_receive (action->type);
  PsSpan span = { .start_ns = start_ns,
                  .end_ns = end_ns,
                  .op = { .kind = backward ? PS_OP_B : PS_OP_F,
                          .stage = action->stage,
                          .microbatch = action->microbatch & G_MAXINT32 } };

  if (ps_torch_is_send (action->type))
    span.post = PS_INSTRUCTION_SEND;
  else if (ps_torch_is_receive (action->type))
    {
      span.post = PS_INSTRUCTION_RECEIVE;
      span.op.stage = (guint16)(backward ? action->stage + 1 : MAX (action->stage, 1) - 1);
    }
  if (action->type >= TORCH_SEND_F)
    g_array_append_val (span.post != 0 && !waits ? rank->posts : rank->waits, span);
}

void
ps_rank_add_mark (PsRank *rank, gboolean update, gint64 start_ns, gint64 end_ns)
{
  PsSpan span = { .start_ns = start_ns, .end_ns = end_ns, .op = { .kind = PS_OP_O } };

  g_array_append_val (rank->marks, start_ns);
  if (update)
    g_array_append_val (rank->updates, span);
}

guint
ps_rank_first_after (const PsRank *rank, gint64 time_ns)
{
  return ps_first_after (rank->ranges, offsetof (PsRankRange, start_ns), time_ns);
}

PsRankRange *
ps_rank_range_at (const PsRank *rank, gint64 time_ns)
{
  guint after = ps_rank_first_after (rank, time_ns);
  PsRankRange *range = after > 0 ? &g_array_index (rank->ranges, PsRankRange, after - 1) : NULL;

  return range != NULL && time_ns < range->end_ns ? range : NULL;
}

guint
ps_ranks_count_stages (GPtrArray *ranks)
{
  guint n = 1;

  for (guint r = 0; r < ranks->len; r++)
    {
      const GArray *ranges = ((const PsRank *)g_ptr_array_index (ranks, r))->ranges;

      for (guint i = 0; i < ranges->len; i++)
        for (guint k = 0; k < g_array_index (ranges, PsRankRange, i).n; k++)
          n = MAX (n, g_array_index (ranges, PsRankRange, i).ops[k].stage + 1U);
    }
  return n;
}

void
ps_timeline_add_remark (PsTimeline *timeline, const char *remark)
{
  char *before = timeline->remark;

  if (remark == NULL)
    return;
  timeline->remark = before != NULL ? g_strconcat (before, "; ", remark, NULL) : g_strdup (remark);
  g_free (before);
}
