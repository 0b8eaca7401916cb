/* colossalai.c - scheduled nodes of ColossalAI and veScale: a JSON array per device. */
#include "schedule/formats-private.h"
#include "base/json.h"
#include "base/text.h"

/* Kinds of nodes: an op, or one end of a transfer. */
typedef enum {
  NODE_OP,
  NODE_SEND_FORWARD,
  NODE_RECV_FORWARD,
  NODE_SEND_BACKWARD,
  NODE_RECV_BACKWARD,
  NODE_NOTHING, /* adds nothing to the order */
} NodeKind;

static const struct {
  const char *name;
  NodeKind kind;
  PsOpKind op;
} types[] = {
  { "F", NODE_OP, PS_OP_F },
  { "B", NODE_OP, PS_OP_B },
  { "W", NODE_OP, PS_OP_W },
  { "BW", NODE_OP, PS_OP_BW },
  { "SEND_FORWARD", NODE_SEND_FORWARD, 0 },
  { "RECV_FORWARD", NODE_RECV_FORWARD, 0 },
  { "SEND_BACKWARD", NODE_SEND_BACKWARD, 0 },
  { "RECV_BACKWARD", NODE_RECV_BACKWARD, 0 },
  { "LOCAL_FORWARD", NODE_NOTHING, 0 },
  { "LOCAL_BACKWARD", NODE_NOTHING, 0 },
  { "POST_VALIDATION", NODE_NOTHING, 0 },
  { "SEND_POST_VALIDATION", NODE_NOTHING, 0 },
  { "RECV_POST_VALIDATION", NODE_NOTHING, 0 },
};

static gboolean recognise (const char *text, gsize length)
{
  return ps_format_first (text, length) == '[';
}

/* Reading */

typedef struct {
  guint8 type; /* index into types */
  guint16 chunk;
  guint32 minibatch;
} Node;

typedef struct {
  const char *where;
  PsJsonReader json;
  GPtrArray *devices; /* of GArray of Node */
  guint n_chunks;
  guint n_microbatches;
  gsize n_nodes;
} Reader;

static void reader_clear (Reader *reader)
{
  ps_json_reader_clear (&reader->json);
  g_ptr_array_unref (reader->devices);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Reader, reader_clear)

static char *place (const Reader *reader, guint i)
{
  return g_strdup_printf ("%s: device %u: node %u", reader->where, reader->devices->len, i);
}

/* The keys of a node; those from N_WANTED on are ignored. */
static const struct {
  const char *name;
  gint64 high; /* largest integer allowed */
} keys[] = {
  { "type", 0 },
  { "chunk", PS_MAX_STAGES - 1 },
  { "stage", PS_MAX_DEVICES - 1 },
  { "minibatch", PS_MAX_MICROBATCHES - 1 },
  { "start_time", 0 },
  { "completion_time", 0 },
  { "rollback", 0 },
  { "comm_id", 0 },
};

enum { TYPE, CHUNK, STAGE, MINIBATCH, N_WANTED };

static gboolean read_type (Reader *reader, guint i, gint64 *type, GError **error)
{
  const char *name;

  if (!ps_json_read_text (&reader->json, &name))
    return ps_refuse_at (place (reader, i), error, "type is no text");
  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    if (g_str_equal (types[t].name, name)) {
      *type = t;
      return TRUE;
    }
  return ps_refuse_at (place (reader, i), error,
                       "type '%s' is not known; F, B, W, BW and SEND_FORWARD and the like are", name);
}

static gboolean read_integer (Reader *reader, guint i, guint key, gint64 *value, GError **error)
{
  if (!ps_json_read_integer (&reader->json, value))
    return ps_refuse_at (place (reader, i), error, "%s is no integer", keys[key].name);
  if (*value < 0 || *value > keys[key].high)
    return ps_refuse_at (place (reader, i), error, "%s %" G_GINT64_FORMAT " is not between 0 and %" G_GINT64_FORMAT,
                         keys[key].name, *value, keys[key].high);
  return TRUE;
}

