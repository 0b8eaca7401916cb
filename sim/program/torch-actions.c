/* torch-actions.c - the actions of torch.distributed.pipelining: their cells in a CSV, checks, schedules, lists with
 * messages, and what its runtime and torchtitan would refuse or run wrongly. */
#include "torch-actions.h"
#include "base/text.h"
#include "program-private.h"
#include "weight-window.h"
#include "schedule/formats-private.h"

#include <pipesim/formats.h>
#include <pipesim/program.h>

#include <string.h>

typedef struct {
  guint n_ranks;
  guint n_stages;
  guint n_microbatches;
  gboolean waits;   /* PyTorch 2.15: every send and every REDUCE_GRAD has its wait; 2.14 has no waits */
  guint16 *rank;    /* [n_stages] */
  GArray **actions; /* [n_ranks] of PsTorchAction */
} Lists;

static PsTorchAction *action_at (const Lists *lists, guint rank, guint i)
{
  return &g_array_index (lists->actions[rank], PsTorchAction, i);
}

static gboolean is_wait (guint type)
{
  return type == TORCH_WAIT_REDUCE_GRAD || type >= TORCH_WAIT_SEND_F;
}

static gboolean is_post (const PsTorchAction *action)
{
  return ps_torch_is_send (action->type) || ps_torch_is_receive (action->type);
}

static const char *const type_names[TORCH_N_TYPES]
    = { "F",      "I",      "W",      "B",      "UNSHARD",     "RESHARD",    "REDUCE_GRAD", "WAIT_REDUCE_GRAD",
        "SEND_F", "RECV_F", "SEND_B", "RECV_B", "WAIT_SEND_F", "WAIT_SEND_B" };

/* Lists without actions. Free with lists_free. */
static Lists *lists_new (guint n_ranks, guint n_stages, guint n_microbatches)
{
  Lists *lists = g_new0 (Lists, 1);

  lists->n_ranks = n_ranks;
  lists->n_stages = n_stages;
  lists->n_microbatches = n_microbatches;
  lists->rank = g_new0 (guint16, n_stages);
  lists->actions = g_new (GArray *, n_ranks);
  for (guint r = 0; r < n_ranks; r++)
    lists->actions[r] = g_array_new (FALSE, FALSE, sizeof (PsTorchAction));
  return lists;
}

static void lists_free (Lists *lists)
{
  if (lists == NULL)
    return;
  for (guint r = 0; r < lists->n_ranks; r++)
    g_array_unref (lists->actions[r]);
  g_free (lists->actions);
  g_free (lists->rank);
  g_free (lists);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Lists, lists_free)

/* The same ranks and stages, without actions. */
static Lists *lists_like (const Lists *from, gboolean waits)
{
  Lists *lists = lists_new (from->n_ranks, from->n_stages, from->n_microbatches);

  memcpy (lists->rank, from->rank, from->n_stages * sizeof *from->rank);
  lists->waits = waits;
  return lists;
}

/* Takes the list in place of a rank's. */
static void replace_list (Lists *lists, guint rank, GArray *list)
{
  g_array_unref (lists->actions[rank]);
  lists->actions[rank] = list;
}

static gboolean has_microbatch (PsTorchType type)
{
  return type < TORCH_UNSHARD || type > TORCH_WAIT_REDUCE_GRAD;
}

PsOpKind ps_torch_op_kind (PsTorchType type)
{
  static const PsOpKind kinds[TORCH_N_COMPUTE] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW };

  return kinds[type];
}

/* TORCH_N_TYPES for R and O, which PyTorch has no name for */
static PsTorchType type_of (PsOpKind kind)
{
  for (guint type = 0; type < TORCH_N_COMPUTE; type++)
    if (ps_torch_op_kind (type) == kind)
      return type;
  return TORCH_N_TYPES;
}

/* The stage that a SEND goes to or a RECV comes from; FALSE at the ends of the model. */
static gboolean find_peer (const Lists *lists, const PsTorchAction *action, guint *peer_stage)
{
  gboolean up = action->type == TORCH_SEND_F || action->type == TORCH_RECV_B;

  if (up ? action->stage + 1U == lists->n_stages : action->stage == 0)
    return FALSE;
  *peer_stage = up ? action->stage + 1U : action->stage - 1U;
  return TRUE;
}

/* The number, below 2 * n_stages * n_microbatches, of the message of a SEND, its RECV and its WAIT_SEND. */
static gsize message_of (const Lists *lists, const PsTorchAction *action)
{
  gboolean backward = action->type == TORCH_SEND_B || action->type == TORCH_RECV_B || action->type == TORCH_WAIT_SEND_B;
  guint sender = action->stage;

  if (action->type == TORCH_RECV_F)
    sender--;
  else if (action->type == TORCH_RECV_B)
    sender++;
  return ((gsize)sender * lists->n_microbatches + action->microbatch) * 2 + backward;
}

/* Appends "0F3"; pairs are joined by to_csv. */
static void append_name (GString *text, const PsTorchAction *action)
{
  g_string_append_printf (text, "%u%s", action->stage, type_names[action->type]);
  if (has_microbatch (action->type))
    g_string_append_printf (text, "%u", action->microbatch);
}

char *ps_torch_op_name (PsOp op)
{
  PsTorchAction action = { .type = (guint8)type_of (op.kind), .stage = op.stage, .microbatch = op.microbatch };

  if (action.type == TORCH_N_TYPES)
    return NULL;
  GString *name = g_string_new (NULL);
  append_name (name, &action);
  return g_string_free (name, FALSE);
}

static gboolean parse_number (const char **text, const char *end, guint64 limit, guint64 *value)
{
  const char *start = *text;

  for (*value = 0; *text < end && g_ascii_isdigit (**text) && *value < limit; (*text)++)
    *value = *value * 10 + (guint64)(**text - '0');
  return *text > start && *value < limit;
}

/* The longest type that the text begins with: WAIT_SEND_F is no W. */
static PsTorchType parse_type (const char **text, const char *end)
{
  guint found = TORCH_N_TYPES;
  gsize longest = 0;

  for (guint type = 0; type < TORCH_N_TYPES; type++) {
    gsize length = strlen (type_names[type]);

    if (length > longest && (gsize)(end - *text) >= length && memcmp (*text, type_names[type], length) == 0) {
      found = type;
      longest = length;
    }
  }
  *text += longest;
  return found;
}

