/* schedule.c - placements; building, naming and checking the orders of ops; and their own file. */
#include "base/json.h"
#include "base/text.h"
#include "formats-private.h"

#include <pipesim/schedule.h>

#include <string.h>

/* The known placements, and how a file's own one is recognised. */

static const char *const placement_names[] = {
  [PS_PLACEMENT_LOOP] = "loop",     [PS_PLACEMENT_V] = "V",
  [PS_PLACEMENT_WAVE] = "wave",     [PS_PLACEMENT_BIDIRECTIONAL] = "bidirectional",
  [PS_PLACEMENT_CUSTOM] = "custom",
};

const char *ps_placement_name (PsPlacementKind kind)
{
  g_return_val_if_fail ((guint)kind < G_N_ELEMENTS (placement_names), NULL);
  return placement_names[kind];
}

gboolean ps_placement_parse (const char *where, const char *text, PsPlacementKind *kind, GError **error)
{
  return ps_parse_name (where, text, placement_names, PS_PLACEMENT_CUSTOM, kind, error);
}

static PsPlacement *placement_alloc (PsPlacementKind kind, guint n_devices, guint n_stages, guint n_copies)
{
  PsPlacement *placement = g_new0 (PsPlacement, 1);

  placement->kind = kind;
  placement->n_devices = n_devices;
  placement->n_stages = n_stages;
  placement->n_copies = n_copies;
  placement->device = g_new0 (guint16, (gsize)n_stages * n_copies);
  placement->chunk = g_new0 (guint16, (gsize)n_stages * n_copies);
  return placement;
}

static guint known_device (PsPlacementKind kind, guint n_devices, guint copy, guint stage)
{
  guint column = stage % n_devices;
  gboolean up
      = kind == PS_PLACEMENT_BIDIRECTIONAL ? copy == 1 : kind != PS_PLACEMENT_LOOP && (stage / n_devices) % 2 == 1;

  return up ? n_devices - 1 - column : column;
}

static void number_chunks (PsPlacement *placement)
{
  g_autofree guint16 *held = g_new0 (guint16, placement->n_devices);

  for (gsize i = 0; i < (gsize)placement->n_stages * placement->n_copies; i++)
    placement->chunk[i] = held[placement->device[i]]++;
}

PsPlacement *ps_placement_new (PsPlacementKind kind, guint n_devices, guint n_chunks)
{
  g_return_val_if_fail (kind != PS_PLACEMENT_CUSTOM && n_devices >= 1 && n_chunks >= 1, NULL);
  g_return_val_if_fail (kind != PS_PLACEMENT_V || n_chunks == 2, NULL);
  g_return_val_if_fail (kind != PS_PLACEMENT_BIDIRECTIONAL || n_chunks == 1, NULL);
  guint n_copies = kind == PS_PLACEMENT_BIDIRECTIONAL ? 2 : 1;
  PsPlacement *placement = placement_alloc (kind, n_devices, n_devices * n_chunks, n_copies);
  for (guint copy = 0; copy < n_copies; copy++)
    for (guint stage = 0; stage < placement->n_stages; stage++)
      placement->device[(gsize)copy * placement->n_stages + stage]
          = (guint16)known_device (kind, n_devices, copy, stage);
  number_chunks (placement);
  return placement;
}

static gboolean is_known (const PsPlacement *placement, PsPlacementKind kind)
{
  guint chunks = placement->n_stages / placement->n_devices;

  if (placement->n_stages % placement->n_devices != 0 || (kind == PS_PLACEMENT_V && chunks != 2)
      || (kind == PS_PLACEMENT_BIDIRECTIONAL && chunks != 1)
      || placement->n_copies != (kind == PS_PLACEMENT_BIDIRECTIONAL ? 2U : 1U))
    return FALSE;
  for (guint copy = 0; copy < placement->n_copies; copy++)
    for (guint stage = 0; stage < placement->n_stages; stage++)
      if (ps_placement_device (placement, copy, stage) != known_device (kind, placement->n_devices, copy, stage))
        return FALSE;
  return TRUE;
}

