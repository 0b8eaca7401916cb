/* profile-read.c - reads a profile's text, and refuses a text that no calibration could have written. */
#include "profile-fields.h"

#include "base/json.h"
#include "base/text.h"

#include <string.h>

/* The largest count that a line may hold. */
#define MAX_COUNT 1000000

typedef struct
{
  const char *where; /* the file */
  const char *begin;
  PsJsonReader reader;
  const char *counted; /* up to here lines have been counted */
  guint line;
  char *place;      /* where and the line: the beginning of messages */
  GHashTable *seen; /* keys of measurements */
} Text;

static void
text_clear (Text *text)
{
  ps_json_reader_clear (&text->reader);
  g_free (text->place);
  g_clear_pointer (&text->seen, g_hash_table_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Text, text_clear)

/* Updates place to the line of the reader. Lines only go up. */
static void
note_line (Text *text)
{
  for (; text->counted < text->reader.at; text->counted++)
    text->line += *text->counted == '\n';
  g_free (text->place);
  text->place = g_strdup_printf ("%s:%u", text->where, text->line);
  text->reader.where = text->place;
}

static gboolean
refuse (const Text *text, const char *key, const char *value, const char *what, GError **error)
{
  return ps_refuse (error, PS_ERROR_INPUT, "%s: %s: '%s' %s", text->reader.where, key, value, what);
}

static gboolean
get_number (const PsJsonObject *object, const PsProfileField *field, gint64 low, gpointer structure, GError **error)
{
  return !ps_json_object_has (object, field->key)
         || ps_json_get_integer (object, field->key, low, MAX (PS_MAX_TIME_NS, PS_MAX_SIZE_BYTES),
                                 ps_profile_field_at (structure, field), error);
}

static gboolean
get_count (const PsJsonObject *object, const char *key, gint64 high, guint *count, GError **error)
{
  gint64 value;

  if (!ps_json_get_integer (object, key, 1, high, &value, error))
    return FALSE;
  *count = (guint)value;
  return TRUE;
}

static gboolean
get_condition (Text *text, const PsJsonObject *object, const char *key, PsCondition *condition, GError **error)
{
  static const char *const required[] = { NULL };
  static const char *const optional[]
      = { "clock_mhz", "memory_clock_mhz", "temperature_c", "power_mw", "throttle", NULL };
  g_auto (PsJsonObject) members = { 0 };
  g_autofree char *throttle = NULL;

  if (!ps_json_object_has (object, key))
    return TRUE;
  ps_json_object_go (object, key);
  if (!ps_json_object_init (&members, &text->reader, NULL, required, optional, error))
    return FALSE;
  for (guint i = 0; i < PS_N_CONDITION_NUMBERS; i++)
    if (!get_number (&members, &ps_condition_numbers[i], 1, condition, error))
      return FALSE;
  if (ps_json_object_has (&members, "throttle") && !ps_json_get_text (&members, "throttle", &throttle, error))
    return FALSE;
  return ps_throttle_parse (throttle, &condition->throttle)
         || refuse (text, "throttle", throttle, "is no list of reasons to run slower", error);
}

static gboolean
get_samples (const Text *text, const PsJsonObject *object, PsMeasurement *m, GError **error)
{
  if (!ps_json_object_has (object, "samples_ns"))
    return TRUE;
  if (!ps_json_get_array (object, "samples_ns", error))
    return FALSE;
  PsJsonReader *reader = object->reader;
  guint n = ps_json_count_elements (reader);
  if (n != m->time.n)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: samples_ns: %u of them, where n is %u", text->reader.where, n,
                      m->time.n);
  m->samples_ns = g_new (gint64, n);
  for (; ps_json_next_element (reader); m->n_samples++)
    if (!ps_json_element_integer (reader, "samples_ns", m->n_samples, 0, PS_MAX_TIME_NS, &m->samples_ns[m->n_samples],
                                  error))
      return FALSE;
  return TRUE;
}

static gboolean
refuse_member (const Text *text, const char *key, const char *what, GError **error)
{
  return ps_refuse (error, PS_ERROR_INPUT, "%s: %s: %s", text->reader.where, key, what);
}