static void strip (const char **text, const char **end)
{
  while (*text < *end && g_ascii_isspace (**text))
    (*text)++;
  while (*text < *end && g_ascii_isspace ((*end)[-1]))
    (*end)--;
}

static const char *parse_action (const char *text, const char *end, PsTorchAction *action)
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
static const char *parse_pair (const char *text, const char *end, PsTorchAction *actions)
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

const char *ps_torch_cell_parse (const char *text, gsize length, PsTorchAction *actions, guint *n)
{
  const char *end = text + length;

  strip (&text, &end);
  *n = text < end && *text == '(' ? 2 : 1;
  return *n == 2 ? parse_pair (text, end, actions) : parse_action (text, end, actions);
}

/* Lists of actions as CSV: a line per rank, a cell per action. */

typedef struct {
  const char *where;
  gboolean compute_only;
  GPtrArray *rows; /* of GArray of PsTorchAction */
  guint64 n_stages;
  guint32 n_microbatches;
  gboolean waits;
  GArray *cells; /* the row being read */
} Reader;

/* "FILE:ROW:CELL: 0F3", the start of messages. Free with g_free. */
static char *place (const char *where, guint rank, const PsTorchAction *action)
{
  GString *place = g_string_new (NULL);

  g_string_append_printf (place, "%s:%u:%u: ", where, rank + 1, action->cell);
  append_name (place, action);
  return g_string_free (place, FALSE);
}

static gboolean G_GNUC_PRINTF (5, 6)
    refuse_action (const char *where, guint rank, const PsTorchAction *action, GError **error, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *what = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  return ps_refuse_at (place (where, rank, action), error, "%s", what);
}

static gboolean refuse_cell (const Reader *reader, guint cell, const char *text, gsize length, const char *problem,
                             GError **error)
{
  g_autofree char *start = g_strndup (text, MIN (length, 40));
  g_autofree char *shown = g_strescape (start, NULL);

  return ps_refuse (error, PS_ERROR_INPUT, "%s:%u:%u: '%s' %s", reader->where, reader->rows->len + 1, cell, shown,
                    problem);
}

static void unquote (const char **text, gsize *length)
{
  if (*length >= 2 && (*text)[0] == '"' && (*text)[*length - 1] == '"') {
    (*text)++;
    *length -= 2;
  }
}

static gboolean is_blank (const char *text, gsize length)
{
  for (gsize i = 0; i < length; i++)
    if (!g_ascii_isspace (text[i]))
      return FALSE;
  return TRUE;
}

static gboolean read_cell (Reader *reader, guint cell, const char *text, gsize length, GError **error)
{
  PsTorchAction actions[2];
  guint n;

  unquote (&text, &length);
  if (is_blank (text, length))
    return reader->compute_only
               ? TRUE
               : refuse_cell (reader, cell, text, length, "is an empty cell, which torch-comms does not allow", error);
  const char *problem = ps_torch_cell_parse (text, length, actions, &n);
  if (problem != NULL)
    return refuse_cell (reader, cell, text, length, problem, error);
  for (guint i = 0; i < n; i++) {
    if (reader->compute_only && actions[i].type >= TORCH_N_COMPUTE)
      return refuse_cell (reader, cell, text, length, "is no computation, which is all that torch-compute holds",
                          error);
    actions[i].cell = cell;
    reader->waits |= is_wait (actions[i].type);
    reader->n_stages = MAX (reader->n_stages, actions[i].stage + 1U);
    reader->n_microbatches = MAX (reader->n_microbatches, actions[i].microbatch + 1);
    g_array_append_val (reader->cells, actions[i]);
  }
  return TRUE;
}

static gboolean read_row (Reader *reader, const char *text, const char *end, GError **error)
{
  g_autoptr (GArray) cells = g_array_new (FALSE, FALSE, sizeof (PsTorchAction));

  if (end > text && end[-1] == '\r')
    end--;
  reader->cells = cells;
  for (guint cell = 1; text <= end; cell++) {
    const char *comma = memchr (text, ',', (gsize)(end - text));
    const char *stop = comma != NULL ? comma : end;

    if (cell > PS_MAX_OPS)
      return refuse_cell (reader, cell, text, 0, "is one cell too many", error);
    if (cells->len > 0 || comma != NULL || !is_blank (text, (gsize)(stop - text)))
      if (!read_cell (reader, cell, text, (gsize)(stop - text), error))
        return FALSE;
    text = stop + 1;
  }
  if (cells->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: is a line without actions; each line is a rank", reader->where,
                      reader->rows->len + 1);
  g_ptr_array_add (reader->rows, g_steal_pointer (&cells));
  return TRUE;
}

static gboolean read_rows (Reader *reader, const char *text, gsize length, GError **error)
{
  const char *end = text + length;

  while (text < end) {
    const char *newline = memchr (text, '\n', (gsize)(end - text));

    if (reader->rows->len == PS_MAX_DEVICES)
      return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: is a line too many; %d ranks are possible", reader->where,
                        PS_MAX_DEVICES + 1, PS_MAX_DEVICES);
    if (!read_row (reader, text, newline != NULL ? newline : end, error))
      return FALSE;
    text = newline != NULL ? newline + 1 : end;
  }
  if (reader->rows->len == 0)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: is empty; a line of actions per rank would be right",
                 reader->where);
  return reader->rows->len > 0;
}

static gboolean assign_stages (const Reader *reader, Lists *lists, GError **error)
{
  g_autofree gboolean *seen = g_new0 (gboolean, lists->n_stages);

  for (guint r = 0; r < lists->n_ranks; r++)
    for (guint i = 0; i < lists->actions[r]->len; i++) {
      const PsTorchAction *action = action_at (lists, r, i);

      if (seen[action->stage] && lists->rank[action->stage] != r)
        return refuse_action (reader->where, r, action, error, "stage %u is in line %u already; a stage has one rank",
                              action->stage, lists->rank[action->stage] + 1U);
      seen[action->stage] = TRUE;
      lists->rank[action->stage] = (guint16)r;
    }
  for (guint stage = 0; stage < lists->n_stages; stage++)
    if (!seen[stage])
      return ps_refuse (error, PS_ERROR_INPUT, "%s: stage %u has no action, but stage %u has", reader->where, stage,
                        lists->n_stages - 1);
  return TRUE;
}