PsPlacement *ps_placement_new_custom (guint n_devices, guint n_stages, guint n_copies, const guint16 *device)
{
  PsPlacement *placement = placement_alloc (PS_PLACEMENT_CUSTOM, n_devices, n_stages, n_copies);

  memcpy (placement->device, device, (gsize)n_stages * n_copies * sizeof *device);
  number_chunks (placement);
  for (guint kind = 0; kind < PS_PLACEMENT_CUSTOM; kind++)
    if (is_known (placement, (PsPlacementKind)kind)) {
      placement->kind = (PsPlacementKind)kind;
      break;
    }
  return placement;
}

PsPlacement *ps_placement_copy (const PsPlacement *placement)
{
  return ps_placement_new_custom (placement->n_devices, placement->n_stages, placement->n_copies, placement->device);
}

void ps_placement_free (PsPlacement *placement)
{
  if (placement == NULL)
    return;
  g_free (placement->device);
  g_free (placement->chunk);
  g_free (placement);
}

gboolean ps_placement_holds (const PsPlacement *placement, guint device, guint stage)
{
  for (guint copy = 0; copy < placement->n_copies; copy++)
    if (ps_placement_device (placement, copy, stage) == device)
      return TRUE;
  return FALSE;
}

guint ps_placement_max_chunks (const PsPlacement *placement)
{
  g_autofree guint *held = g_new0 (guint, (gsize)placement->n_copies * placement->n_devices);
  guint most = 0;

  for (guint copy = 0; copy < placement->n_copies; copy++)
    for (guint stage = 0; stage < placement->n_stages; stage++) {
      guint n = ++held[(gsize)copy * placement->n_devices + ps_placement_device (placement, copy, stage)];

      most = MAX (most, n);
    }
  return most;
}

/* Orders. */

void ps_schedule_free (PsSchedule *schedule)
{
  if (schedule == NULL)
    return;
  g_free (schedule->name);
  g_free (schedule->origin);
  g_free (schedule->family);
  ps_placement_free (schedule->placement);
  g_free (schedule->copy);
  g_free (schedule->slices);
  g_free (schedule->length);
  g_free (schedule->weight_versions);
  g_free (schedule->first);
  g_free (schedule->ops);
  g_clear_pointer (&schedule->posts, g_array_unref);
  g_free (schedule);
}

PsSchedule *ps_schedule_copy (const PsSchedule *schedule)
{
  PsSchedule *copy = g_memdup2 (schedule, sizeof *schedule);
  guint n_devices = schedule->placement->n_devices;

  copy->name = g_strdup (schedule->name);
  copy->origin = g_strdup (schedule->origin);
  copy->family = g_strdup (schedule->family);
  copy->placement = ps_placement_copy (schedule->placement);
  copy->copy = g_memdup2 (schedule->copy, schedule->n_microbatches * sizeof *schedule->copy);
  copy->slices = g_memdup2 (schedule->slices, schedule->n_microbatches * sizeof *schedule->slices);
  copy->length = g_memdup2 (schedule->length, ps_schedule_n_cells (schedule) * sizeof *schedule->length);
  copy->weight_versions = g_memdup2 (schedule->weight_versions, n_devices * sizeof *schedule->weight_versions);
  copy->first = g_memdup2 (schedule->first, (n_devices + (gsize)1) * sizeof *schedule->first);
  copy->ops = g_memdup2 (schedule->ops, ps_schedule_n_ops (schedule) * sizeof *schedule->ops);
  if (schedule->posts != NULL)
    g_array_ref (copy->posts);
  return copy;
}

struct _PsScheduleBuilder {
  PsSchedule *schedule;
  guint n_ops;
  guint n_allocated;
  guint device;
};

PsScheduleBuilder *ps_schedule_builder_new (const char *name, PsPlacement *placement, guint n_microbatches)
{
  PsScheduleBuilder *builder = g_new0 (PsScheduleBuilder, 1);
  PsSchedule *schedule = builder->schedule = g_new0 (PsSchedule, 1);

  schedule->name = g_strdup (name);
  schedule->placement = placement;
  schedule->n_microbatches = n_microbatches;
  schedule->n_slices = 1;
  schedule->first = g_new0 (guint, (gsize)placement->n_devices + 1);
  return builder;
}

