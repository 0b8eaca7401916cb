/* torch-rendezvous.c - runs action lists without time: a transfer happens when it is the next of its channel on both
 * ranks. */
#include "torch-actions.h"

/* A channel as one rank sees it: its transfers in list order. */
typedef struct
{
  GArray *queue; /* guint: places of actions, see Run.place_of */
  guint head;
} End;

typedef struct
{
  const TorchLists *lists;
  PsChannel channel;
  guint *first;        /* [n_ranks + 1] place of a rank's first action; places count through all ranks */
  guint *cursor;       /* [n_ranks] index of the action that the rank has reached */
  guint32 *ends[2];    /* [message] 1 + place of its SEND and of its RECV */
  guint8 *done;        /* [message] it was transferred */
  End **end_of;        /* [place] NULL for what is no transfer */
  GPtrArray **ends_of; /* [n_ranks] of End: the channels of a rank */
  GQueue awake;        /* ranks that may go on */
} Run;

static void
end_free (gpointer data)
{
  End *end = data;

  g_array_unref (end->queue);
  g_free (end);
}

static void
run_clear (Run *run)
{
  g_free (run->first);
  g_free (run->cursor);
  g_free (run->ends[0]);
  g_free (run->ends[1]);
  g_free (run->done);
  g_free (run->end_of);
  for (guint r = 0; r < run->lists->n_ranks; r++)
    g_ptr_array_unref (run->ends_of[r]);
  g_free (run->ends_of);
  g_queue_clear (&run->awake);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Run, run_clear)

static gboolean
is_transfer (const TorchAction *action)
{
  return action->type >= TORCH_SEND_F;
}

static gboolean
is_receive (const TorchAction *action)
{
  return action->type == TORCH_RECV_F || action->type == TORCH_RECV_B;
}

static guint
peer_rank (const Run *run, const TorchAction *action)
{
  guint stage = 0;

  torch_action_peer (run->lists, action, &stage);
  return run->lists->rank[stage];
}

static guint
channel_key (const Run *run, const TorchAction *action)
{
  guint peer = peer_rank (run, action);

  switch (run->channel)
    {
    case PS_CHANNEL_RANK:
      return 0;
    case PS_CHANNEL_PAIR:
      return peer;
    default:
      return 2 * peer + is_receive (action);
    }
}

static End *
find_end (Run *run, guint rank, GHashTable *ends, const TorchAction *action)
{
  gpointer key = GUINT_TO_POINTER (channel_key (run, action));
  End *end = g_hash_table_lookup (ends, key);

  if (end == NULL)
    {
      end = g_new0 (End, 1);
      end->queue = g_array_new (FALSE, FALSE, sizeof (guint));
      g_hash_table_insert (ends, key, end);
      g_ptr_array_add (run->ends_of[rank], end);
    }
  return end;
}

static void
queue_transfers (Run *run, guint rank)
{
  g_autoptr (GHashTable) ends = g_hash_table_new (NULL, NULL);

  for (guint i = 0; i < run->lists->actions[rank]->len; i++)
    {
      const TorchAction *action = torch_lists_action (run->lists, rank, i);
      guint place = run->first[rank] + i;
      End *end;

      if (!is_transfer (action))
        continue;
      end = find_end (run, rank, ends, action);
      g_array_append_val (end->queue, place);
      run->end_of[place] = end;
      run->ends[is_receive (action)][torch_action_message (run->lists, action)] = place + 1;
    }
}

static void
run_init (Run *run)
{
  const TorchLists *lists = run->lists;
  gsize n_messages = (gsize)lists->n_stages * lists->n_microbatches * 2;

  run->first = g_new0 (guint, lists->n_ranks + 1);
  run->cursor = g_new0 (guint, lists->n_ranks);
  for (guint r = 0; r < lists->n_ranks; r++)
    run->first[r + 1] = run->first[r] + lists->actions[r]->len;
  run->ends[0] = g_new0 (guint32, n_messages);
  run->ends[1] = g_new0 (guint32, n_messages);
  run->done = g_new0 (guint8, n_messages);
  run->end_of = g_new0 (End *, run->first[lists->n_ranks]);
  run->ends_of = g_new (GPtrArray *, lists->n_ranks);
  g_queue_init (&run->awake);
  for (guint r = 0; r < lists->n_ranks; r++)
    {
      run->ends_of[r] = g_ptr_array_new_with_free_func (end_free);
      queue_transfers (run, r);
      g_queue_push_tail (&run->awake, GUINT_TO_POINTER (r));
    }
}