/* Checks that sends and receives go to another rank. */
static gboolean check_peers (const char *where, const Lists *lists, GError **error)
{
  for (guint r = 0; r < lists->n_ranks; r++)
    for (guint i = 0; i < lists->actions[r]->len; i++) {
      const PsTorchAction *action = action_at (lists, r, i);
      guint peer;

      if (!is_post (action))
        continue;
      if (!find_peer (lists, action, &peer))
        return refuse_action (where, r, action, error, "stage %u is an end of the model and has no such neighbour",
                              action->stage);
      if (lists->rank[peer] == r)
        return refuse_action (where, r, action, error, "stage %u is on this rank too; nothing is sent", peer);
    }
  return TRUE;
}

/* Splits a CSV into lists and finds ranks, stages and microbatches. compute_only: refuses all but computing actions.
 * Every stage has one rank; ids are dense; messages go to another rank. */
static Lists *parse_lists (const char *where, const char *text, gsize length, gboolean compute_only, GError **error)
{
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)g_array_unref);
  Reader reader = { .where = where, .compute_only = compute_only, .rows = rows };

  if (!read_rows (&reader, text, length, error))
    return NULL;
  g_autoptr (Lists) lists = lists_new (rows->len, (guint)reader.n_stages, reader.n_microbatches);
  lists->waits = reader.waits;
  for (guint r = 0; r < rows->len; r++)
    replace_list (lists, r, g_array_ref (g_ptr_array_index (rows, r)));
  return assign_stages (&reader, lists, error) && check_peers (where, lists, error) ? g_steal_pointer (&lists) : NULL;
}

static char *to_csv (const Lists *lists)
{
  GString *text = g_string_new (NULL);

  for (guint r = 0; r < lists->n_ranks; r++) {
    gboolean joined = FALSE;

    for (guint i = 0; i < lists->actions[r]->len; i++) {
      const PsTorchAction *action = action_at (lists, r, i);

      g_string_append (text, i == 0 ? "" : joined ? ";" : ",");
      if (action->paired)
        g_string_append_c (text, '(');
      append_name (text, action);
      if (joined)
        g_string_append (text, ")OVERLAP_F_B");
      joined = action->paired;
    }
    g_string_append (text, "\r\n");
  }
  return g_string_free (text, FALSE);
}

/* Schedules from action lists, and action lists from schedules. */

static gboolean refuse (const char *what, GError **error)
{
  return ps_refuse (error, PS_ERROR_SCHEDULE, "PyTorch's formats cannot hold %s", what);
}

static gboolean can_hold (const PsSchedule *schedule, GError **error)
{
  if (schedule->placement->n_copies > 1)
    return refuse ("a stage on two devices (two weight copies)", error);
  if (schedule->asynchronous || schedule->weight_versions != NULL)
    return refuse ("weight versions", error);
  return schedule->n_slices == 1 || refuse ("sequence slices", error);
}

/* The action that sends (or receives) the message of an op, as named by PsPost and PsInstruction. */
static PsTorchAction action_of (gboolean send, PsOp op)
{
  gboolean forward = op.kind == PS_OP_F;
  PsTorchAction action = { .stage = op.stage, .microbatch = op.microbatch };

  if (send)
    action.type = forward ? TORCH_SEND_F : TORCH_SEND_B;
  else {
    action.type = forward ? TORCH_RECV_F : TORCH_RECV_B;
    action.stage = (guint16)(forward ? op.stage + 1 : op.stage - 1);
  }
  return action;
}

/* Appends, from *next on, the posts of a device that stand before ops[place]. */
static void append_posts (const GArray *posts, guint *next, guint device, guint place, Lists *lists)
{
  for (; posts != NULL && *next < posts->len; ++*next) {
    const PsPost *post = &g_array_index (posts, PsPost, *next);
    PsTorchAction action = { .stage = post->op.stage, .microbatch = post->op.microbatch };

    if (post->device > device || post->place > place)
      return;
    if (post->type < PS_POST_OTHER)
      action = action_of (post->type == PS_POST_SEND, post->op);
    else
      action.type = (guint8)(post->type - PS_POST_OTHER);
    lists->waits |= is_wait (action.type);
    g_array_append_val (lists->actions[device], action);
  }
}

static gboolean append_device (const PsSchedule *schedule, const GArray *posts, guint *next, guint device, Lists *lists,
                               GError **error)
{
  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++) {
    PsOp op = schedule->ops[i];
    PsTorchType type = type_of (op.kind);
    PsTorchAction action
        = { .type = (guint8)type, .paired = op.paired, .stage = op.stage, .microbatch = op.microbatch & G_MAXINT32 };

    if (type == TORCH_N_TYPES)
      return refuse (op.kind == PS_OP_R ? "recomputation (R)" : "optimizer steps (O)", error);
    append_posts (posts, next, device, i, lists);
    g_array_append_val (lists->actions[device], action);
  }
  append_posts (posts, next, device, schedule->first[device + 1], lists);
  return TRUE;
}

/* Computing actions of a schedule and, with `posts`, all others that it was read with. PS_ERROR_SCHEDULE if PyTorch has
 * no name for an op. */
static Lists *from_schedule (const PsSchedule *schedule, gboolean posts, GError **error)
{
  const PsPlacement *placement = schedule->placement;
  guint next = 0;

  if (!can_hold (schedule, error))
    return NULL;
  g_autoptr (Lists) lists = lists_new (placement->n_devices, placement->n_stages, schedule->n_microbatches);
  for (guint stage = 0; stage < placement->n_stages; stage++)
    lists->rank[stage] = (guint16)ps_placement_device (placement, 0, stage);
  for (guint device = 0; device < placement->n_devices; device++)
    if (!append_device (schedule, posts ? schedule->posts : NULL, &next, device, lists, error))
      return NULL;
  return g_steal_pointer (&lists);
}

