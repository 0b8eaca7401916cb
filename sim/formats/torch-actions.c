/* torch-actions.c - one action of torch.distributed.pipelining: its name, its messages, its cell of a CSV. */
#include "torch-actions.h"

#include <pipesim/formats.h>

#include <string.h>

static const char *const type_names[TORCH_N_TYPES]
    = { "F",      "I",      "W",      "B",      "UNSHARD",     "RESHARD",    "REDUCE_GRAD", "WAIT_REDUCE_GRAD",
        "SEND_F", "RECV_F", "SEND_B", "RECV_B", "WAIT_SEND_F", "WAIT_SEND_B" };

PsTorchLists *
ps_torch_lists_new (guint n_ranks, guint n_stages, guint n_microbatches)
{
  PsTorchLists *lists = g_new0 (PsTorchLists, 1);

  lists->n_ranks = n_ranks;
  lists->n_stages = n_stages;
  lists->n_microbatches = n_microbatches;
  lists->rank = g_new0 (guint16, n_stages);
  lists->actions = g_new (GArray *, n_ranks);
  for (guint r = 0; r < n_ranks; r++)
    lists->actions[r] = g_array_new (FALSE, FALSE, sizeof (PsTorchAction));
  return lists;
}

void
ps_torch_lists_free (PsTorchLists *lists)
{
  if (lists == NULL)
    return;
  for (guint r = 0; r < lists->n_ranks; r++)
    g_array_unref (lists->actions[r]);
  g_free (lists->actions);
  g_free (lists->rank);
  g_free (lists);
}

static gboolean
has_microbatch (PsTorchType type)
{
  return type < TORCH_UNSHARD || type > TORCH_WAIT_REDUCE_GRAD;
}

PsOpKind
ps_torch_op_kind (PsTorchType type)
{
  static const PsOpKind kinds[TORCH_N_COMPUTE] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW };

  return kinds[type];
}

PsTorchType
ps_torch_type_of (PsOpKind kind)
{
  for (guint type = 0; type < TORCH_N_COMPUTE; type++)
    if (ps_torch_op_kind (type) == kind)
      return type;
  return TORCH_N_TYPES;
}

gboolean
ps_torch_action_input (const PsTorchLists *lists, const PsTorchAction *action, guint *from_stage, PsTorchType *receive)
{
  PsOp op = { .stage = action->stage }, producer;

  if (action->type >= TORCH_N_COMPUTE)
    return FALSE;
  op.kind = (guint8)ps_torch_op_kind (action->type);
  if (!ps_op_input (op, lists->n_stages, &producer))
    return FALSE;
  *from_stage = producer.stage;
  *receive = producer.kind == PS_OP_F ? TORCH_RECV_F : TORCH_RECV_B;
  return TRUE;
}

gboolean
ps_torch_action_peer (const PsTorchLists *lists, const PsTorchAction *action, guint *peer_stage)
{
  gboolean up = action->type == TORCH_SEND_F || action->type == TORCH_RECV_B;

  if (up ? action->stage + 1U == lists->n_stages : action->stage == 0)
    return FALSE;
  *peer_stage = up ? action->stage + 1U : action->stage - 1U;
  return TRUE;
}

gsize
ps_torch_action_message (const PsTorchLists *lists, const PsTorchAction *action)
{
  gboolean backward = action->type == TORCH_SEND_B || action->type == TORCH_RECV_B || action->type == TORCH_WAIT_SEND_B;
  guint sender = action->stage;

  if (action->type == TORCH_RECV_F)
    sender--;
  else if (action->type == TORCH_RECV_B)
    sender++;
  return ((gsize)sender * lists->n_microbatches + action->microbatch) * 2 + backward;
}

void
ps_torch_action_append (GString *text, const PsTorchAction *action)
{
  g_string_append_printf (text, "%u%s", action->stage, type_names[action->type]);
  if (has_microbatch (action->type))
    g_string_append_printf (text, "%u", action->microbatch);
}

