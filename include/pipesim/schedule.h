/* schedule.h - for every device, the order of its ops. No times. */
#ifndef PIPESIM_SCHEDULE_H
#define PIPESIM_SCHEDULE_H

#include <pipesim/placement.h>

G_BEGIN_DECLS

/* One op, 8 bytes. */
typedef struct
{
  guint8 kind;  /* PsOpKind */
  guint8 slice; /* sequence slice, 0 unless the schedule slices */
  guint16 stage;
  guint32 microbatch : 31;
  guint32 paired : 1; /* forms one overlapped op with the next op of the same device */
} PsOp;

typedef struct
{
  char *name;             /* family name, or what a file says */
  PsPlacement *placement; /* owned */
  guint n_microbatches;
  guint n_slices;         /* 1 unless sequences are sliced */
  guint8 *copy;           /* [n_microbatches] weight copy that a microbatch uses; NULL: all use copy 0 */
  gboolean asynchronous;  /* weights change while microbatches are under way (PipeDream): no flush between steps */
  guint *weight_versions; /* [n_devices] versions of the weights that are kept; NULL: 1 everywhere */
  guint *first;           /* [n_devices + 1]: device d owns ops[first[d]] .. ops[first[d + 1] - 1] */
  PsOp *ops;
} PsSchedule;

PsSchedule *ps_schedule_copy (const PsSchedule *schedule);
void ps_schedule_free (PsSchedule *schedule);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSchedule, ps_schedule_free)

static inline guint
ps_schedule_n_ops (const PsSchedule *schedule)
{
  return schedule->first[schedule->placement->n_devices];
}

/* The device that runs ops of this stage for this microbatch. */
static inline guint
ps_schedule_device (const PsSchedule *schedule, guint stage, guint microbatch)
{
  return ps_placement_device (schedule->placement, schedule->copy ? schedule->copy[microbatch] : 0, stage);
}

/* Collects the order of each device in turn. Usage: new; for each device 0..p-1: add ...; next_device; end. */
typedef struct _PsScheduleBuilder PsScheduleBuilder;
PsScheduleBuilder *ps_schedule_builder_new (const char *name, PsPlacement *placement /* taken */, guint n_microbatches);
void ps_schedule_builder_add (PsScheduleBuilder *builder, PsOpKind kind, guint stage, guint microbatch);
void ps_schedule_builder_add_op (PsScheduleBuilder *builder, PsOp op);
void ps_schedule_builder_next_device (PsScheduleBuilder *builder);
PsSchedule *
ps_schedule_builder_end (PsScheduleBuilder *builder); /* frees the builder; devices not ended have no more ops */

/* Completeness (every stage and microbatch has one F and either one BW or one B and one W), placement (each op on the
 * device that holds it) and order (B after F, W after B, slices forward in order and backward in reverse). Every
 * message names device, position and op, e.g. "device 1: op 7 (B3.1): comes before its F". Whether the orders of all
 * devices can run together is found by ps_program_lower. Errors: PS_ERROR_SCHEDULE. */
gboolean ps_schedule_validate (const PsSchedule *schedule, GError **error);

/* "F0.1": kind, microbatch, dot, stage; "F0.1/2" slice 2. Pairs are joined by '+' in files: "F4.0+BW1.3". buffer has 48
 * bytes; returns buffer. */
char *ps_op_format (PsOp op, char *buffer);
/* Reads one such op from text; *end points behind it. */
gboolean ps_op_parse (const char *text, const char **end, PsOp *op);

/* The native format: JSON {"format": "pipesim-schedule/1", "name", "devices", "stages", "microbatches", "slices",
 * "placement": [[device per stage] per copy], "copy_of_microbatch"?, "asynchronous"?, "weight_versions"?, "order":
 * [["F0.0", ...] per device]}. Free the text with g_free. */
char *ps_schedule_to_json (const PsSchedule *schedule);
PsSchedule *ps_schedule_read (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT; /* not yet validated */
PsSchedule *ps_schedule_parse_json (const char *where, const char *text, gssize length,
                                    GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
