/* setting.c - the options that every subcommand shares. */
#include <pipesim/sources.h>
#include "setting-comm.h"
#include "setting-private.h"
#include "setting-training.h"

#include <string.h>

struct PsSettingText
{
  char *devices;
  char *microbatches;
  char *chunks;
  char *slices;
  char *group;
  char *memory_limit;
  char *placement;
  PsCommText comm;
  PsTrainingText training;
};

PsSetting *
ps_setting_new (void)
{
  PsSetting *setting = g_new0 (PsSetting, 1);

  setting->text = g_new0 (struct PsSettingText, 1);
  setting->n_replicas = 1;
  setting->n_tensor = 1;
  return setting;
}

static void
setting_text_free (struct PsSettingText *text)
{
  g_free (text->devices);
  g_free (text->microbatches);
  g_free (text->chunks);
  g_free (text->slices);
  g_free (text->group);
  g_free (text->memory_limit);
  g_free (text->placement);
  ps_comm_text_clear (&text->comm);
  ps_training_text_clear (&text->training);
  g_free (text);
}

void
ps_setting_free (PsSetting *setting)
{
  if (setting == NULL)
    return;
  g_free (setting->costs);
  g_free (setting->db);
  g_free (setting->profile);
  g_free (setting->model);
  g_free (setting->precision);
  g_free (setting->cluster);
  g_free (setting->memory_limit);
  g_free (setting->speed);
  setting_text_free (setting->text);
  g_free (setting);
}

/* Numbers are read as text, because GOption takes "4x" and overflows without a word. */
void
ps_setting_add_options (PsSetting *setting, GOptionContext *context)
{
  struct PsSettingText *text = setting->text;
  const GOptionEntry entries[] = {
    { "devices", 'p', 0, G_OPTION_ARG_STRING, &text->devices, "Number of devices (pipeline ranks)", "P" },
    { "microbatches", 'm', 0, G_OPTION_ARG_STRING, &text->microbatches, "Microbatches per iteration", "M" },
    { "chunks", 'v', 0, G_OPTION_ARG_STRING, &text->chunks, "Stages per device (default: the family's)", "V" },
    { "slices", 0, 0, G_OPTION_ARG_STRING, &text->slices, "Sequence slices of a microbatch (default: the family's)",
      "Q" },
    { "group", 0, 0, G_OPTION_ARG_STRING, &text->group,
      "Microbatches that go through a chunk in a row (default: the family's)", "N" },
    { "costs", 0, 0, G_OPTION_ARG_STRING, &setting->costs,
      "Costs of a device's whole share, e.g. f=1ms,b=1ms,w=1ms,c=0,o=0,act=2MiB,wact=1MiB,weights=0,"
      " or lists of one value per stage: f=1ms:1.2ms:...",
      "COSTS" },
    { "db", 0, 0, G_OPTION_ARG_FILENAME, &setting->db, "Measured costs", "FILE" },
    { "profile", 0, 0, G_OPTION_ARG_STRING, &setting->profile, "Profile in the database (default: the only one)",
      "NAME" },
    { "model", 0, 0, G_OPTION_ARG_FILENAME, &setting->model, "Model description or its name (tiny-gpt)", "FILE" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &setting->precision,
      "Number format of the model, fp32, fp16 or bf16 (default: its own); a cluster's peak_flops stays what it is",
      "NAME" },
    { "cluster", 0, 0, G_OPTION_ARG_FILENAME, &setting->cluster, "Cluster description or its name", "FILE" },
    { "memory-limit", 0, 0, G_OPTION_ARG_STRING, &text->memory_limit,
      "Memory of a device, or of each (default: the cluster's)", "SIZE[:SIZE...]" },
    { "placement", 0, 0, G_OPTION_ARG_STRING, &text->placement,
      "Only schedules placed so: loop, V, wave, bidirectional, auto", "KIND" },
    G_OPTION_ENTRY_NULL,
  };

  g_option_context_add_main_entries (context, entries, NULL);
  ps_comm_add_options (&text->comm, context);
  ps_training_add_options (&text->training, context);
}

static gboolean
read_count (const char *where, const char *text, gint64 high, guint *count, GError **error)
{
  gint64 value = 0;

  if (text != NULL && !ps_parse_integer (where, text, 1, high, &value, error))
    return FALSE;
  *count = value;
  return TRUE;
}

static gboolean
read_memory_limit (PsSetting *setting, GError **error)
{
  g_auto (GStrv) parts = NULL;

  g_clear_pointer (&setting->memory_limit, g_free);
  setting->n_memory_limits = 0;
  if (setting->text->memory_limit == NULL)
    return TRUE;
  parts = g_strsplit (setting->text->memory_limit, ":", -1);
  setting->n_memory_limits = MAX (g_strv_length (parts), 1);
  setting->memory_limit = g_new0 (gint64, setting->n_memory_limits);
  for (guint i = 0; i < setting->n_memory_limits; i++)
    if (!ps_parse_size ("--memory-limit", parts[i] ? parts[i] : "", &setting->memory_limit[i], error))
      return FALSE;
  return TRUE;
}

static gboolean
check_placement (const char *text, GError **error)
{
  PsPlacementKind kind;

  return text == NULL || g_str_equal (text, "auto") || ps_placement_parse ("--placement", text, &kind, error);
}

gboolean
ps_setting_read (PsSetting *setting, GError **error)
{
  const struct PsSettingText *text = setting->text;
  PsPrecision precision;

  return read_count ("-p/--devices", text->devices, PS_MAX_DEVICES, &setting->n_devices, error)
         && read_count ("-m/--microbatches", text->microbatches, PS_MAX_MICROBATCHES, &setting->n_microbatches, error)
         && read_count ("-v/--chunks",
                        setting->takes_auto && g_strcmp0 (text->chunks, "auto") == 0 ? NULL : text->chunks,
                        PS_MAX_STAGES, &setting->n_chunks, error)
         && read_count ("--slices", text->slices, PS_MAX_SLICES, &setting->n_slices, error)
         && read_count ("--group", text->group, PS_MAX_MICROBATCHES, &setting->group_size, error)
         && (setting->precision == NULL || ps_precision_parse ("--precision", setting->precision, &precision, error))
         && read_memory_limit (setting, error) && ps_comm_read (&text->comm, setting, error)
         && ps_training_read (&text->training, setting, error) && check_placement (text->placement, error);
}

gboolean
ps_setting_check (const PsSetting *setting, GError **error)
{
  return ps_comm_check (setting, error) && ps_training_check (setting, error) && ps_sources_check (setting, error);
}

gboolean
ps_setting_finish (PsSetting *setting, GError **error)
{
  return ps_setting_read (setting, error) && ps_setting_check (setting, error);
}

gboolean
ps_setting_placement (const PsSetting *setting, PsPlacementKind *kind)
{
  return setting->text->placement != NULL && ps_placement_parse ("--placement", setting->text->placement, kind, NULL);
}