void ps_schedule_builder_reserve (PsScheduleBuilder *builder, guint n)
{
  PsSchedule *schedule = builder->schedule;

  if (n <= builder->n_allocated - builder->n_ops)
    return;
  builder->n_allocated = MAX (1024, builder->n_ops + MAX (n, builder->n_ops));
  schedule->ops = g_renew (PsOp, schedule->ops, builder->n_allocated);
}

void ps_schedule_builder_add_op (PsScheduleBuilder *builder, PsOp op)
{
  if (G_UNLIKELY (builder->n_ops == builder->n_allocated))
    ps_schedule_builder_reserve (builder, 1);
  builder->schedule->ops[builder->n_ops++] = op;
}

PsOp *ps_schedule_builder_room (PsScheduleBuilder *builder, guint n)
{
  ps_schedule_builder_reserve (builder, n);
  builder->n_ops += n;
  return &builder->schedule->ops[builder->n_ops - n];
}

void ps_schedule_builder_add_ops (PsScheduleBuilder *builder, const PsOp *ops, guint n)
{
  memcpy (ps_schedule_builder_room (builder, n), ops, n * sizeof *ops);
}

void ps_schedule_builder_add (PsScheduleBuilder *builder, PsOpKind kind, guint stage, guint microbatch)
{
  PsOp op = { .kind = (guint8)kind, .stage = (guint16)stage, .microbatch = microbatch & G_MAXINT32 };

  ps_schedule_builder_add_op (builder, op);
}

void ps_schedule_builder_add_post (PsScheduleBuilder *builder, guint type, PsOp op)
{
  PsPost post = { .place = builder->n_ops, .device = (guint16)builder->device, .type = (guint8)type, .op = op };

  if (builder->schedule->posts == NULL)
    builder->schedule->posts = g_array_new (FALSE, FALSE, sizeof post);
  g_array_append_val (builder->schedule->posts, post);
}

void ps_schedule_builder_next_device (PsScheduleBuilder *builder)
{
  g_return_if_fail (builder->device < builder->schedule->placement->n_devices);
  builder->schedule->first[++builder->device] = builder->n_ops;
}

PsSchedule *ps_schedule_builder_end (PsScheduleBuilder *builder)
{
  PsSchedule *schedule = builder->schedule;

  while (builder->device < schedule->placement->n_devices)
    ps_schedule_builder_next_device (builder);
  schedule->ops = g_renew (PsOp, schedule->ops, MAX (builder->n_ops, 1));
  schedule->forward_only = builder->n_ops > 0;
  for (guint i = 0; i < builder->n_ops; i++) {
    schedule->recomputes |= schedule->ops[i].kind == PS_OP_R;
    schedule->forward_only &= schedule->ops[i].kind == PS_OP_F;
  }
  g_free (builder);
  return schedule;
}

char *ps_op_format (PsOp op, char *buffer)
{
  char *to = ps_put_integer (ps_put (buffer, ps_op_kind_name ((PsOpKind)op.kind)), op.microbatch);

  to = ps_put_integer (ps_put (to, "."), op.stage);
  if (op.slice > 0)
    ps_put_integer (ps_put (to, "/"), op.slice);
  return buffer;
}

static gboolean parse_digits (const char **text, guint64 max, guint64 *value)
{
  if (!g_ascii_isdigit (**text))
    return FALSE;
  for (*value = 0; g_ascii_isdigit (**text) && *value <= max; ++*text)
    *value = *value * 10 + (guint64)(**text - '0');
  return *value <= max;
}

static gboolean parse_kind (const char **text, guint *kind)
{
  gsize length = 0;

  while (g_ascii_isupper ((*text)[length]))
    length++;
  for (*kind = 0; *kind < PS_N_OP_KINDS; ++*kind) {
    const char *name = ps_op_kind_name ((PsOpKind)*kind);

    if (strncmp (name, *text, length) == 0 && name[length] == '\0') {
      *text += length;
      return TRUE;
    }
  }
  return FALSE;
}