/* The members of a measurement depend on its subject. */
static gboolean
check_members (const Text *text, const PsJsonObject *object, PsSubject subject, GError **error)
{
  static const struct
  {
    const char *key;
    gboolean of[PS_N_SUBJECTS];
  } members[] = { { "shape", { TRUE, FALSE, TRUE, FALSE, TRUE, TRUE } },
                  { "kind", { TRUE, FALSE, FALSE, FALSE, FALSE, FALSE } },
                  { "cache", { TRUE, FALSE, FALSE, FALSE, FALSE, FALSE } },
                  { "bytes", { FALSE, TRUE, TRUE, TRUE, FALSE, FALSE } } };

  if (subject != PS_SUBJECT_OP && ps_json_object_has (object, "share"))
    return refuse_member (text, "share", "does not belong to this subject", error);
  /* The shape of a transfer is optional. */
  for (guint i = subject == PS_SUBJECT_TRANSFER ? 1 : 0; i < G_N_ELEMENTS (members); i++)
    if (ps_json_object_has (object, members[i].key) != members[i].of[subject])
      return refuse_member (text, members[i].key,
                            members[i].of[subject] ? "is missing" : "does not belong to this subject", error);
  return TRUE;
}

/* A member that is one word of several. Messages begin with `where`. */
static gboolean
get_word (const PsJsonObject *object, const char *key, char **where, char **word, GError **error)
{
  *where = g_strdup_printf ("%s: %s", object->reader->where, key);
  return ps_json_get_text (object, key, word, error);
}

static gboolean
get_subject (const PsJsonObject *object, PsMeasurement *m, GError **error)
{
  g_autofree char *where = NULL, *word = NULL;

  return get_word (object, "subject", &where, &word, error)
         && (ps_subject_parse (where, word, &m->subject, error) || ps_text_blame_input (error));
}

static gboolean
get_kind (const PsJsonObject *object, PsMeasurement *m, GError **error)
{
  g_autofree char *where = NULL, *word = NULL;

  return get_word (object, "kind", &where, &word, error)
         && (ps_op_kind_parse (where, word, &m->kind, error) || ps_text_blame_input (error));
}

static gboolean
get_cache (const PsJsonObject *object, PsMeasurement *m, GError **error)
{
  g_autofree char *where = NULL, *word = NULL;

  return get_word (object, "cache", &where, &word, error)
         && (ps_cache_state_parse (where, word, &m->cache, error) || ps_text_blame_input (error));
}

/* Reads the members of the key. */
static gboolean
get_key (const Text *text, const PsJsonObject *object, PsMeasurement *m, GError **error)
{
  if (!get_subject (object, m, error) || !check_members (text, object, m->subject, error)
      || !get_count (object, "devices", PS_MAX_DEVICES, &m->devices, error)
      || !get_count (object, "sharing", PS_MAX_DEVICES, &m->sharing, error)
      || (ps_json_object_has (object, "share") && !get_count (object, "share", PS_MAX_SHARE, &m->share, error))
      || (m->subject == PS_SUBJECT_OP && (!get_kind (object, m, error) || !get_cache (object, m, error)))
      || (ps_json_object_has (object, "bytes")
          && !ps_json_get_integer (object, "bytes", 0, PS_MAX_SIZE_BYTES, &m->bytes, error)))
    return FALSE;
  if (!ps_json_object_has (object, "shape"))
    {
      m->shape = g_strdup ("");
      return TRUE;
    }
  return ps_json_get_text (object, "shape", &m->shape, error)
         && (*m->shape != '\0' || refuse (text, "shape", "", "is empty", error));
}

static gboolean
check_once (Text *text, const PsMeasurement *m, GError **error)
{
  char *key = g_strdup_printf ("%d %d %" G_GINT64_FORMAT " %u %u %u %d %s", m->subject, m->kind, m->bytes, m->devices,
                               m->sharing, m->share, m->cache, m->shape);

  if (g_hash_table_add (text->seen, key))
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: the measurement is there twice", text->reader.where);
}