char *
ps_torch_op_name (PsOp op)
{
  PsTorchAction action = { .type = (guint8)ps_torch_type_of (op.kind), .stage = op.stage, .microbatch = op.microbatch };

  if (action.type == TORCH_N_TYPES)
    return NULL;
  GString *name = g_string_new (NULL);
  ps_torch_action_append (name, &action);
  return g_string_free (name, FALSE);
}

static gboolean
parse_number (const char **text, const char *end, guint64 limit, guint64 *value)
{
  const char *start = *text;

  for (*value = 0; *text < end && g_ascii_isdigit (**text) && *value < limit; (*text)++)
    *value = *value * 10 + (guint64)(**text - '0');
  return *text > start && *value < limit;
}

/* The longest type that the text begins with: WAIT_SEND_F is no W. */
static PsTorchType
parse_type (const char **text, const char *end)
{
  guint found = TORCH_N_TYPES;
  gsize longest = 0;

  for (guint type = 0; type < TORCH_N_TYPES; type++)
    {
      gsize length = strlen (type_names[type]);

      if (length > longest && (gsize)(end - *text) >= length && memcmp (*text, type_names[type], length) == 0)
        {
          found = type;
          longest = length;
        }
    }
  *text += longest;
  return found;
}

static void
strip (const char **text, const char **end)
{
  while (*text < *end && g_ascii_isspace (**text))
    (*text)++;
  while (*text < *end && g_ascii_isspace ((*end)[-1]))
    (*end)--;
}

static const char *
parse_action (const char *text, const char *end, PsTorchAction *action)
{
  guint64 stage, microbatch = 0;

  strip (&text, &end);
  if (!parse_number (&text, end, PS_MAX_STAGES, &stage))
    return "begins with no stage number; an action looks like 0F3";
  PsTorchType type = parse_type (&text, end);
  if (type == TORCH_N_TYPES)
    return "has no type that PyTorch knows, such as F, I, B or W";
  if (type == TORCH_B && text < end && *text == 'W')
    return "is a whole backward as PyTorch wrote it until 2.5; B would be right, and I where such a file has B";
  if (has_microbatch (type) && !parse_number (&text, end, PS_MAX_MICROBATCHES, &microbatch))
    return "has no microbatch number";
  if (text != end)
    return "goes on after the end of the action";
  *action = (PsTorchAction){ .type = (guint8)type, .stage = (guint16)stage, .microbatch = (guint32)microbatch };
  return NULL;
}

/* "(0F7;7B3)OVERLAP_F_B" */
static const char *
parse_pair (const char *text, const char *end, PsTorchAction *actions)
{
  static const char tail[] = ")OVERLAP_F_B";
  gsize length = strlen (tail);
  const char *middle, *problem;

  if ((gsize)(end - text) < length || memcmp (end - length, tail, length) != 0)
    return "does not end in )OVERLAP_F_B";
  end -= length;
  text++;
  middle = memchr (text, ';', (gsize)(end - text));
  if (middle == NULL)
    return "overlaps less than two actions";
  problem = parse_action (text, middle, &actions[0]);
  if (problem == NULL)
    problem = parse_action (middle + 1, end, &actions[1]);
  if (problem != NULL)
    return problem;
  guint forwards = (actions[0].type == TORCH_F) + (actions[1].type == TORCH_F);
  for (guint i = 0; i < 2; i++)
    if (actions[i].type != TORCH_F && actions[i].type != TORCH_I && actions[i].type != TORCH_B)
      return "overlaps something else than F, I and B";
  actions[0].paired = TRUE;
  return forwards == 1 ? NULL : "does not overlap one forward with one backward";
}

const char *
ps_torch_cell_parse (const char *text, gsize length, PsTorchAction *actions, guint *n)
{
  const char *end = text + length;

  strip (&text, &end);
  *n = text < end && *text == '(' ? 2 : 1;
  return *n == 2 ? parse_pair (text, end, actions) : parse_action (text, end, actions);
}