static gboolean read_member (Reader *reader, guint i, const char *name, gint64 *values, GError **error)
{
  guint key = 0;

  while (key < G_N_ELEMENTS (keys) && !g_str_equal (keys[key].name, name))
    key++;
  if (key == G_N_ELEMENTS (keys))
    return ps_refuse_at (place (reader, i), error, "'%s' is no key of a scheduled node", name);
  if (key >= N_WANTED) {
    ps_json_skip_value (&reader->json);
    return TRUE;
  }
  if (values[key] >= 0)
    return ps_refuse_at (place (reader, i), error, "%s is there twice", name);
  return key == TYPE ? read_type (reader, i, &values[key], error) : read_integer (reader, i, key, &values[key], error);
}

static gboolean read_node (Reader *reader, guint i, GArray *nodes, GError **error)
{
  gint64 values[N_WANTED] = { -1, -1, -1, -1 };
  const char *name;

  if (!ps_json_enter_object (&reader->json))
    return ps_refuse_at (place (reader, i), error, "is no object {type, chunk, stage, minibatch}");
  while ((name = ps_json_next_key (&reader->json)) != NULL)
    if (!read_member (reader, i, name, values, error))
      return FALSE;
  for (guint key = 0; key < N_WANTED; key++)
    if (values[key] < 0)
      return ps_refuse_at (place (reader, i), error, "%s is missing", keys[key].name);
  if (values[STAGE] != reader->devices->len)
    return ps_refuse_at (place (reader, i), error,
                         "stage %" G_GINT64_FORMAT " is not the device that it is listed under", values[STAGE]);
  Node node = { (guint8)values[TYPE], (guint16)values[CHUNK], (guint32)values[MINIBATCH] };
  if (types[node.type].kind == NODE_OP) {
    reader->n_chunks = MAX (reader->n_chunks, node.chunk + 1U);
    reader->n_microbatches = MAX (reader->n_microbatches, node.minibatch + 1);
  }
  g_array_append_val (nodes, node);
  reader->n_nodes++;
  return TRUE;
}

static gboolean read_device (Reader *reader, GError **error)
{
  g_autoptr (GArray) nodes = g_array_new (FALSE, FALSE, sizeof (Node));

  if (!ps_json_enter_array (&reader->json))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: device %u: is no array of nodes", reader->where,
                      reader->devices->len);
  for (guint i = 0; ps_json_next_element (&reader->json); i++)
    if (!read_node (reader, i, nodes, error))
      return FALSE;
  g_ptr_array_add (reader->devices, g_steal_pointer (&nodes));
  return TRUE;
}

/* Checks that each microbatch has at least two ops on every stage, so that tables never grow beyond the text. */
static gboolean check_counts (const Reader *reader, GError **error)
{
  guint64 n_stages = (guint64)reader->devices->len * reader->n_chunks;

  if (reader->n_chunks == 0 || n_stages > PS_MAX_STAGES || n_stages * reader->n_microbatches > reader->n_nodes)
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s: has %" G_GSIZE_FORMAT " nodes, too few for %u devices, %u chunks and %u microbatches",
                      reader->where, reader->n_nodes, reader->devices->len, reader->n_chunks, reader->n_microbatches);
  return TRUE;
}

static gboolean read_devices (Reader *reader, GError **error)
{
  gboolean is_array = ps_json_enter_array (&reader->json), more;

  while (is_array && (more = ps_json_next_element (&reader->json)) && reader->devices->len < PS_MAX_DEVICES)
    if (!read_device (reader, error))
      return FALSE;
  if (is_array && !more && reader->devices->len > 0)
    return check_counts (reader, error);
  return ps_refuse (error, PS_ERROR_INPUT, "%s: is no array of 1 to %d devices", reader->where, PS_MAX_DEVICES);
}

