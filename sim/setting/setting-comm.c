/* setting-comm.c - reads --comm, --comm-order, --eager, --blocking, --speed, --overlap-slowdown, --ready-order and
 * --share-links. */
#include "setting-comm.h"

#include <pipesim/events.h>

void
ps_comm_text_clear (PsCommText *text)
{
  g_free (text->comm);
  g_free (text->order);
  g_free (text->eager);
  g_free (text->speed);
  g_free (text->slowdown);
  g_free (text->ready_order);
  g_free (text->bandwidth);
  g_free (text->latency);
}

void
ps_comm_add_options (PsCommText *text, GOptionContext *context)
{
  const GOptionEntry entries[] = {
    { "comm", 0, 0, G_OPTION_ARG_STRING, &text->comm,
      "How transfers share channels: latency (not at all), direction, pair or rank (one in-order channel for each pair "
      "of devices and direction, for each pair, or for each device)",
      "MODEL" },
    { "comm-order", 0, 0, G_OPTION_ARG_STRING, &text->order,
      "Where receives are posted: asap (as PyTorch lowers), deferred (right before what needs them) or planned "
      "(for these costs and channels); default: as a torch-comms file has them, else asap",
      "ORDER" },
    { "eager", 0, 0, G_OPTION_ARG_STRING, &text->eager,
      "Messages up to this size do not wait for their receiver (default: 0)", "SIZE" },
    { "blocking", 0, 0, G_OPTION_ARG_NONE, &text->blocking, "Sends and receives occupy their devices", NULL },
    { "share-links", 0, 0, G_OPTION_ARG_NONE, &text->share_links,
      "Transfers at one time share the links of --cluster fairly", NULL },
    { "speed", 0, 0, G_OPTION_ARG_STRING, &text->speed,
      "Speed of all devices, or of each; at 0.8 an op takes 1 / 0.8 of its cost", "FACTOR[:FACTOR...]" },
    { "overlap-slowdown", 0, 0, G_OPTION_ARG_STRING, &text->slowdown,
      "Ops take this times as long while their device sends or receives, 1 to 8", "FACTOR" },
    { "bandwidth-factor", 0, 0, G_OPTION_ARG_STRING, &text->bandwidth,
      "Links and network this times as fast; transfers and all-reduces given or measured take 1 / FACTOR of their time",
      "FACTOR" },
    { "latency-factor", 0, 0, G_OPTION_ARG_STRING, &text->latency,
      "Latencies of links and network of --cluster times this", "FACTOR" },
    { "ready-order", 0, 0, G_OPTION_ARG_STRING, &text->ready_order,
      "The order as a hint: a device starts the first of its next WINDOW ops that is ready", "WINDOW" },
    G_OPTION_ENTRY_NULL,
  };

  g_option_context_add_main_entries (context, entries, NULL);
}

static gboolean
read_choices (const PsCommText *text, PsSetting *setting, GError **error)
{
  return (!text->comm || ps_channel_parse ("--comm", text->comm, &setting->comm, error))
         && (!text->order || ps_comm_order_parse ("--comm-order", text->order, &setting->comm_order, error));
}

static gboolean
read_speeds (const char *text, PsSetting *setting, GError **error)
{
  g_auto (GStrv) parts = NULL;

  g_clear_pointer (&setting->speed, g_free);
  setting->n_speeds = 0;
  if (!text)
    return TRUE;
  parts = g_strsplit (text, ":", -1);
  setting->n_speeds = MAX (g_strv_length (parts), 1);
  setting->speed = g_new0 (double, setting->n_speeds);
  for (guint i = 0; i < setting->n_speeds; i++)
    if (!ps_parse_number ("--speed", parts[i] ? parts[i] : "", PS_MIN_SPEED, PS_MAX_SPEED, &setting->speed[i], error))
      return FALSE;
  return TRUE;
}

gboolean
ps_comm_check (const PsSetting *setting, GError **error)
{
  const char *message = NULL;

  if (setting->blocking && setting->ready_order)
    message = "--blocking and --ready-order: blocking devices keep the order of their sends and receives";
  else if (setting->share_links && !setting->cluster)
    message = "--share-links: needs --cluster FILE, whose links to share, and --model FILE";
  else if (setting->latency_factor > 0 && !setting->cluster)
    message = "--latency-factor: needs --cluster FILE, whose latencies are known";
  if (message)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, message);
  return message == NULL;
}

gboolean
ps_comm_read (const PsCommText *text, PsSetting *setting, GError **error)
{
  gint64 ready_order = 0;

  setting->comm = PS_CHANNEL_LATENCY;
  setting->comm_order = PS_COMM_ASAP;
  setting->reorder = text->order != NULL;
  setting->any_comm_order = setting->takes_auto && !text->order;
  setting->blocking = text->blocking;
  setting->share_links = text->share_links;
  if (!read_choices (text, setting, error) || !read_speeds (text->speed, setting, error)
      || (text->eager && !ps_parse_size ("--eager", text->eager, &setting->eager_bytes, error))
      || (text->slowdown
          && !ps_parse_number ("--overlap-slowdown", text->slowdown, 1, PS_MAX_SLOWDOWN, &setting->overlap_slowdown,
                               error))
      || (text->bandwidth
          && !ps_parse_number ("--bandwidth-factor", text->bandwidth, PS_MIN_FACTOR, PS_MAX_FACTOR,
                               &setting->bandwidth_factor, error))
      || (text->latency
          && !ps_parse_number ("--latency-factor", text->latency, PS_MIN_FACTOR, PS_MAX_FACTOR,
                               &setting->latency_factor, error))
      || (text->ready_order
          && !ps_parse_integer ("--ready-order", text->ready_order, 1, PS_MAX_OPS, &ready_order, error)))
    return FALSE;
  setting->ready_order = (guint)ready_order;
  return TRUE;
}
