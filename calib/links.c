/* links.c - finds the links that are alike, and those of them to look at. */
#include "links.h"

#include <math.h>

#define MAX_SAMPLES 2 /* of a class that nothing speaks against */
#define PLACE_BYTES 512
#define TIMEOUT_NS G_GINT64_CONSTANT (60000000000)

static const char *intern (char *text)
{
  const char *interned = g_intern_string (text);

  g_free (text);
  return interned;
}

static PsCalibLink *link_at (const GArray *links, guint i)
{
  return &g_array_index (links, PsCalibLink, i);
}

static char *place_of (const PsCalibration *calibration, guint device)
{
  PsDeviceSetting setting
      = ps_calib_device_setting (calibration, calibration->model, calibration->n_devices, 1, device);

  setting.exclusive = calibration->transport->exclusive;
  return calibration->device->place (&setting);
}

/* The place of each device, NULL after the last one; this process has the device of its rank. */
static char **exchange_places (const PsCalibration *calibration)
{
  const guint n = calibration->n_devices;
  g_autofree char *all = g_malloc (n * PLACE_BYTES);
  g_autofree char *own = place_of (calibration, ps_processes_rank (calibration->processes));
  char mine[PLACE_BYTES] = "", **places = g_new0 (char *, n + 1);

  g_strlcpy (mine, own != NULL ? own : "", sizeof mine);
  ps_processes_exchange (calibration->processes, mine, sizeof mine, all, TIMEOUT_NS);
  for (guint i = 0; i < n; i++)
    places[i] = g_strndup (all + i * PLACE_BYTES, PLACE_BYTES - 1);
  return places;
}

char *ps_calib_places (const PsCalibration *calibration)
{
  const guint n = calibration->n_devices;
  g_auto (GStrv) places = NULL;

  if (calibration->device->place == NULL || n < 2 || calibration->n_local != n
      || (calibration->processes != NULL
          && (calibration->n_tensor > 1 || ps_processes_n_ranks (calibration->processes) != n)))
    return g_strdup ("");
  if (calibration->processes != NULL)
    places = exchange_places (calibration);
  else
    places = g_new0 (char *, n + 1);
  for (guint i = 0; i < n; i++) {
    if (places[i] == NULL)
      places[i] = place_of (calibration, i);
    if (places[i] == NULL || *places[i] == '\0')
      return g_strdup ("");
  }
  return g_strjoinv (";", places);
}

/* The first link of each class stands for it; the first of all has the plain shape. */
static GArray *ring (const char *places)
{
  g_auto (GStrv) all = g_strsplit (places != NULL ? places : "", ";", -1);
  guint n = g_strv_length (all);
  GArray *links = g_array_new (FALSE, FALSE, sizeof (PsCalibLink));

  for (guint i = 0; n > 1 && i < (n == 2 ? 1 : n); i++) {
    guint next = (i + 1) % n, k = 0;
    PsCalibLink link = { .a = MIN (i, next), .b = MAX (i, next), .change = NAN };

    link.link_class = intern (ps_link_class (all[i], all[next]));
    link.key = intern (ps_link_key (i, next));
    while (k < i && link_at (links, k)->link_class != link.link_class)
      k++;
    link.first = k == i;
    link.shape = i == 0 || link_at (links, 0)->link_class == link.link_class
                     ? ""
                     : intern (ps_link_class_key (link.link_class));
    g_array_append_val (links, link);
  }
  return links;
}

/* Compares the measurement of one size over that link alone with that of its class, if there are both. */
static void look_at (PsCalibLink *link, GPtrArray *measurements)
{
  for (guint i = 0; i < measurements->len && isnan (link->change); i++) {
    const PsMeasurement *own = measurements->pdata[i];
    PsMeasurement key = *own;

    key.shape = (char *)link->shape;
    const PsMeasurement *of_class = own->subject == PS_SUBJECT_TRANSFER && g_str_equal (own->shape, link->key)
                                        ? ps_measurement_find (measurements, &key)
                                        : NULL;
    if (of_class == NULL)
      continue;
    link->change = (double)own->time.median_ns / (double)MAX (of_class->time.median_ns, 1) - 1;
    link->differs = ps_links_differ (own, of_class);
  }
}

/* The last links of a class and every one of a class that has split. */
static void choose_samples (GArray *links, const char *link_class)
{
  gboolean split = FALSE;
  guint n = 0;

  for (guint i = 0; i < links->len; i++)
    split |= link_at (links, i)->link_class == link_class && link_at (links, i)->differs;
  for (guint i = links->len; i-- > 0;) {
    PsCalibLink *link = link_at (links, i);

    if (link->link_class == link_class && !link->first)
      link->sampled = split || n++ < MAX_SAMPLES;
  }
}

GArray *ps_calib_links (const char *places, GPtrArray *known)
{
  GArray *links = ring (places);

  for (guint i = 0; i < links->len && known != NULL; i++)
    look_at (link_at (links, i), known);
  for (guint i = 0; i < links->len; i++)
    if (link_at (links, i)->first)
      choose_samples (links, link_at (links, i)->link_class);
  return links;
}

/* "; 3-0 -1.2 %", "; 3-0 differs, +41.0 %" or, where it has no sample, "; 3-0". */
static void append_link (GString *text, const PsCalibLink *link)
{
  g_string_append_printf (text, "; %u-%u", link->a, link->b);
  if (!isnan (link->change))
    g_string_append_printf (text, "%s %+.1f %%", link->differs ? " differs," : "", 100 * link->change);
}

char *ps_calib_links_to_text (const char *places, GPtrArray *measurements)
{
  g_autoptr (GArray) links = ps_calib_links (places, measurements);
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < links->len && links->len > 1; i++) {
    const PsCalibLink *link = link_at (links, i);

    if (!link->first)
      continue;
    g_string_append_printf (text, "links of class %s: %u-%u stands for it", link->link_class, link->a, link->b);
    for (guint k = i + 1; k < links->len; k++)
      if (link_at (links, k)->link_class == link->link_class)
        append_link (text, link_at (links, k));
    g_string_append_c (text, '\n');
  }
  return g_string_free (text, FALSE);
}

char *ps_calib_links_to_json (const char *places, GPtrArray *measurements)
{
  g_autoptr (GArray) links = ps_calib_links (places, measurements);
  GString *json = g_string_new ("[");

  for (guint i = 0; i < links->len; i++) {
    const PsCalibLink *link = link_at (links, i);
    char number[G_ASCII_DTOSTR_BUF_SIZE] = "null";

    if (!isnan (link->change))
      g_ascii_formatd (number, sizeof number, "%.6f", link->change);
    g_string_append_printf (
        json,
        "%s\n    {\"link\": \"%u-%u\", \"class\": \"%s\", \"stands_for_class\": %s, \"change\": %s, "
        "\"differs\": %s}",
        i > 0 ? "," : "", link->a, link->b, link->link_class, link->first ? "true" : "false", number,
        link->differs ? "true" : "false");
  }
  g_string_append (json, links->len > 0 ? "\n  ]" : "]");
  return g_string_free (json, FALSE);
}
