/* setting.h - the SETTING part of every command line, and the chain from it to a prediction: costs, schedule, program,
 * simulation. */
#ifndef PIPESIM_SETTING_H
#define PIPESIM_SETTING_H

#include <pipesim/families.h>
#include <pipesim/timeline.h>

G_BEGIN_DECLS

typedef struct
{
  guint n_devices;      /* -p; required where a family is generated */
  guint n_microbatches; /* -m; likewise */
  guint n_chunks;       /* -v; 0: the family's default */
  guint n_slices;       /* --slices; 0: the family's default */
  guint group_size;     /* --group; 0: the family's default */
  char *costs;          /* --costs text */
  char *db;             /* --db */
  char *profile;        /* --profile */
  char *model;          /* --model path or name */
  char *cluster;        /* --cluster path or name */
  PsChannel channel;    /* --comm */
  gint64 *memory_limit; /* --memory-limit: one value, or one per device; NULL: none */
  guint n_memory_limits;
  /* what GOption wrote, before ps_setting_finish has read it */
  struct PsSettingText *text;
} PsSetting;

PsSetting *ps_setting_new (void);
void ps_setting_free (PsSetting *setting);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSetting, ps_setting_free)

/* The options of SETTING as main entries of context; valid while setting lives. */
void ps_setting_add_options (PsSetting *setting, GOptionContext *context);

/* Reads and checks what GOption collected. Errors: PS_ERROR_USAGE. */
gboolean ps_setting_finish (PsSetting *setting, GError **error);

/* Costs for n_devices and n_chunks from --costs, --db or --model with --cluster (exactly one of the three). */
PsCosts *ps_setting_costs (const PsSetting *setting, guint n_devices, guint n_chunks,
                           GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* --memory-limit as [n_devices] (free with g_free), NULL when there is none. Fails when it has neither one value nor
 * n_devices. */
gboolean ps_setting_memory_limit (const PsSetting *setting, guint n_devices, gint64 **limit, GError **error);

/* The model that the setting names (by --model or stored with --db). Errors: PS_ERROR_USAGE when it names none. */
PsModel *ps_setting_model (const PsSetting *setting, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A family's schedule for -p, -m, -v, --slices and --group (families that look at costs get the setting's, if it has
 * any), or a schedule file (recognised by '/' or '.' in the text, or by existing); -p, -m and -v, when given, must
 * agree with the file. The schedule is validated. An unknown name's message lists the families. */
PsSchedule *ps_setting_schedule (const PsSetting *setting, const char *name_or_file,
                                 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Everything that is known about one schedule under one setting. */
typedef struct
{
  PsCosts *costs;
  PsProgram *program; /* owns the schedule */
  PsSimulation *simulation;
  PsMetrics metrics;
  gint64 lower_bound_ns;
  gboolean feasible; /* no device above its memory limit */
} PsPrediction;

PsPrediction *ps_predict (const PsSetting *setting, const char *name_or_file, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_prediction_free (PsPrediction *prediction);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPrediction, ps_prediction_free)

G_END_DECLS

#endif