/* The name of a schedule: 1F1B_p4 for "runs/1F1B_p4.csv". */
static char *name_of (const char *where)
{
  char *name = g_path_get_basename (where);
  char *dot = g_strrstr (name, ".");

  if (dot != NULL && dot > name)
    *dot = '\0';
  return name;
}

static void add_action (PsScheduleBuilder *builder, const Lists *lists, const PsTorchAction *action)
{
  PsOp op = { .stage = action->stage, .microbatch = action->microbatch & G_MAXINT32, .paired = action->paired & 1U };
  guint peer;

  if (action->type < TORCH_N_COMPUTE) {
    op.kind = (guint8)ps_torch_op_kind (action->type);
    ps_schedule_builder_add_op (builder, op);
    return;
  }
  if (!is_post (action)) {
    ps_schedule_builder_add_post (builder, PS_POST_OTHER + action->type, op);
    return;
  }
  op.kind = action->type == TORCH_SEND_F || action->type == TORCH_RECV_F ? PS_OP_F : PS_OP_B;
  if (ps_torch_is_receive (action->type) && find_peer (lists, action, &peer))
    op.stage = (guint16)peer;
  ps_schedule_builder_add_post (builder, ps_torch_is_send (action->type) ? PS_POST_SEND : PS_POST_RECEIVE, op);
}

/* Makes a schedule of lists. Actions that do not compute become its posts. */
static PsSchedule *to_schedule (const char *where, const Lists *lists)
{
  g_autofree char *name = name_of (where);
  PsPlacement *placement = ps_placement_new_custom (lists->n_ranks, lists->n_stages, 1, lists->rank);
  PsScheduleBuilder *builder = ps_schedule_builder_new (name, placement, lists->n_microbatches);

  for (guint r = 0; r < lists->n_ranks; r++) {
    for (guint i = 0; i < lists->actions[r]->len; i++)
      add_action (builder, lists, action_at (lists, r, i));
    ps_schedule_builder_next_device (builder);
  }
  return ps_schedule_builder_end (builder);
}

/* What must hold for the actions of each rank. */

/* Refuses the n-th action of a rank, from 0, that computes or, with `posts`, sends or receives. */
static gboolean refuse_nth (const char *where, const Lists *lists, guint rank, guint n, gboolean posts,
                            const char *problem, GError **error)
{
  guint i = 0;

  while ((action_at (lists, rank, i)->type >= TORCH_N_COMPUTE && !(posts && is_post (action_at (lists, rank, i))))
         || n-- > 0)
    i++;
  return refuse_action (where, rank, action_at (lists, rank, i), error, "%s", problem);
}

/* Makes a schedule of lists, and checks its computations. */
static PsSchedule *to_valid_schedule (const char *where, const Lists *lists, GError **error)
{
  g_autoptr (PsSchedule) schedule = to_schedule (where, lists);
  guint rank, n;

  schedule->forward_only = FALSE; /* a file of F alone lacks its backwards */
  g_autofree char *fault = ps_schedule_find_fault (schedule, &rank, &n);
  if (fault == NULL)
    return g_steal_pointer (&schedule);
  if (n < G_MAXUINT)
    refuse_nth (where, lists, rank, n, FALSE, fault, error);
  else
    ps_refuse (error, PS_ERROR_INPUT, "%s:%u: %s; microbatches go up to %u", where, rank + 1, fault,
               lists->n_microbatches - 1);
  return NULL;
}

/* Checks that each send of a rank has its wait after it. under_way: [2 * n_stages * n_microbatches], all FALSE. */
static gboolean check_send_waits (const char *where, const Lists *lists, guint r, guint8 *under_way, GError **error)
{
  for (guint i = 0; i < lists->actions[r]->len; i++) {
    const PsTorchAction *action = action_at (lists, r, i);

    if (action->type >= TORCH_WAIT_SEND_F && !under_way[message_of (lists, action)])
      return refuse_action (where, r, action, error, "waits for a send that is not under way");
    if (action->type >= TORCH_WAIT_SEND_F || ps_torch_is_send (action->type))
      under_way[message_of (lists, action)] = ps_torch_is_send (action->type);
  }
  for (guint i = 0; i < lists->actions[r]->len; i++) {
    const PsTorchAction *action = action_at (lists, r, i);

    if (ps_torch_is_send (action->type) && under_way[message_of (lists, action)])
      return refuse_action (where, r, action, error, "has no WAIT_SEND after it, which PyTorch 2.15 wants");
  }
  return TRUE;
}

/* Checks that one reduction is under way at a time, each with its wait. */
static gboolean check_reductions (const char *where, const Lists *lists, guint r, GError **error)
{
  const PsTorchAction *open = NULL;

  for (guint i = 0; i < lists->actions[r]->len; i++) {
    const PsTorchAction *action = action_at (lists, r, i);

    if (action->type == TORCH_REDUCE_GRAD && open != NULL)
      return refuse_action (where, r, action, error, "comes before the wait for the reduction of stage %u",
                            open->stage);
    if (action->type == TORCH_WAIT_REDUCE_GRAD && (open == NULL || open->stage != action->stage))
      return refuse_action (where, r, action, error, "waits for a reduction that is not under way");
    if (action->type == TORCH_REDUCE_GRAD || action->type == TORCH_WAIT_REDUCE_GRAD)
      open = action->type == TORCH_REDUCE_GRAD ? action : NULL;
  }
  return open == NULL
         || refuse_action (where, r, open, error, "has no %uWAIT_REDUCE_GRAD after it, which PyTorch 2.15 wants",
                           open->stage);
}

/* The rank at the other end of a SEND or RECV. */
static guint peer_rank (const Lists *lists, const PsTorchAction *action)
{
  guint stage = 0;

  find_peer (lists, action, &stage);
  return lists->rank[stage];
}

/* Checks that a rank receives in the order in which the other one sends: the n-th send of one rank to another meets the
 * n-th receive from there, since messages carry no tag. next: scratch [n_ranks]. */