gboolean ps_op_parse (const char *text, const char **end, PsOp *op)
{
  guint64 microbatch, stage, slice = 0;
  guint kind;

  if (!parse_kind (&text, &kind) || !parse_digits (&text, PS_MAX_MICROBATCHES - 1, &microbatch) || *text++ != '.'
      || !parse_digits (&text, PS_MAX_STAGES - 1, &stage))
    return FALSE;
  if (*text == '/') {
    text++;
    if (!parse_digits (&text, G_MAXUINT8, &slice))
      return FALSE;
  }
  *op = (PsOp){
    .kind = (guint8)kind, .slice = (guint8)slice, .stage = (guint16)stage, .microbatch = microbatch & G_MAXINT32
  };
  *end = text;
  return TRUE;
}

guint8 *ps_schedule_recomputed (const PsSchedule *schedule)
{
  guint8 *recomputed;

  if (!schedule->recomputes)
    return NULL;
  recomputed = g_new0 (guint8, ps_schedule_n_cells (schedule));
  for (guint i = 0; i < ps_schedule_n_ops (schedule); i++)
    if (schedule->ops[i].kind == PS_OP_R)
      recomputed[ps_schedule_cell (schedule, schedule->ops[i])] = 1;
  return recomputed;
}

/* seen has one bit per op kind for each stage, microbatch and slice (ps_schedule_cell). */
typedef struct {
  const PsSchedule *schedule;
  guint8 *seen;
} Check;

#define BIT(kind) (1U << (kind))
#define BACKWARD (BIT (PS_OP_B) | BIT (PS_OP_BW))

static const char *range_problem (const PsSchedule *schedule, PsOp op)
{
  if (op.kind == PS_OP_O)
    return "the optimizer step is no part of a schedule";
  if (op.stage >= schedule->placement->n_stages)
    return "no such stage";
  if (op.microbatch >= schedule->n_microbatches)
    return "no such microbatch";
  return op.slice >= ps_schedule_slices (schedule, op.microbatch) ? "no such slice" : NULL;
}

/* Slices run forward in order and backward in reverse. */
static const char *order_problem (const Check *check, PsOp op)
{
  const guint8 *cell = &check->seen[ps_schedule_cell (check->schedule, op)], seen = *cell;
  gboolean last_slice = op.slice + 1U == check->schedule->n_slices;

  if (seen & BIT (op.kind))
    return "is there twice";
  if (ps_op_is_backward (op) && seen & BACKWARD)
    return "its backward is there already";
  if (op.kind == PS_OP_F)
    return op.slice > 0 && !(cell[-1] & BIT (PS_OP_F)) ? "comes before the previous slice" : NULL;
  if (op.kind == PS_OP_W)
    return seen & BIT (PS_OP_B)    ? NULL
           : seen & BIT (PS_OP_BW) ? "its weights are done by its full backward already"
                                   : "comes before its backward";
  if (!(seen & BIT (PS_OP_F)))
    return "comes before its F";
  if (op.kind == PS_OP_R)
    return seen & BACKWARD ? "comes after its backward" : NULL;
  return !last_slice && !(cell[1] & BACKWARD) ? "comes before the next slice" : NULL;
}

static const char *pair_problem (const PsSchedule *schedule, guint index, guint end)
{
  PsOp op = schedule->ops[index];

  if (!op.paired)
    return NULL;
  if (index + 1 == end)
    return "is paired with nothing";
  PsOp next = schedule->ops[index + 1];
  if (next.paired)
    return "is paired with an op that is paired again";
  guint kinds = BIT (op.kind) | BIT (next.kind);
  if (!(kinds & BIT (PS_OP_F)) || !(kinds & BACKWARD))
    return "is paired, but a pair is one F and one B or BW";
  return next.stage == op.stage && next.microbatch == op.microbatch ? "is paired with an op that depends on it" : NULL;
}

static const char *op_problem (const Check *check, guint device, guint index, guint end)
{
  const PsSchedule *schedule = check->schedule;
  PsOp op = schedule->ops[index];
  const char *problem = range_problem (schedule, op);

  if (problem != NULL)
    return problem;
  if (ps_schedule_device (schedule, op.stage, op.microbatch) != device)
    return "belongs to another device";
  problem = order_problem (check, op);
  check->seen[ps_schedule_cell (schedule, op)] |= (guint8)BIT (op.kind);
  return problem != NULL ? problem : pair_problem (schedule, index, end);
}