/* The receive that an action of this rank waits for. */
static gboolean
waits_for (const Run *run, guint rank, const TorchAction *action, gsize *message)
{
  TorchAction receive = *action;
  TorchType type;
  guint from;

  if (!torch_action_input (run->lists, action, &from, &type) || run->lists->rank[from] == rank)
    return FALSE;
  receive.type = (guint8)type;
  *message = torch_action_message (run->lists, &receive);
  return TRUE;
}

static gboolean
at_head (const Run *run, guint rank, guint place)
{
  const End *end = run->end_of[place];

  return place - run->first[rank] < run->cursor[rank] && g_array_index (end->queue, guint, end->head) == place;
}

static void
transfer (Run *run, gsize message, guint rank, guint other)
{
  run->done[message] = TRUE;
  g_queue_push_tail (&run->awake, GUINT_TO_POINTER (rank));
  g_queue_push_tail (&run->awake, GUINT_TO_POINTER (other));
}

/* Transfers what stands at the head of this end and of its counterpart, one after the other. */
static void
progress_end (Run *run, guint rank, End *end)
{
  while (end->head < end->queue->len)
    {
      guint place = g_array_index (end->queue, guint, end->head);
      const TorchAction *action = torch_lists_action (run->lists, rank, place - run->first[rank]);
      gsize message = torch_action_message (run->lists, action);
      guint other = peer_rank (run, action), other_place = run->ends[!is_receive (action)][message] - 1;

      if (!at_head (run, rank, place) || !at_head (run, other, other_place))
        return;
      end->head++;
      run->end_of[other_place]->head++;
      transfer (run, message, rank, other);
    }
}

/* Without channels a transfer happens when the second rank reaches it. */
static void
meet (Run *run, guint rank, const TorchAction *action)
{
  gsize message = torch_action_message (run->lists, action);
  guint other = peer_rank (run, action);

  if (run->ends[!is_receive (action)][message] - 1 - run->first[other] < run->cursor[other])
    transfer (run, message, rank, other);
}

/* Lets a rank go on to the next action that waits. */
static void
progress_rank (Run *run, guint rank)
{
  const GArray *actions = run->lists->actions[rank];

  for (; run->cursor[rank] < actions->len; run->cursor[rank]++)
    {
      const TorchAction *action = torch_lists_action (run->lists, rank, run->cursor[rank]);
      gsize message;

      if (is_transfer (action))
        {
          if (run->channel == PS_CHANNEL_LATENCY)
            meet (run, rank, action);
        }
      else if (waits_for (run, rank, action, &message) && !run->done[message])
        break;
    }
}

#define MAX_NAMED 4

static void
describe_rank (const Run *run, guint rank, GString *text)
{
  const TorchAction *action = torch_lists_action (run->lists, rank, run->cursor[rank]);
  gsize message = 0;
  guint place;

  g_string_append_printf (text, "%s rank %u waits at cell %u (", text->len ? "," : "", rank,
                          action->cell ? action->cell : run->cursor[rank] + 1);
  torch_action_append (text, action);
  waits_for (run, rank, action, &message);
  place = run->ends[1][message] - 1;
  action = torch_lists_action (run->lists, rank, place - run->first[rank]);
  g_string_append_printf (text, ") for cell %u (", action->cell ? action->cell : place - run->first[rank] + 1);
  torch_action_append (text, action);
  g_string_append_c (text, ')');
}

static char *
describe_stuck (const Run *run)
{
  g_autoptr (GString) text = g_string_new (NULL);
  guint stuck = 0;

  for (guint r = 0; r < run->lists->n_ranks; r++)
    if (run->cursor[r] < run->lists->actions[r]->len && stuck++ < MAX_NAMED)
      describe_rank (run, r, text);
  if (stuck > MAX_NAMED)
    g_string_append_printf (text, " and %u more", stuck - MAX_NAMED);
  return stuck ? g_strdup (text->str + 1) : NULL;
}

char *
torch_find_deadlock (const TorchLists *lists, PsChannel channel)
{
  g_auto (Run) run = { .lists = lists, .channel = channel };

  run_init (&run);
  while (!g_queue_is_empty (&run.awake))
    {
      guint rank = GPOINTER_TO_UINT (g_queue_pop_head (&run.awake));

      progress_rank (&run, rank);
      for (guint i = 0; channel != PS_CHANNEL_LATENCY && i < run.ends_of[rank]->len; i++)
        progress_end (&run, rank, g_ptr_array_index (run.ends_of[rank], i));
    }
  return describe_stuck (&run);
}