static gboolean check_pairing (const char *where, const Lists *lists, guint r, guint *next, GError **error)
{
  memset (next, 0, lists->n_ranks * sizeof *next);
  for (guint i = 0; i < lists->actions[r]->len; i++) {
    const PsTorchAction *action = action_at (lists, r, i), *send;
    guint from;

    if (!ps_torch_is_receive (action->type))
      continue;
    from = peer_rank (lists, action);
    do
      send = action_at (lists, from, next[from]++);
    while (!ps_torch_is_send (send->type) || peer_rank (lists, send) != r);
    if (message_of (lists, send) == message_of (lists, action))
      continue;
    g_autoptr (GString) sent = g_string_new (NULL);
    append_name (sent, send);
    return refuse_action (where, r, action, error, "PyTorch would hand it %s, which rank %u sends in its turn",
                          sent->str, from);
  }
  return TRUE;
}

/* The number of the action of an instruction among those of its device that compute, send or receive. A wait has that
 * of the computation that waits. */
static guint action_number (const PsProgram *program, guint device, guint instruction)
{
  guint n = 0;

  for (guint i = program->first[device]; i < program->first[device] + instruction; i++)
    n += program->instructions[i].type != PS_INSTRUCTION_WAIT;
  return n;
}

/* Checks messages: those of the program, whose order PyTorch's runtime keeps, and the waits of 2.15. */
static gboolean check_messages (const char *where, const Lists *lists, const PsProgram *program, GError **error)
{
  g_autofree guint8 *under_way = g_malloc0 (2 * (gsize)lists->n_stages * lists->n_microbatches);
  g_autofree guint *next = g_new (guint, lists->n_ranks);
  guint rank, instruction;
  const char *fault = ps_program_find_fault (program, &rank, &instruction);

  if (fault != NULL)
    return refuse_nth (where, lists, rank, action_number (program, rank, instruction), TRUE, fault, error);
  for (guint r = 0; r < lists->n_ranks; r++)
    if ((lists->waits
         && (!check_send_waits (where, lists, r, under_way, error) || !check_reductions (where, lists, r, error)))
        || !check_pairing (where, lists, r, next, error))
      return FALSE;
  return TRUE;
}

/* The waits for sends and reductions that PyTorch 2.15 needs and 2.14 does not have. */

static void append_wait (GArray *list, PsTorchAction action)
{
  action.type = action.type == TORCH_REDUCE_GRAD ? TORCH_WAIT_REDUCE_GRAD
                : action.type == TORCH_SEND_F    ? TORCH_WAIT_SEND_F
                                                 : TORCH_WAIT_SEND_B;
  action.paired = FALSE;
  g_array_append_val (list, action);
}

/* Appends the wait for a send if it is under way. */
static void end_send (const Lists *lists, guint8 *pending, PsTorchAction send, GArray *list)
{
  guint8 *message = &pending[message_of (lists, &send)];

  if (*message)
    append_wait (list, send);
  *message = FALSE;
}

/* pending: [2 * n_stages * n_microbatches] whether a message is being sent; all FALSE. */
static GArray *wait_for_sends (const Lists *lists, const GArray *actions, guint8 *pending)
{
  const PsTorchAction *all = (const PsTorchAction *)(gconstpointer)actions->data;
  GArray *list = g_array_new (FALSE, FALSE, sizeof *all);

  for (guint i = 0, n; i < actions->len; i += n) {
    n = all[i].paired ? 2 : 1;
    g_array_append_vals (list, &all[i], n);
    if (ps_torch_is_send (all[i].type))
      pending[message_of (lists, &all[i])] = TRUE;
    for (guint k = i; k < i + n; k++) {
      PsTorchAction send = all[k];

      send.type = TORCH_SEND_F;
      if (all[k].type == TORCH_I || all[k].type == TORCH_B)
        end_send (lists, pending, send, list);
    }
  }
  for (guint i = 0; i < actions->len; i++)
    if (ps_torch_is_send (all[i].type))
      end_send (lists, pending, all[i], list);
  return list;
}

/* Appends to every list the waits for its sends: WAIT_SEND_F after the backward of its stage and microbatch, all others
 * at the end in the order of the sends. */
static void add_send_waits (Lists *lists)
{
  g_autofree guint8 *pending = g_malloc0 (2 * (gsize)lists->n_stages * lists->n_microbatches);

  for (guint r = 0; r < lists->n_ranks; r++)
    replace_list (lists, r, wait_for_sends (lists, lists->actions[r], pending));
}

/* Turns lowered lists of one release into those of the other: adds waits or removes them. */
static void set_waits (Lists *lists, gboolean waits)
{
  if (lists->waits == waits)
    return;
  for (guint r = 0; r < lists->n_ranks; r++) {
    GArray *list = g_array_new (FALSE, FALSE, sizeof (PsTorchAction));

    for (guint i = 0; i < lists->actions[r]->len; i++) {
      PsTorchAction action = *action_at (lists, r, i);

      if (!is_wait (action.type))
        g_array_append_val (list, action);
      if (waits && action.type == TORCH_REDUCE_GRAD)
        append_wait (list, action);
    }
    replace_list (lists, r, list);
  }
  if (waits)
    add_send_waits (lists);
  lists->waits = waits;
}

/* Lists of computing actions become what PyTorch's runtime executes. Passes in its order: weights are
 * gathered and dropped, gradients are reduced, results are sent, sends are waited for. */

static void append (GArray *list, PsTorchType type, guint stage, guint microbatch)
{
  PsTorchAction action = { .type = (guint8)type, .stage = (guint16)stage, .microbatch = microbatch };

  g_array_append_val (list, action);
}

static void sort_stages (guint16 *stages, guint n)
{
  for (guint i = 1; i < n; i++)
    for (guint j = i; j > 0 && stages[j] < stages[j - 1]; j--) {
      guint16 stage = stages[j];

      stages[j] = stages[j - 1];
      stages[j - 1] = stage;
    }
}

static void append_weights (gpointer list, guint stage, gboolean gathers)
{
  append (list, gathers ? TORCH_UNSHARD : TORCH_RESHARD, stage, 0);
}

/* PyTorch 2.14 (`waits` is FALSE) keeps active stages in a set: it drops the lowest first. */
static void change_active (GArray *list, gboolean waits, PsGathered *active, const PsWeightWindow *window)
{
  if (!waits)
    sort_stages (active->stage, active->n);
  ps_gathered_change (active, window, append_weights, list);
}