static const char *missing_kind (guint seen, gboolean forward_only)
{
  if (!(seen & BIT (PS_OP_F)))
    return "F";
  if (forward_only)
    return NULL;
  if (!(seen & BACKWARD))
    return "backward";
  return seen & BIT (PS_OP_B) && !(seen & BIT (PS_OP_W)) ? "W" : NULL;
}

/* The first op that is missing, and the device that lacks it. Free with g_free. */
static char *find_missing (const Check *check, guint *device)
{
  const PsSchedule *schedule = check->schedule;
  const guint8 *seen = check->seen;

  for (guint stage = 0; stage < schedule->placement->n_stages; stage++)
    for (guint microbatch = 0; microbatch < schedule->n_microbatches; microbatch++)
      for (guint slice = 0; slice < schedule->n_slices; slice++) {
        const char *missing = missing_kind (*seen++, schedule->forward_only);

        if (missing == NULL || slice >= ps_schedule_slices (schedule, microbatch))
          continue;
        *device = ps_schedule_device (schedule, stage, microbatch);
        return g_strdup_printf ("has no %s of microbatch %u on stage %u", missing, microbatch, stage);
      }
  return NULL;
}

char *ps_schedule_find_fault (const PsSchedule *schedule, guint *device, guint *op)
{
  gsize cells = ps_schedule_n_cells (schedule);

  *device = 0;
  *op = G_MAXUINT;
  if (cells > PS_MAX_OPS)
    return g_strdup_printf ("stages and microbatches make %" G_GSIZE_FORMAT " forwards, more than %u ops", cells,
                            (guint)PS_MAX_OPS);
  g_autofree guint8 *seen = g_malloc0 (cells);
  Check check = { schedule, seen };
  for (; *device < schedule->placement->n_devices; ++*device)
    for (guint i = schedule->first[*device]; i < schedule->first[*device + 1]; i++) {
      const char *problem = op_problem (&check, *device, i, schedule->first[*device + 1]);

      *op = i - schedule->first[*device];
      if (problem != NULL)
        return g_strdup (problem);
    }
  *op = G_MAXUINT;
  return find_missing (&check, device);
}

gboolean ps_schedule_validate (const PsSchedule *schedule, GError **error)
{
  guint device, op;
  char name[48];

  if (schedule->n_microbatches % ps_schedule_update_every (schedule) != 0)
    return ps_refuse (error, PS_ERROR_SCHEDULE, "%s: an optimizer step every %u microbatches: does not divide %u",
                      schedule->name, schedule->update_every, schedule->n_microbatches);
  if (schedule->slices != NULL && !schedule->forward_only)
    return ps_refuse (error, PS_ERROR_SCHEDULE,
                      "%s: microbatches have different numbers of slices; that is for schedules of F alone",
                      schedule->name);
  g_autofree char *fault = ps_schedule_find_fault (schedule, &device, &op);
  if (fault != NULL && op == G_MAXUINT)
    return ps_refuse (error, PS_ERROR_SCHEDULE, "device %u: %s", device, fault);
  if (fault != NULL)
    return ps_refuse (error, PS_ERROR_SCHEDULE, "device %u: op %u (%s): %s", device, op,
                      ps_op_format (schedule->ops[schedule->first[device] + op], name), fault);
  return TRUE;
}

/* The file. */

#define FORMAT "pipesim-schedule/1"

static void append_placement (GString *json, const PsPlacement *placement)
{
  g_string_append (json, ",\n  \"placement\": [");
  for (guint copy = 0; copy < placement->n_copies; copy++) {
    g_string_append (json, copy ? ", [" : "[");
    for (guint stage = 0; stage < placement->n_stages; stage++)
      g_string_append_printf (json, "%s%u", stage ? ", " : "", ps_placement_device (placement, copy, stage));
    g_string_append_c (json, ']');
  }
  g_string_append_c (json, ']');
}

