/* nsys-messages.c - the messages of a rank that Nsight Systems recorded, and its times on the device. */
#include "nsys-trace.h"

PS_DEFINE_ORDER (compare_kernels, PsNsysKernel, launched_ns)

static void
add_link (PsRank *rank, guint8 post, PsOp op, const PsNsysKernel *kernel)
{
  PsSpan span = { .start_ns = kernel->start_ns, .end_ns = kernel->end_ns, .post = post };

  span.op = op;
  span.op.kind = ps_op_is_backward (op) ? PS_OP_B : op.kind;
  span.op.paired = 0;
  g_array_append_val (rank->links, span);
}

/* Kernels that were launched by a SEND or RECV action. */
static void
link_posts (PsRank *rank, const GArray *kernels)
{
  for (guint i = 0; i < rank->posts->len; i++)
    {
      const PsSpan *post = &g_array_index (rank->posts, PsSpan, i);

      for (guint k = ps_first_after (kernels, offsetof (PsNsysKernel, launched_ns), post->start_ns - 1);
           k < kernels->len; k++)
        {
          const PsNsysKernel *kernel = &g_array_index (kernels, PsNsysKernel, k);

          if (kernel->launched_ns >= post->end_ns)
            break;
          add_link (rank, post->post, post->op, kernel);
        }
    }
}

/* Kernels between two ranges send the result of the first and receive the input of the second: one kernel may do both,
 * of several the first sends and the last receives. */
static void
link_neighbours (PsRank *rank, const GArray *kernels, guint n_stages)
{
  for (guint i = 0, k = 0; i <= rank->ranges->len; i++)
    {
      const PsRankRange *before = i > 0 ? &g_array_index (rank->ranges, PsRankRange, i - 1) : NULL;
      const PsRankRange *after = i < rank->ranges->len ? &g_array_index (rank->ranges, PsRankRange, i) : NULL;
      guint first = k;
      PsOp op;

      while (k < kernels->len
             && (after == NULL || g_array_index (kernels, PsNsysKernel, k).launched_ns < after->start_ns))
        k++;
      if (k == first)
        continue;
      if (before != NULL
          && (before->ops[0].kind == PS_OP_F ? before->ops[0].stage + 1U < n_stages : before->ops[0].stage > 0))
        add_link (rank, PS_INSTRUCTION_SEND, before->ops[0], &g_array_index (kernels, PsNsysKernel, first));
      if (after != NULL && ps_op_input (after->ops[0], n_stages, &op))
        add_link (rank, PS_INSTRUCTION_RECEIVE, op, &g_array_index (kernels, PsNsysKernel, k - 1));
    }
}

/* Puts the times of the GPU in place of those of the host. Kernels of an op that outlast the start of the next one do
 * not count longer. */
static void
take_device_times (PsRank *rank)
{
  gint64 last_ns = 0;

  for (guint i = 0; i < rank->ranges->len; i++)
    {
      PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, i);

      if (range->compute_end_ns < range->compute_start_ns)
        range->compute_start_ns = range->compute_end_ns = MAX (last_ns, range->start_ns);
      if (i > 0)
        {
          range[-1].compute_end_ns
              = MIN (range[-1].compute_end_ns, MAX (range->compute_start_ns, range[-1].compute_start_ns));
          range[-1].end_ns = range[-1].compute_end_ns;
          range->compute_start_ns = MAX (range->compute_start_ns, range[-1].compute_end_ns);
          range->compute_end_ns = MAX (range->compute_end_ns, range->compute_start_ns);
        }
      last_ns = range->compute_end_ns;
      range->start_ns = range->wait_start_ns = range->wait_end_ns = range->compute_start_ns;
      range->end_ns = range->compute_end_ns;
    }
}

/* A range waits while the kernel that receives its message runs and nothing else does. */
static void
find_waits (PsRank *rank, guint n_stages)
{
  for (guint i = 0; i < rank->links->len; i++)
    {
      const PsSpan *link = &g_array_index (rank->links, PsSpan, i);
      guint at = ps_rank_first_after (rank, link->end_ns - 1);
      PsOp op;

      if (link->post != PS_INSTRUCTION_RECEIVE || at >= rank->ranges->len)
        continue;
      PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, at);
      if (!ps_op_input (range->ops[0], n_stages, &op) || op.stage != link->op.stage || op.kind != link->op.kind
          || op.microbatch != link->op.microbatch)
        continue;
      range->wait_start_ns = MAX (link->start_ns, at > 0 ? range[-1].compute_end_ns : link->start_ns);
      range->wait_end_ns = MAX (link->end_ns, range->wait_start_ns);
      if (range->wait_end_ns > range->compute_start_ns)
        range->wait_end_ns = range->wait_start_ns = range->compute_start_ns;
    }
}

/* Interleaved 1F1B may receive ahead: whose messages kernels without a name carry is then unknown. */
void
ps_nsys_take_device (PsRank *rank, GArray *kernels, gboolean named, guint n_stages, guint n_ranks)
{
  g_array_sort (kernels, compare_kernels);
  if (named)
    link_posts (rank, kernels);
  else if (n_stages <= n_ranks)
    link_neighbours (rank, kernels, n_stages);
  g_array_set_size (rank->posts, 0);
  g_array_set_size (rank->waits, 0);
  take_device_times (rank);
  find_waits (rank, n_stages);
}