/* Reduces the gradients of a stage after the cell with its last backward. */
static void append_reduce (GArray *list, gboolean waits, const PsTorchAction *cell, guint n, guint *left)
{
  for (guint i = 0; i < n; i++)
    if ((cell[i].type == TORCH_W || cell[i].type == TORCH_B) && --left[cell[i].stage] == 0) {
      append (list, TORCH_REDUCE_GRAD, cell[i].stage, 0);
      if (waits)
        append (list, TORCH_WAIT_REDUCE_GRAD, cell[i].stage, 0);
    }
}

static GArray *add_weights (const GArray *actions, const PsWeightWindow *windows, gboolean waits, guint *left)
{
  GArray *list = g_array_new (FALSE, FALSE, sizeof (PsTorchAction));
  PsGathered active = { 0 };
  guint n;

  for (guint i = 0; i < actions->len; i += n) {
    const PsTorchAction *cell = &g_array_index (actions, PsTorchAction, i);

    n = cell->paired ? 2 : 1;
    change_active (list, waits, &active, &windows[i]);
    g_array_append_vals (list, cell, n);
    append_reduce (list, waits, cell, n, left);
  }
  change_active (list, waits, &active, &windows[actions->len]);
  return list;
}

static Lists *add_all_weights (const Lists *compute, const PsSchedule *schedule, gboolean waits)
{
  Lists *weights = lists_like (compute, waits);
  g_autofree guint *left = g_new (guint, compute->n_stages);

  for (guint stage = 0; stage < compute->n_stages; stage++)
    left[stage] = compute->n_microbatches;
  for (guint r = 0; r < compute->n_ranks; r++) {
    g_autofree PsWeightWindow *windows = ps_weight_windows (schedule, r);

    replace_list (weights, r, add_weights (compute->actions[r], windows, waits, left));
  }
  return weights;
}

/* Appends actions of a rank up to its next computation, but the last n_left of them. */
static void append_until (const GArray *from, guint *next, guint n_left, GArray *to)
{
  guint end = *next;

  while (end < from->len && g_array_index (from, PsTorchAction, end).type >= TORCH_N_COMPUTE)
    end++;
  for (; *next + n_left < end; ++*next)
    g_array_append_vals (to, &g_array_index (from, PsTorchAction, *next), 1);
}

/* Lowers computing actions to those of PyTorch's runtime, with sends and receives at their places in a program of these
 * actions. left: as in ps_program_lower_noting; NULL: weights are gathered and dropped right before a computation. */
static Lists *follow (const Lists *compute, const PsProgram *program, const guint8 *left, gboolean waits)
{
  g_autoptr (Lists) weights = add_all_weights (compute, program->schedule, waits);
  Lists *to = lists_like (compute, waits);

  for (guint r = 0; r < compute->n_ranks; r++) {
    const GArray *from = weights->actions[r];
    guint next = 0;

    for (guint i = program->first[r]; i < program->first[r + 1]; i++) {
      const PsInstruction *instruction = &program->instructions[i];
      gboolean receives = instruction->type == PS_INSTRUCTION_RECEIVE;
      PsTorchAction action;

      if (instruction->type == PS_INSTRUCTION_WAIT)
        continue;
      if (instruction->type == PS_INSTRUCTION_COMPUTE || (receives && left != NULL))
        append_until (from, &next, receives ? left[instruction->message - 1] : 0, to->actions[r]);
      action = instruction->type == PS_INSTRUCTION_COMPUTE ? g_array_index (from, PsTorchAction, next++)
                                                           : action_of (!receives, instruction->op);
      g_array_append_val (to->actions[r], action);
    }
    append_until (from, &next, 0, to->actions[r]);
  }
  if (waits)
    add_send_waits (to);
  return to;
}

/* The same at the places of PyTorch's own lowering. PS_ERROR_SCHEDULE if ranks wait for each other in a circle. */
static Lists *lower (const Lists *compute, const PsSchedule *schedule, gboolean waits, GError **error)
{
  g_autofree guint8 *left = g_new (guint8, ps_schedule_n_ops (schedule));
  g_autoptr (PsProgram) program = ps_program_lower_noting (ps_schedule_copy (schedule), waits ? 2 : 1, left, error);

  return program != NULL ? follow (compute, program, left, waits) : NULL;
}

/* PyTorch's CSV of computations, "compute_only". */

/* Recognises any text that is no JSON; the other format has taken the lowered ones before. */
static gboolean recognise_compute (const char *text, gsize length)
{
  char first = ps_format_first (text, length);

  return g_ascii_isdigit (first) || first == '(' || first == ',' || first == '"';
}

static PsSchedule *read_compute (const char *where, const char *text, gsize length, GError **error)
{
  g_autoptr (Lists) lists = parse_lists (where, text, length, TRUE, error);

  return lists != NULL ? to_valid_schedule (where, lists, error) : NULL;
}

static char *write_compute (const PsSchedule *schedule, GError **error)
{
  g_autoptr (Lists) lists = from_schedule (schedule, FALSE, error);

  return lists != NULL ? to_csv (lists) : NULL;
}

const PsFormat ps_format_torch_compute = {
  .name = "torch-compute",
  .description = "PyTorch pipelining CSV, computations only (what torchtitan loads)",
  .recognise = recognise_compute,
  .read = read_compute,
  .write = write_compute,
};

/* PyTorch's CSV of all actions that its runtime executes, "compute_comms", as of 2.15 and of 2.14. */

/* Recognises words that only lowered lists have. */
static gboolean recognise_2_14 (const char *text, gsize length)
{
  static const char *const words[] = { "SHARD", "SEND_", "RECV_", "REDUCE_GRAD" };
  gboolean found = FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    found |= g_strstr_len (text, (gssize)length, words[i]) != NULL;
  return found && recognise_compute (text, length);
}

static gboolean recognise_comms (const char *text, gsize length)
{
  return recognise_2_14 (text, length) && g_strstr_len (text, (gssize)length, "WAIT_") != NULL;
}