static void append_device (GString *json, const PsSchedule *schedule, guint device)
{
  char name[48];
  gboolean joined = FALSE;

  g_string_append (json, device ? ",\n    [" : "\n    [");
  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++) {
    const char *separator = i == schedule->first[device] ? "\"" : joined ? "+" : ", \"";
    PsOp op = schedule->ops[i];

    joined = op.paired;
    g_string_append_printf (json, "%s%s%s", separator, ps_op_format (op, name), joined ? "" : "\"");
  }
  g_string_append_c (json, ']');
}

static void append_numbers (GString *json, const char *key, const guint8 *bytes, const guint *words, guint n)
{
  g_string_append_printf (json, ",\n  \"%s\": [", key);
  for (guint i = 0; i < n; i++)
    g_string_append_printf (json, "%s%u", i ? ", " : "", bytes != NULL ? bytes[i] : words[i]);
  g_string_append_c (json, ']');
}

static void append_text (GString *json, const char *key, const char *text)
{
  if (text == NULL)
    return;
  g_string_append_printf (json, ",\n  \"%s\": ", key);
  ps_json_append_string (json, text);
}

static void append_integer (GString *json, const char *key, guint value)
{
  g_string_append_printf (json, ",\n  \"%s\": %u", key, value);
}

char *ps_schedule_to_json (const PsSchedule *schedule)
{
  const PsPlacement *placement = schedule->placement;
  GString *json = g_string_new ("{\n  \"format\": \"" FORMAT "\"");

  append_text (json, "name", schedule->name);
  append_text (json, "origin", schedule->origin);
  append_text (json, "family", schedule->family);
  if (schedule->n_chunks)
    append_integer (json, "chunks", schedule->n_chunks);
  if (schedule->group_size)
    append_integer (json, "group", schedule->group_size);
  if (schedule->defer_head)
    append_integer (json, "defer_head", schedule->defer_head);
  append_integer (json, "devices", placement->n_devices);
  append_integer (json, "stages", placement->n_stages);
  append_integer (json, "microbatches", schedule->n_microbatches);
  append_integer (json, "slices", schedule->n_slices);
  append_placement (json, placement);
  if (schedule->copy != NULL)
    append_numbers (json, "copy_of_microbatch", schedule->copy, NULL, schedule->n_microbatches);
  if (schedule->slices != NULL)
    append_numbers (json, "slices_of_microbatch", schedule->slices, NULL, schedule->n_microbatches);
  if (schedule->asynchronous)
    g_string_append (json, ",\n  \"asynchronous\": true");
  if (schedule->weight_versions != NULL)
    append_numbers (json, "weight_versions", NULL, schedule->weight_versions, placement->n_devices);
  if (schedule->update_every > 0)
    append_integer (json, "update_every", schedule->update_every);
  g_string_append (json, ",\n  \"order\": [");
  for (guint device = 0; device < placement->n_devices; device++)
    append_device (json, schedule, device);
  g_string_append (json, "\n  ]\n}\n");
  return g_string_free (json, FALSE);
}

/* The counts in the head of a file. */
typedef struct {
  const PsJsonObject *object;
  PsJsonReader *reader;
  gint64 n_devices;
  gint64 n_stages;
  gint64 n_microbatches;
  gint64 n_slices;
} Head;

static gboolean read_head (Head *head, GError **error)
{
  return ps_json_get_integer (head->object, "devices", 1, PS_MAX_DEVICES, &head->n_devices, error)
         && ps_json_get_integer (head->object, "stages", 1, PS_MAX_STAGES, &head->n_stages, error)
         && ps_json_get_integer (head->object, "microbatches", 1, PS_MAX_MICROBATCHES, &head->n_microbatches, error)
         && (!ps_json_object_has (head->object, "slices")
             || ps_json_get_integer (head->object, "slices", 1, PS_MAX_SLICES, &head->n_slices, error));
}

/* Of the array that was stepped into just now. */
static gboolean check_length (const Head *head, const char *key, gint64 wanted, GError **error)
{
  guint n = ps_json_count_elements (head->reader);

  if (n == wanted)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: %s: has %u entries, not %" G_GINT64_FORMAT, head->reader->where, key, n,
                    wanted);
}