/* stage[device * n_chunks + chunk] */
static guint16 *stages_of (const PsPlacement *placement, guint n_chunks)
{
  guint16 *stages = g_new0 (guint16, (gsize)placement->n_devices * n_chunks);

  for (guint stage = 0; stage < placement->n_stages; stage++)
    stages[placement->device[stage] * n_chunks + placement->chunk[stage]] = (guint16)stage;
  return stages;
}

/* The transfers that a stage of this placement takes part in, as a bit per NodeKind. */
static guint wanted_transfers (const PsPlacement *placement, guint stage)
{
  gboolean down = stage > 0 && placement->device[stage - 1] != placement->device[stage];
  gboolean up = stage + 1 < placement->n_stages && placement->device[stage + 1] != placement->device[stage];

  return (down ? 1U << NODE_RECV_FORWARD | 1U << NODE_SEND_BACKWARD : 0)
         | (up ? 1U << NODE_SEND_FORWARD | 1U << NODE_RECV_BACKWARD : 0);
}

/* Whether the file has the transfers of this placement; *any says whether it has any transfer. */
static gboolean fits_transfers (const Reader *reader, const PsPlacement *placement, gboolean *any)
{
  guint n_chunks = reader->n_chunks;
  g_autofree guint8 *found = g_malloc0 ((gsize)placement->n_devices * n_chunks);
  g_autofree guint16 *stages = stages_of (placement, n_chunks);
  gboolean fits = TRUE;

  *any = FALSE;
  for (guint d = 0; d < placement->n_devices; d++) {
    const GArray *nodes = g_ptr_array_index (reader->devices, d);

    for (guint i = 0; i < nodes->len; i++) {
      const Node *node = &g_array_index (nodes, Node, i);
      NodeKind kind = types[node->type].kind;

      if (kind == NODE_OP || kind == NODE_NOTHING)
        continue;
      *any = TRUE;
      if (node->chunk < n_chunks)
        found[d * n_chunks + node->chunk] |= (guint8)(1U << kind);
      else
        fits = FALSE;
    }
  }
  for (guint i = 0; i < placement->n_stages; i++)
    fits &= found[i] == wanted_transfers (placement, stages[i]);
  return fits;
}

static PsSchedule *build (const Reader *reader, PsPlacement *placement)
{
  g_autofree guint16 *stages = stages_of (placement, reader->n_chunks);
  g_autofree char *name = g_path_get_basename (reader->where);
  PsScheduleBuilder *builder = ps_schedule_builder_new (name, placement, reader->n_microbatches);

  for (guint d = 0; d < placement->n_devices; d++) {
    const GArray *nodes = g_ptr_array_index (reader->devices, d);

    for (guint i = 0; i < nodes->len; i++) {
      const Node *node = &g_array_index (nodes, Node, i);

      if (types[node->type].kind == NODE_OP)
        ps_schedule_builder_add (builder, types[node->type].op, stages[d * reader->n_chunks + node->chunk],
                                 node->minibatch);
    }
    ps_schedule_builder_next_device (builder);
  }
  return ps_schedule_builder_end (builder);
}

static gboolean can_run (const PsSchedule *schedule)
{
  g_autoptr (PsProgram) program = NULL;

  if (ps_schedule_validate (schedule, NULL))
    program = ps_program_lower (ps_schedule_copy (schedule), PS_COMM_ASAP, NULL);
  return program != NULL;
}

static PsSchedule *choose_placement (const Reader *reader, GError **error)
{
  guint n_chunks = reader->n_chunks;
  const PsPlacementKind kinds[]
      = { n_chunks == 2 ? PS_PLACEMENT_V : PS_PLACEMENT_LOOP, n_chunks == 2 ? PS_PLACEMENT_LOOP : PS_PLACEMENT_WAVE };
  g_autoptr (PsSchedule) schedule = NULL;
  gboolean any = FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++) {
    g_autoptr (PsPlacement) placement = ps_placement_new (kinds[i], reader->devices->len, n_chunks);
    gboolean fits = fits_transfers (reader, placement, &any);

    if (any && !fits)
      continue;
    g_clear_pointer (&schedule, ps_schedule_free);
    schedule = build (reader, g_steal_pointer (&placement));
    if (any || can_run (schedule))
      break;
  }
  if (schedule == NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
                 "%s: its transfers are those of no placement of %u chunks in a loop or a V", reader->where, n_chunks);
  return g_steal_pointer (&schedule);
}