/* Checks also that the lists can run with any channels; lint says which channels they need. */
static PsSchedule *read_comms (const char *where, const char *text, gsize length, GError **error)
{
  g_autoptr (Lists) lists = parse_lists (where, text, length, FALSE, error);
  g_autoptr (PsSchedule) schedule = lists != NULL ? to_valid_schedule (where, lists, error) : NULL;
  g_autoptr (GError) cause = NULL;

  if (schedule == NULL)
    return NULL;
  PsSchedule *copy = ps_schedule_copy (schedule);
  g_free (copy->name);
  copy->name = g_strdup (where);
  g_autoptr (PsProgram) program = ps_program_lower (copy, PS_COMM_ASAP, &cause);
  if (program != NULL && !check_messages (where, lists, program, error))
    return NULL;
  if (program != NULL && ps_program_check (program, PS_CHANNEL_LATENCY, &cause))
    return g_steal_pointer (&schedule);
  return ps_refuse_null (error, PS_ERROR_INPUT, "%s", cause->message);
}

/* Writes the schedule's own sends and receives, or those of PyTorch's lowering if it has none. */
static char *write_comms (const PsSchedule *schedule, gboolean waits, GError **error)
{
  g_autoptr (Lists) own = from_schedule (schedule, TRUE, error);

  if (own == NULL)
    return NULL;
  if (schedule->posts != NULL) {
    set_waits (own, waits);
    return to_csv (own);
  }
  g_autoptr (Lists) lowered = lower (own, schedule, waits, error);
  return lowered != NULL ? to_csv (lowered) : NULL;
}

static char *write_program (const PsProgram *program, gboolean waits, GError **error)
{
  g_autoptr (Lists) compute = from_schedule (program->schedule, FALSE, error);
  g_autoptr (Lists) lists = compute != NULL ? follow (compute, program, NULL, waits) : NULL;

  return lists != NULL ? to_csv (lists) : NULL;
}

static char *write_2_15 (const PsSchedule *schedule, GError **error)
{
  return write_comms (schedule, TRUE, error);
}

static char *write_2_14 (const PsSchedule *schedule, GError **error)
{
  return write_comms (schedule, FALSE, error);
}

static char *write_program_2_15 (const PsProgram *program, GError **error)
{
  return write_program (program, TRUE, error);
}

static char *write_program_2_14 (const PsProgram *program, GError **error)
{
  return write_program (program, FALSE, error);
}

const PsFormat ps_format_torch_comms = {
  .name = "torch-comms",
  .description = "PyTorch 2.15 pipelining CSV with sends, receives, waits and weight handling",
  .recognise = recognise_comms,
  .read = read_comms,
  .write = write_2_15,
  .write_program = write_program_2_15,
};

const PsFormat ps_format_torch_comms_2_14 = {
  .name = "torch-comms-2.14",
  .description = "The same for PyTorch 2.14, which knows no waits",
  .recognise = recognise_2_14,
  .read = read_comms,
  .write = write_2_14,
  .write_program = write_program_2_14,
};

/* The faults of a schedule that PyTorch's runtime and torchtitan would refuse or run wrongly. */

static void finding_free (gpointer data)
{
  g_free (((PsFinding *)data)->what);
  g_free (data);
}

GPtrArray *ps_findings_new (void)
{
  return g_ptr_array_new_with_free_func (finding_free);
}

void ps_finding_add (GPtrArray *findings, gboolean refused, const char *advice, const char *format, ...)
{
  PsFinding *finding = g_new (PsFinding, 1);
  va_list arguments;

  va_start (arguments, format);
  *finding = (PsFinding){ refused, g_strdup_vprintf (format, arguments), advice };
  va_end (arguments);
  g_ptr_array_add (findings, finding);
}

#define refuse(findings, advice, ...) ps_finding_add (findings, TRUE, advice, __VA_ARGS__)
#define warn(findings, advice, ...) ps_finding_add (findings, FALSE, advice, __VA_ARGS__)

/* torchtitan builds the stages of a rank from the name of the schedule: V for two names, a loop for all others. */
static void lint_placement (const PsPlacement *placement, GPtrArray *findings)
{
  guint n_chunks = placement->n_stages / placement->n_devices;

  if (placement->n_copies > 1)
    refuse (findings, "a family with one copy of the weights runs, such as zb-v or dualpipe-v",
            "a stage lies on two devices (two weight copies); PyTorch refuses a stage on two ranks");
  else if (placement->kind == PS_PLACEMENT_V || (placement->kind == PS_PLACEMENT_WAVE && n_chunks == 2))
    warn (findings, "give torchtitan that name in place of the file, or run the file with PyTorch's runtime alone",
          "placement V: torchtitan loads it only under the schedule name ZBVZeroBubble or DualPipeV");
  else if (placement->kind != PS_PLACEMENT_LOOP)
    warn (findings, "run it with PyTorch's runtime alone, or take a family whose placement is loop",
          "placement %s: torchtitan cannot load it; it knows loops and, with two stages per rank, V",
          ps_placement_name (placement->kind));
}

static void lint_representation (const PsSchedule *schedule, GPtrArray *findings)
{
  gboolean stashes = FALSE;

  for (guint d = 0; schedule->weight_versions != NULL && d < schedule->placement->n_devices; d++)
    stashes |= schedule->weight_versions[d] > 1;
  if (schedule->asynchronous)
    refuse (findings, "take a synchronous family",
            "asynchronous: PyTorch's runtime steps the optimizer after all microbatches; it would run this schedule "
            "synchronously");
  else if (stashes)
    refuse (findings, "take a family with one version of the weights",
            "several weight versions: PyTorch's runtime keeps one");
  if (schedule->n_slices > 1)
    refuse (findings, "--slices 1 has none, in families that take it",
            "sequence slices: PyTorch's formats cannot hold them");
  if (schedule->recomputes)
    refuse (findings, "take a family without R; activation checkpointing recomputes within the backward",
            "recomputation (R): PyTorch's formats cannot hold it");
}

