/* profile.c - a profile from a database, and as text. */
#include "costdb-private.h"
#include "profile-fields.h"

#include "base/json.h"

/* clang-format off */
#define FIELD(structure, member) { #member, offsetof (structure, member) }
#define TIME(member) { #member, offsetof (PsMeasurement, time.member) }
/* clang-format on */

const PsProfileField ps_measurement_numbers[PS_N_MEASUREMENT_NUMBERS] = { TIME (median_ns),
                                                                          TIME (q1_ns),
                                                                          TIME (q3_ns),
                                                                          TIME (mad_ns),
                                                                          TIME (min_ns),
                                                                          FIELD (PsMeasurement, launch_ns),
                                                                          FIELD (PsMeasurement, take_bytes),
                                                                          FIELD (PsMeasurement, give_bytes),
                                                                          FIELD (PsMeasurement, state_bytes) };
const PsProfileField ps_condition_numbers[PS_N_CONDITION_NUMBERS]
    = { FIELD (PsCondition, clock_mhz), FIELD (PsCondition, memory_clock_mhz), FIELD (PsCondition, temperature_c),
        FIELD (PsCondition, power_mw) };

void
ps_profile_contents_free (PsProfileContents *contents)
{
  if (contents == NULL)
    return;
  ps_profile_free (contents->profile);
  g_clear_pointer (&contents->measurements, g_ptr_array_unref);
  g_clear_pointer (&contents->sentinels, g_ptr_array_unref);
  g_free (contents);
}

PsProfileContents *
ps_profile_contents_load (PsCostDb *db, const char *name, gboolean with_samples, GError **error)
{
  g_autoptr (PsProfileContents) contents = g_new0 (PsProfileContents, 1);

  contents->profile = ps_costdb_profile (db, name, error);
  if (contents->profile == NULL)
    return NULL;
  contents->measurements = ps_costdb_measurements (db, contents->profile->name, with_samples, error);
  if (contents->measurements == NULL)
    return NULL;
  contents->sentinels = ps_costdb_sentinels (db, contents->profile->name, error);
  return contents->sentinels != NULL ? g_steal_pointer (&contents) : NULL;
}

/* Puts ", " before every member but the first. */
static void
append_key (GString *text, const char *key)
{
  if (text->str[text->len - 1] != '{')
    g_string_append (text, ", ");
  g_string_append_printf (text, "\"%s\": ", key);
}

static void
append_text (GString *text, const char *key, const char *value)
{
  append_key (text, key);
  ps_json_append_string (text, value);
}

static void
append_number (GString *text, const char *key, gint64 value)
{
  append_key (text, key);
  g_string_append_printf (text, "%" G_GINT64_FORMAT, value);
}

/* Nothing when nothing is known. */
static void
append_condition (GString *text, const char *key, const PsCondition *condition)
{
  g_autoptr (GString) members = g_string_new ("{");
  g_autofree char *throttle = ps_throttle_to_text (condition->throttle);

  for (guint i = 0; i < PS_N_CONDITION_NUMBERS; i++)
    {
      gint64 value = *(const gint64 *)ps_profile_field_at (condition, &ps_condition_numbers[i]);

      if (value != 0)
        append_number (members, ps_condition_numbers[i].key, value);
    }
  if (throttle != NULL)
    append_text (members, "throttle", throttle);
  if (members->len == 1)
    return;
  append_key (text, key);
  g_string_append_printf (text, "%s}", members->str);
}

static void
append_samples (GString *text, const PsMeasurement *m)
{
  if (m->n_samples == 0)
    return;
  append_key (text, "samples_ns");
  for (guint i = 0; i < m->n_samples; i++)
    g_string_append_printf (text, "%c%" G_GINT64_FORMAT, i ? ',' : '[', m->samples_ns[i]);
  g_string_append_c (text, ']');
}

static void
append_measurement (GString *text, const PsMeasurement *m)
{
  gboolean op = m->subject == PS_SUBJECT_OP;

  g_string_append_c (text, '{');
  append_text (text, "subject", ps_subject_name (m->subject));
  if (*m->shape != '\0')
    append_text (text, "shape", m->shape);
  if (op)
    append_text (text, "kind", ps_op_kind_name (m->kind));
  else if (m->subject != PS_SUBJECT_PAIR && m->subject != PS_SUBJECT_HOST)
    append_number (text, "bytes", m->bytes);
  append_number (text, "devices", m->devices);
  append_number (text, "sharing", MAX (m->sharing, 1));
  if (m->share > 0)
    append_number (text, "share", m->share);
  if (op)
    append_text (text, "cache", ps_cache_state_name (m->cache));
  append_number (text, "n", m->time.n);
  for (guint i = 0; i < PS_N_MEASUREMENT_NUMBERS; i++)
    {
      const PsProfileField *field = &ps_measurement_numbers[i];
      gint64 value = *(const gint64 *)ps_profile_field_at (m, field);

      if (value != 0)
        append_number (text, field->key, value);
    }
  append_text (text, "stop", m->stop);
  append_text (text, "taken", m->taken);
  append_condition (text, "before", &m->before);
  append_condition (text, "during", &m->during);
  append_condition (text, "after", &m->after);
  append_samples (text, m);
  g_string_append_c (text, '}');
}

static void
append_sentinel (GString *text, const PsSentinel *sentinel)
{
  g_string_append_c (text, '{');
  append_text (text, "what", sentinel->what);
  append_number (text, "median_ns", sentinel->median_ns);
  append_number (text, "n", sentinel->n);
  append_text (text, "taken", sentinel->taken);
  g_string_append_c (text, '}');
}

static void
append_known (GString *text, const char *key, const char *value)
{
  if (*value == '\0')
    return;
  g_string_append_printf (text, ",\n\"%s\": ", key);
  ps_json_append_string (text, value);
}

char *
ps_profile_contents_to_text (const PsProfileContents *contents)
{
  const char *name = contents->profile->name;
  GString *text = g_string_new ("{\"format\": \"" PS_PROFILE_FORMAT "\",\n\"name\": ");
  g_autofree char *base = g_strndup (name, ps_profile_name_length (name));

  ps_json_append_string (text, base);
  for (guint i = 1; i < PS_N_PROFILE_TEXTS; i++)
    {
      g_string_append_printf (text, ",\n\"%s\": ", ps_profile_texts[i].key);
      ps_json_append_string (text, *(char **)ps_profile_field_at (contents->profile, &ps_profile_texts[i]));
    }
  if (*contents->profile->shares)
    g_string_append_printf (text, ",\n\"shares\": \"%s\"", contents->profile->shares);
  append_known (text, "source", contents->profile->source);
  append_known (text, "choices", contents->profile->choices);
  append_known (text, "places", contents->profile->places);
  g_string_append (text, ",\n\"sentinels\": [");
  for (guint i = 0; i < contents->sentinels->len; i++)
    {
      g_string_append (text, i ? ",\n" : "\n");
      append_sentinel (text, contents->sentinels->pdata[i]);
    }
  g_string_append (text, "],\n\"measurements\": [");
  for (guint i = 0; i < contents->measurements->len; i++)
    {
      g_string_append (text, i ? ",\n" : "\n");
      append_measurement (text, contents->measurements->pdata[i]);
    }
  g_string_append (text, "]}\n");
  return g_string_free (text, FALSE);
}