/* One weight copy: the device of each stage. */
static gboolean read_copy (const Head *head, guint copy, guint16 *device, GError **error)
{
  if (!ps_json_element_array (head->reader, "placement", copy, error)
      || !check_length (head, "placement", head->n_stages, error))
    return FALSE;
  for (guint stage = 0; ps_json_next_element (head->reader); stage++) {
    gint64 value;

    if (!ps_json_element_integer (head->reader, "placement", stage, 0, head->n_devices - 1, &value, error))
      return FALSE;
    device[stage] = (guint16)value;
  }
  return TRUE;
}

static PsPlacement *read_placement (const Head *head, GError **error)
{
  if (!ps_json_get_array (head->object, "placement", error))
    return NULL;
  guint n_copies = ps_json_count_elements (head->reader);
  if (n_copies < 1 || n_copies > 2)
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: placement: has %u weight copies; 1 or 2 are possible",
                           head->reader->where, n_copies);
  g_autofree guint16 *device = g_new (guint16, n_copies * (gsize)head->n_stages);
  for (guint copy = 0; ps_json_next_element (head->reader); copy++)
    if (!read_copy (head, copy, &device[copy * (gsize)head->n_stages], error))
      return NULL;
  return ps_placement_new_custom ((guint)head->n_devices, (guint)head->n_stages, n_copies, device);
}

/* An optional array of n integers from low to high; *values stays NULL where the file has none. */
static gboolean read_numbers (const Head *head, const char *key, gint64 n, gint64 low, gint64 high, guint **values,
                              GError **error)
{
  *values = NULL;
  if (!ps_json_object_has (head->object, key))
    return TRUE;
  if (!ps_json_get_array (head->object, key, error) || !check_length (head, key, n, error))
    return FALSE;
  g_autofree guint *read = g_new0 (guint, (gsize)n);
  for (guint i = 0; ps_json_next_element (head->reader); i++) {
    gint64 value;

    if (!ps_json_element_integer (head->reader, key, i, low, high, &value, error))
      return FALSE;
    read[i] = (guint)value;
  }
  *values = g_steal_pointer (&read);
  return TRUE;
}

/* The same for a number of each microbatch, in bytes. */
static gboolean read_bytes (const Head *head, const char *key, gint64 low, gint64 high, guint8 **bytes, GError **error)
{
  g_autofree guint *values = NULL;

  if (!read_numbers (head, key, head->n_microbatches, low, high, &values, error))
    return FALSE;
  *bytes = values != NULL ? g_new (guint8, (gsize)head->n_microbatches) : NULL;
  for (guint i = 0; values != NULL && i < head->n_microbatches; i++)
    (*bytes)[i] = (guint8)values[i];
  return TRUE;
}

static gboolean add_ops (PsScheduleBuilder *builder, const char *text)
{
  PsOp op;
  const char *end;

  while (ps_op_parse (text, &end, &op)) {
    op.paired = *end == '+';
    ps_schedule_builder_add_op (builder, op);
    if (!op.paired)
      return *end == '\0';
    text = end + 1;
  }
  return FALSE;
}

static gboolean read_device (const Head *head, PsScheduleBuilder *builder, guint device, GError **error)
{
  g_autofree char *key = g_strdup_printf ("order[%u]", device);

  if (!ps_json_element_array (head->reader, "order", device, error))
    return FALSE;
  for (guint i = 0; ps_json_next_element (head->reader); i++) {
    const char *text;

    if (!ps_json_element_text (head->reader, key, i, &text, error))
      return FALSE;
    if (!add_ops (builder, text))
      return ps_refuse (error, PS_ERROR_INPUT, "%s: %s[%u]: '%s' is no op such as F0.1 (kind, microbatch, dot, stage)",
                        head->reader->where, key, i, text);
  }
  ps_schedule_builder_next_device (builder);
  return TRUE;
}

static gboolean read_orders (const Head *head, PsScheduleBuilder *builder, GError **error)
{
  if (!ps_json_get_array (head->object, "order", error) || !check_length (head, "order", head->n_devices, error))
    return FALSE;
  for (guint device = 0; ps_json_next_element (head->reader); device++)
    if (!read_device (head, builder, device, error))
      return FALSE;
  return TRUE;
}

