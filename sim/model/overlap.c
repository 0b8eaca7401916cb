/* overlap.c - two streams through the layers of a pair. */
#include <pipesim/work.h>

/* Runs a part on its stream, after the one before it in its microbatch. */
static void
run (gint64 *stream_ns, gint64 *microbatch_ns, gint64 duration_ns)
{
  *stream_ns = *microbatch_ns = MAX (*stream_ns, *microbatch_ns) + duration_ns;
}

gint64
ps_overlap_pair_ns (const PsPairLayer *layers, guint n_layers)
{
  gint64 compute = 0, talk = 0, forward = 0, backward = 0;

  for (guint i = 0; i < n_layers; i++)
    {
      const PsPairLayer *layer = &layers[i];

      run (&talk, &backward, layer->combine_ns[PS_OP_B]);
      run (&compute, &forward, layer->attention_ns[PS_OP_F]);
      run (&talk, &forward, layer->dispatch_ns[PS_OP_F]);
      run (&compute, &backward, layer->experts_ns[PS_OP_B]);
      run (&talk, &backward, layer->dispatch_ns[PS_OP_B]);
      compute += layer->experts_ns[PS_OP_W];
      run (&compute, &forward, layer->experts_ns[PS_OP_F]);
      run (&talk, &forward, layer->combine_ns[PS_OP_F]);
      run (&compute, &backward, layer->attention_ns[PS_OP_B]);
      compute += layer->attention_ns[PS_OP_W];
    }
  return MAX (compute, talk);
}
