/* tensor.c - a GPU's part of a stage, and the all-reduces that put the parts together. */
#include <pipesim/tensor.h>

gboolean
ps_tensor_check (const PsModel *model, guint n_tensor, GError **error)
{
  const struct
  {
    const char *name;
    guint value;

  } cut[] = { { "heads", model->heads },
              { "kv_heads", model->kv_heads },
              { "feed_forward", model->feed_forward },
              { "sequence", model->sequence } };

  for (guint i = 0; i < G_N_ELEMENTS (cut); i++)
    if (cut[i].value % n_tensor != 0)
      return ps_refuse (error, PS_ERROR_USAGE, "--tensor %u: does not divide %s %u of model '%s'", n_tensor,
                        cut[i].name, cut[i].value, model->name);
  return TRUE;
}

/* Parameters that every GPU holds in full. Per layer: two norms, and in GPT the biases of the two matrices cut by
 * rows. */
static gint64
whole_parameters (const PsModel *model, const PsStageShape *shape)
{
  gboolean llama = model->mlp == PS_MLP_SWIGLU;
  gint64 h = model->hidden, norm = llama ? h : 2 * h;
  gint64 layer = 2 * norm + (llama ? 0 : 2 * h);
  gint64 positions = llama ? 0 : (gint64)model->sequence * h;

  return shape->n_layers * layer + (shape->embedding ? positions : 0) + (shape->head ? norm : 0);
}

gint64
ps_tensor_parameters (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  gint64 all = ps_model_stage_parameters (model, shape), whole = whole_parameters (model, shape);

  return ps_tensor_share (all - whole, n_tensor) + whole;
}

PsStateBytes
ps_tensor_state (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  return ps_model_state (model, ps_tensor_parameters (model, shape, n_tensor));
}

gint64
ps_tensor_layer_ns (const PsModel *model, const PsCluster *cluster)
{
  const PsLink link = ps_cluster_inner_link (cluster);
  guint t = cluster->tensor;
  gint64 step_ns = ps_link_transfer_ns (&link, ps_tensor_share (ps_model_boundary_bytes (model), t));

  return t == 1 ? 0 : 2 * MAX (2 * (t - 1) * step_ns, cluster->launch_ns);
}