static gboolean read_text (const PsJsonObject *object, const char *key, char **text, GError **error)
{
  return !ps_json_object_has (object, key) || ps_json_get_text (object, key, text, error);
}

static gboolean read_integer (const PsJsonObject *object, const char *key, gint64 high, guint *value, GError **error)
{
  gint64 read = 0;

  if (ps_json_object_has (object, key) && !ps_json_get_integer (object, key, 1, high, &read, error))
    return FALSE;
  *value = (guint)read;
  return TRUE;
}

static gboolean read_options (const Head *head, PsSchedule *schedule, GError **error)
{
  const PsJsonObject *object = head->object;

  if (!read_text (object, "origin", &schedule->origin, error) || !read_text (object, "family", &schedule->family, error)
      || !read_integer (object, "chunks", PS_MAX_STAGES, &schedule->n_chunks, error)
      || !read_integer (object, "group", PS_MAX_MICROBATCHES, &schedule->group_size, error)
      || !read_integer (object, "defer_head", PS_MAX_MICROBATCHES, &schedule->defer_head, error))
    return FALSE;
  if (ps_json_object_has (object, "asynchronous")
      && !ps_json_get_boolean (object, "asynchronous", &schedule->asynchronous, error))
    return FALSE;
  return read_bytes (head, "copy_of_microbatch", 0, schedule->placement->n_copies - 1, &schedule->copy, error)
         && read_bytes (head, "slices_of_microbatch", 1, head->n_slices, &schedule->slices, error)
         && read_numbers (head, "weight_versions", head->n_devices, 1, PS_MAX_STAGES, &schedule->weight_versions, error)
         && read_integer (object, "update_every", head->n_microbatches, &schedule->update_every, error);
}

static PsSchedule *read_schedule (const PsJsonObject *object, GError **error)
{
  g_autofree char *name = NULL;
  Head head = { .object = object, .reader = object->reader, .n_slices = 1 };

  if (!ps_json_get_text (object, "name", &name, error) || !read_head (&head, error))
    return NULL;
  PsPlacement *placement = read_placement (&head, error);
  if (placement == NULL)
    return NULL;
  PsScheduleBuilder *builder = ps_schedule_builder_new (name, placement, (guint)head.n_microbatches);
  gboolean complete = read_orders (&head, builder, error);
  g_autoptr (PsSchedule) schedule = ps_schedule_builder_end (builder);
  schedule->n_slices = (guint)head.n_slices;
  return complete && read_options (&head, schedule, error) ? g_steal_pointer (&schedule) : NULL;
}

PsSchedule *ps_schedule_parse_json (const char *where, const char *text, gssize length, GError **error)
{
  static const char *const required[] = { "name", "devices", "stages", "microbatches", "placement", "order", NULL };
  static const char *const optional[] = { "origin",
                                          "slices",
                                          "family",
                                          "chunks",
                                          "group",
                                          "defer_head",
                                          "copy_of_microbatch",
                                          "slices_of_microbatch",
                                          "asynchronous",
                                          "weight_versions",
                                          "update_every",
                                          NULL };
  g_auto (PsJsonReader) reader = { 0 };
  g_auto (PsJsonObject) object = { 0 };

  if (!ps_json_reader_init (&reader, where, text, length, error)
      || !ps_json_object_init (&object, &reader, FORMAT, required, optional, error))
    return NULL;
  return read_schedule (&object, error);
}

static gboolean recognise (const char *text, gsize length)
{
  return ps_format_first (text, length) == '{';
}

static PsSchedule *read_native (const char *where, const char *text, gsize length, GError **error)
{
  return ps_schedule_parse_json (where, text, (gssize)length, error);
}

static char *write_native (const PsSchedule *schedule, G_GNUC_UNUSED GError **error)
{
  return ps_schedule_to_json (schedule);
}

const PsFormat ps_format_native = {
  .name = "native",
  .description = "pipesim's own JSON, which holds everything",
  .recognise = recognise,
  .read = read_native,
  .write = write_native,
};