static void lint_reduce (const Lists *lists, GPtrArray *findings)
{
  g_autofree gboolean *reduced = g_new0 (gboolean, lists->n_stages);

  for (guint r = 0; r < lists->n_ranks; r++)
    for (guint i = 0; i < lists->actions[r]->len; i++) {
      const PsTorchAction *action = action_at (lists, r, i);

      if (action->type == TORCH_REDUCE_GRAD)
        reduced[action->stage] = TRUE;
      else if (reduced[action->stage] && (action->type == TORCH_W || action->type == TORCH_B))
        reduced[action->stage] = FALSE;
    }
  for (guint stage = 0; stage < lists->n_stages; stage++)
    if (!reduced[stage])
      refuse (
          findings, "add it there, or write the file again with schedule convert --to torch-comms",
          "rank %u: no %uREDUCE_GRAD after the last backward of stage %u: its gradients would be neither scaled nor "
          "reduced",
          lists->rank[stage], stage, stage);
}

/* FSDP asserts that weights are there when they are used. */
static void lint_weights (const Lists *lists, GPtrArray *findings)
{
  g_autofree gboolean *gathered = g_new0 (gboolean, lists->n_stages);
  g_autofree gboolean *warned = g_new0 (gboolean, lists->n_stages);

  for (guint r = 0; r < lists->n_ranks; r++)
    for (guint i = 0; i < lists->actions[r]->len; i++) {
      const PsTorchAction *action = action_at (lists, r, i);

      if (action->type == TORCH_UNSHARD || action->type == TORCH_RESHARD)
        gathered[action->stage] = action->type == TORCH_UNSHARD;
      else if (action->type < TORCH_N_COMPUTE && !gathered[action->stage] && !warned[action->stage]) {
        refuse (findings, "add it, or write the file again with schedule convert --to torch-comms",
                "rank %u: cell %u: stage %u is used without %uUNSHARD before it: FSDP would stop", r, action->cell,
                action->stage, action->stage);
        warned[action->stage] = TRUE;
      }
    }
}

/* Whether a computation of another cell stands between the receive of a message and its use. */
static gboolean is_early (const PsProgram *program, const PsMessage *message)
{
  const PsSchedule *schedule = program->schedule;
  guint use = program->op_of[message->consumer], first = schedule->first[message->receiver];

  if (use > first && schedule->ops[use - 1].paired)
    use--;
  return (message->posted == 0 ? first : program->op_of[message->posted - 1] + 1) < use;
}

static void lint_receives (const PsProgram *program, GPtrArray *findings)
{
  g_autofree guint *early = g_new0 (guint, program->schedule->placement->n_devices);
  guint total = 0, worst = 0;

  for (guint i = 0; i < program->n_messages; i++)
    if (is_early (program, &program->messages[i])) {
      early[program->messages[i].receiver]++;
      total++;
    }
  for (guint r = 1; r < program->schedule->placement->n_devices; r++)
    if (early[r] > early[worst])
      worst = r;
  if (total > 0)
    warn (findings,
          "TORCH_DISTRIBUTED_PIPELINE_PER_EDGE_P2P=1 gives each direction a communicator; predict with --comm pair and "
          "--comm-order planned says what another order gains",
          "receives posted before computations that do not need them: %u, most on rank %u (%u); with one communicator "
          "per pair of ranks they hold up later transfers",
          total, worst, early[worst]);
}

static const char deadlock_advice[] = "--comm-order asap and planned have none where the schedule has none";

static void lint_deadlocks (const PsProgram *program, GPtrArray *findings)
{
  guint n_models;
  const PsChannelModel *models = ps_channel_table (&n_models);

  for (guint i = 0; i < n_models; i++) {
    g_autoptr (GError) deadlock = NULL;

    if (models[i].pytorch != NULL && !ps_program_check (program, (PsChannel)i, &deadlock))
      refuse (findings, deadlock_advice, "with %s: %s", models[i].pytorch, strstr (deadlock->message, "deadlock"));
  }
}

/* program: NULL because of the circle. */
static void lint_lists (const Lists *lists, const PsProgram *program, const GError *circle, GPtrArray *findings)
{
  lint_reduce (lists, findings);
  lint_weights (lists, findings);
  if (program == NULL) {
    refuse (findings, deadlock_advice, "%s", strstr (circle->message, "deadlock"));
    return;
  }
  lint_receives (program, findings);
  lint_deadlocks (program, findings);
}

/* Lists that were written and read have cells to name. */
static void lint_text (const char *text, GPtrArray *findings)
{
  g_autoptr (Lists) lists = parse_lists ("", text, strlen (text), FALSE, NULL);
  g_autoptr (GError) circle = NULL;

  if (lists == NULL)
    return;
  g_autoptr (PsProgram) program = ps_program_lower (to_schedule ("", lists), PS_COMM_ASAP, &circle);
  lint_lists (lists, program, circle, findings);
}

GPtrArray *ps_torch_lint (const PsSchedule *schedule, const char *comms)
{
  GPtrArray *findings = ps_findings_new ();
  g_autoptr (GError) cause = NULL;
  gboolean fits = can_hold (schedule, NULL) && !schedule->recomputes;
  g_autofree char *text = comms != NULL || !fits ? g_strdup (comms) : ps_format_torch_comms.write (schedule, &cause);

  lint_placement (schedule->placement, findings);
  lint_representation (schedule, findings);
  if (text != NULL)
    lint_text (text, findings);
  else if (fits)
    refuse (findings, NULL, "%s", cause->message);
  return findings;
}

GPtrArray *ps_torch_lint_comms (const char *where, const char *text, gsize length, GError **error)
{
  g_autoptr (Lists) lists = parse_lists (where, text, length, FALSE, error);
  g_autoptr (PsSchedule) schedule = lists != NULL ? to_valid_schedule (where, lists, error) : NULL;
  g_autoptr (GError) circle = NULL;

  if (schedule == NULL)
    return NULL;
  g_autoptr (PsProgram) program = ps_program_lower (ps_schedule_copy (schedule), PS_COMM_ASAP, &circle);
  if (program != NULL && !check_messages (where, lists, program, error))
    return NULL;
  GPtrArray *findings = ps_findings_new ();
  if (!lists->waits)
    warn (findings, "schedule convert --to torch-comms writes it for 2.15",
          "no waits for sends and reductions: PyTorch 2.15 refuses the file, 2.14 takes it");
  lint_placement (schedule->placement, findings);
  lint_lists (lists, program, circle, findings);
  return findings;
}