static PsSchedule *read_nodes (const char *where, const char *text, gsize length, GError **error)
{
  g_auto (Reader) reader = { .where = where };

  reader.devices = g_ptr_array_new_with_free_func ((GDestroyNotify)g_array_unref);
  if (!ps_json_reader_init (&reader.json, where, text, (gssize)length, error) || !read_devices (&reader, error))
    return NULL;
  return choose_placement (&reader, error);
}

/* Writing */

static gboolean can_hold (const PsSchedule *schedule, GError **error)
{
  PsPlacementKind kind = schedule->placement->kind;
  const char *what = NULL;

  if (kind != PS_PLACEMENT_LOOP && kind != PS_PLACEMENT_V && kind != PS_PLACEMENT_WAVE)
    what = "a placement that is neither a loop nor a V nor a wave";
  else if (schedule->n_slices > 1)
    what = "sequence slices";
  else if (schedule->asynchronous || schedule->weight_versions != NULL)
    what = "weight versions";
  for (guint i = 0; what == NULL && i < ps_schedule_n_ops (schedule); i++)
    if (schedule->ops[i].paired)
      what = "overlapped pairs";
    else if (schedule->ops[i].kind == PS_OP_R)
      what = "recomputation (R)";
  if (what != NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "colossalai cannot hold %s", what);
  return what == NULL;
}

/* The type of an instruction; NULL for waits. Also gives the stage on this device that it belongs to. */
static const char *instruction_type (const PsInstruction *instruction, guint *stage)
{
  gboolean forward = instruction->op.kind == PS_OP_F;

  *stage = instruction->op.stage;
  switch (instruction->type) {
  case PS_INSTRUCTION_COMPUTE:
    return ps_op_kind_name (instruction->op.kind);
  case PS_INSTRUCTION_SEND:
    return forward ? "SEND_FORWARD" : "SEND_BACKWARD";
  case PS_INSTRUCTION_RECEIVE:
    *stage = forward ? *stage + 1 : *stage - 1;
    return forward ? "RECV_FORWARD" : "RECV_BACKWARD";
  default:
    return NULL;
  }
}

static void append_device (GString *json, const PsProgram *program, guint device)
{
  const char *separator = "\n    ";

  g_string_append (json, device ? ",\n  [" : "\n  [");
  for (guint i = program->first[device]; i < program->first[device + 1]; i++) {
    const PsInstruction *instruction = &program->instructions[i];
    guint stage;
    const char *type = instruction_type (instruction, &stage);

    if (type == NULL)
      continue;
    g_string_append_printf (json, "%s{\"type\": \"%s\", \"chunk\": %u, \"stage\": %u, \"minibatch\": %u}", separator,
                            type, program->schedule->placement->chunk[stage], device,
                            (guint)instruction->op.microbatch);
    separator = ",\n    ";
  }
  g_string_append (json, "\n  ]");
}

static char *write_program (const PsProgram *program, GError **error)
{
  if (!can_hold (program->schedule, error))
    return NULL;
  GString *json = g_string_new ("[");
  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    append_device (json, program, device);
  g_string_append (json, "\n]\n");
  return g_string_free (json, FALSE);
}

static char *write_nodes (const PsSchedule *schedule, GError **error)
{
  g_autoptr (PsProgram) program = ps_program_lower (ps_schedule_copy (schedule), PS_COMM_ASAP, error);

  return program != NULL ? write_program (program, error) : NULL;
}

const PsFormat ps_format_colossalai = {
  .name = "colossalai",
  .description = "scheduled nodes of ColossalAI and veScale, JSON",
  .recognise = recognise,
  .read = read_nodes,
  .write = write_nodes,
  .write_program = write_program,
};