static gboolean
get_figures (const Text *text, const PsJsonObject *object, PsMeasurement *m, GError **error)
{
  const PsStatistics *time = &m->time;

  if (!get_count (object, "n", MAX_COUNT, &m->time.n, error))
    return FALSE;
  for (guint i = 0; i < PS_N_MEASUREMENT_NUMBERS; i++)
    if (!get_number (object, &ps_measurement_numbers[i], 0, m, error))
      return FALSE;
  if (time->min_ns <= time->q1_ns && time->q1_ns <= time->median_ns && time->median_ns <= time->q3_ns)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: median_ns: min, q1, median and q3 are out of order",
                    text->reader.where);
}

static gboolean
get_stop (const PsJsonObject *object, PsMeasurement *m, GError **error)
{
  static const char *const stops[] = { "converged", "sample cap", "time cap", "imported", "estimated" };
  g_autofree char *where = NULL;
  guint stop;

  return get_word (object, "stop", &where, &m->stop, error)
         && (ps_parse_name (where, m->stop, stops, G_N_ELEMENTS (stops), &stop, error) || ps_text_blame_input (error));
}

static gpointer
read_measurement (Text *text, GError **error)
{
  static const char *const required[] = { "subject", "devices", "sharing", "n", "stop", "taken", NULL };
  static const char *const optional[]
      = { "shape",  "share",  "kind",   "bytes",      "cache",      "median_ns",  "q1_ns",
          "q3_ns",  "mad_ns", "min_ns", "launch_ns",  "take_bytes", "give_bytes", "state_bytes",
          "before", "during", "after",  "samples_ns", NULL };
  g_auto (PsJsonObject) object = { 0 };
  g_autoptr (PsMeasurement) m = g_new0 (PsMeasurement, 1);

  note_line (text);
  if (!ps_json_object_init (&object, &text->reader, NULL, required, optional, error))
    return NULL;
  const char *end = text->reader.at;
  gboolean ok = get_key (text, &object, m, error) && check_once (text, m, error)
                && get_figures (text, &object, m, error) && get_stop (&object, m, error)
                && ps_json_get_text (&object, "taken", &m->taken, error)
                && get_condition (text, &object, "before", &m->before, error)
                && get_condition (text, &object, "during", &m->during, error)
                && get_condition (text, &object, "after", &m->after, error) && get_samples (text, &object, m, error);
  text->reader.at = end;
  return ok ? g_steal_pointer (&m) : NULL;
}

static gpointer
read_sentinel (Text *text, GError **error)
{
  static const char *const required[] = { "what", "median_ns", "n", "taken", NULL };
  g_auto (PsJsonObject) object = { 0 };
  g_autoptr (PsSentinel) sentinel = g_new0 (PsSentinel, 1);

  note_line (text);
  if (!ps_json_object_init (&object, &text->reader, NULL, required, NULL, error))
    return NULL;
  const char *end = text->reader.at;
  gboolean ok = ps_json_get_text (&object, "what", &sentinel->what, error)
                && (*sentinel->what != '\0' || refuse (text, "what", "", "is empty", error))
                && ps_json_get_integer (&object, "median_ns", 0, PS_MAX_TIME_NS, &sentinel->median_ns, error)
                && get_count (&object, "n", MAX_COUNT, &sentinel->n, error)
                && ps_json_get_text (&object, "taken", &sentinel->taken, error);
  text->reader.at = end;
  return ok ? g_steal_pointer (&sentinel) : NULL;
}

static gboolean
read_array (Text *text, const PsJsonObject *object, const char *key, gpointer (*read) (Text *, GError **),
            GPtrArray *into, GError **error)
{
  text->reader.where = text->where;
  if (!ps_json_get_array (object, key, error))
    return FALSE;
  text->counted = text->begin;
  text->line = 1;
  while (ps_json_next_element (object->reader))
    {
      gpointer item = read (text, error);

      if (item == NULL)
        return FALSE;
      g_ptr_array_add (into, item);
    }
  return TRUE;
}

/* A model's text says more than its digest, which must follow from it. Without a model all three texts are empty. */
static gboolean
check_model (const char *where, const PsProfile *profile, GError **error)
{
  if (*profile->model_name == '\0' && *profile->model_digest == '\0' && *profile->model_text == '\0')
    return TRUE;
  g_autofree char *place = g_strdup_printf ("%s: model_text", where);
  g_autoptr (PsModel) model = ps_model_parse (place, profile->model_text, strlen (profile->model_text), error);

  if (model == NULL)
    return FALSE;
  g_autofree char *digest = ps_model_digest (model);
  if (g_str_equal (digest, profile->model_digest))
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: model_digest: is not that of model_text, which is %s", where, digest);
}

/* Equal parts are left out. */
static gboolean
get_shares (const PsJsonObject *object, PsProfile *profile, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s: shares", object->reader->where);
  guint n;

  if (!ps_json_object_has (object, "shares"))
    {
      profile->shares = g_strdup ("");
      return TRUE;
    }
  if (!ps_json_get_text (object, "shares", &profile->shares, error))
    return FALSE;
  g_autofree guint *shares = ps_shares_parse (where, profile->shares, &n, error);
  if (shares == NULL)
    return ps_text_blame_input (error);
  g_autofree char *text = ps_shares_to_text (shares, n);
  if (g_str_equal (text, profile->shares))
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: '%s' are %s", where, profile->shares,
                    *text ? "not in lowest terms" : "equal, which no shares at all say");
}

/* Left out where it is empty. */
static gboolean
get_optional (const PsJsonObject *object, const char *key, char **text, GError **error)
{
  if (ps_json_object_has (object, key))
    return ps_json_get_text (object, key, text, error);
  *text = g_strdup ("");
  return TRUE;
}

static gboolean
get_choices (const PsJsonObject *object, PsProfile *profile, GError **error)
{
  g_autoptr (GBytes) choices = NULL;

  return get_optional (object, "choices", &profile->choices, error)
         && ps_choices_parse (object->reader->where, profile->choices, &choices, error);
}

static gboolean
read_profile (const PsJsonObject *object, PsProfile *profile, GError **error)
{
  for (guint i = 0; i < PS_N_PROFILE_TEXTS; i++)
    if (!ps_json_get_text (object, ps_profile_texts[i].key, ps_profile_field_at (profile, &ps_profile_texts[i]), error))
      return FALSE;
  if (!get_shares (object, profile, error) || !get_choices (object, profile, error)
      || !get_optional (object, "source", &profile->source, error)
      || !get_optional (object, "places", &profile->places, error))
    return FALSE;
  if (*profile->name != '\0' && *profile->device != '\0')
    return check_model (object->reader->where, profile, error);
  return ps_refuse (error, PS_ERROR_INPUT, "%s: %s: is empty", object->reader->where,
                    *profile->name == '\0' ? "name" : "device");
}

PsProfileContents *
ps_profile_contents_parse (const char *where, const char *text, gsize length, GError **error)
{
  g_auto (Text) state
      = { .where = where, .begin = text, .seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL) };
  g_auto (PsJsonObject) object = { 0 };
  g_autoptr (PsProfileContents) contents = g_new0 (PsProfileContents, 1);
  static const char *const optional[] = { "shares", "choices", "source", "places", NULL };
  const char *required[PS_N_PROFILE_TEXTS + 3] = { NULL };

  for (guint i = 0; i < PS_N_PROFILE_TEXTS; i++)
    required[i] = ps_profile_texts[i].key;
  required[PS_N_PROFILE_TEXTS] = "sentinels";
  required[PS_N_PROFILE_TEXTS + 1] = "measurements";
  contents->profile = g_new0 (PsProfile, 1);
  contents->measurements = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);
  contents->sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_sentinel_free);
  if (!ps_json_reader_init (&state.reader, where, text, (gssize)length, error)
      || !ps_json_object_init (&object, &state.reader, PS_PROFILE_FORMAT, required, optional, error)
      || !read_profile (&object, contents->profile, error)
      || !read_array (&state, &object, "sentinels", read_sentinel, contents->sentinels, error)
      || !read_array (&state, &object, "measurements", read_measurement, contents->measurements, error))
    return NULL;
  return g_steal_pointer (&contents);
}
