/* sweep-values.c - lists and ranges of a spec written out, and the single values read. */
#include "setting/setting-private.h"
#include "sweep-private.h"

#include "text.h"

#include <string.h>

/* Decimal numbers as integers of a millionth, so that steps are exact. */
#define UNIT G_GINT64_CONSTANT (1000000)
#define MAX_WHOLE G_GINT64_CONSTANT (1000000000000)

void
ps_sweep_value_free (PsSweepValue *value)
{
  if (!value)
    return;
  g_free (value->text);
  ps_setting_free (value->setting);
  g_free (value->content);
  g_free (value);
}

/* "1.5GiB": the number, and where its unit begins. FALSE: no number, or too large or fine. */
static gboolean
read_number (const char *text, gint64 *number, const char **unit)
{
  gint64 digit = UNIT / 10;

  *number = 0;
  if (!g_ascii_isdigit (*text))
    return FALSE;
  for (; g_ascii_isdigit (*text) && *number < MAX_WHOLE * UNIT / 10; text++)
    *number = *number * 10 + (*text - '0') * UNIT;
  if (*text == '.' && g_ascii_isdigit (text[1]))
    for (text++; g_ascii_isdigit (*text) && digit > 0; text++, digit /= 10)
      *number += (*text - '0') * digit;
  *unit = text;
  return !g_ascii_isdigit (*text) && *text != '.';
}

static char *
write_number (gint64 number, const char *unit)
{
  g_autofree char *fraction = g_strdup_printf ("%06" G_GINT64_FORMAT, number % UNIT);
  int n = 6;

  while (n > 0 && fraction[n - 1] == '0')
    n--;
  return g_strdup_printf ("%" G_GINT64_FORMAT "%s%.*s%s", number / UNIT, n > 0 ? "." : "", n, fraction, unit);
}

typedef struct
{
  gint64 low;
  gint64 high;
  gint64 step;   /* 0: factor counts */
  gint64 factor; /* of 1 / UNIT */
  const char *unit;
} Range;

static gboolean
fail (GError **error, const char *where, const char *text, const char *message)
{
  g_autofree char *quoted = ps_text_quote (text);

  g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: %s %s", where, quoted, message);
  return FALSE;
}

/* What follows the two ends: nothing, "step 4" or "x2". */
static gboolean
read_stride (const char *text, Range *range)
{
  gint64 *number = *text == 'x' ? &range->factor : &range->step;
  const char *unit = "";

  range->step = UNIT;
  range->factor = 0;
  if (*text == '\0')
    return TRUE;
  range->step = 0;
  if (*text == 'x')
    text++;
  else if (g_str_has_prefix (text, "step "))
    text = text + strspn (text + strlen ("step"), " \t") + strlen ("step");
  else
    return FALSE;
  return read_number (text, number, &unit) && (*unit == '\0' || g_str_equal (unit, range->unit))
         && (number == &range->factor ? *unit == '\0' && range->factor > UNIT : range->step > 0);
}

/* "4..64GiB x2". The unit stands behind both ends or behind the last one only. */
static gboolean
read_range (const char *where, const char *text, char **unit, Range *range, GError **error)
{
  const char *dots = strstr (text, ".."), *low_unit, *high_unit;
  g_autofree char *low = g_strchomp (g_strndup (text, (gsize)(dots - text)));
  const char *high = dots + 2 + strspn (dots + 2, " \t");
  gsize length;

  if (!read_number (low, &range->low, &low_unit) || !read_number (high, &range->high, &high_unit))
    return fail (error, where, text, "is no range; 4..64, 4..64 step 4 or 4..64 x2 would be right");
  length = strcspn (high_unit, " \t");
  *unit = g_strndup (high_unit, length);
  range->unit = *unit;
  if (*low_unit && !g_str_equal (low_unit, *unit))
    return fail (error, where, text, "has two units; the same behind both ends would be right");
  if (range->low > range->high)
    return fail (error, where, text, "goes down; the smaller end comes first");
  if (!read_stride (high_unit + length + strspn (high_unit + length, " \t"), range))
    return fail (error, where, text, "ends in neither 'step NUMBER' nor 'xFACTOR' with a factor above 1");
  if (range->factor && range->low == 0)
    return fail (error, where, text, "multiplies 0, which stays 0");
  return TRUE;
}

static gboolean
expand_range (const char *where, const char *text, GPtrArray *texts, GError **error)
{
  g_autofree char *unit = NULL;
  Range range;

  if (!read_range (where, text, &unit, &range, error))
    return FALSE;
  for (gint64 number = range.low; number <= range.high;)
    {
      gint64 next = range.step ? number + range.step : (gint64)((double)number / (double)UNIT * (double)range.factor);

      if (texts->len >= PS_MAX_SWEEP_VALUES || next <= number)
        return fail (error, where, text, "has too many values (more than 100000, or steps below a millionth)");
      g_ptr_array_add (texts, write_number (number, unit));
      number = next;
    }
  return TRUE;
}

static gboolean
has_ranges (const PsField *field)
{
  return field->type != PS_FIELD_TEXT && field->type != PS_FIELD_FLAG;
}

static gboolean
check_once (const char *where, const GPtrArray *texts, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint i = 0; i < texts->len; i++)
    if (!g_hash_table_add (seen, texts->pdata[i]))
      return fail (error, where, texts->pdata[i], "appears twice");
  return TRUE;
}

static void
add_families (GPtrArray *texts)
{
  guint n;
  const PsFamily *const *table = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    g_ptr_array_add (texts, g_strdup (table[i]->name));
}

GPtrArray *
ps_sweep_expand (const char *where, const PsField *field, const char *text, GError **error)
{
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  g_auto (GStrv) parts = g_strsplit (text, g_str_equal (field->name, "costs") ? ";" : ",", -1);

  for (guint i = 0; parts[i]; i++)
    {
      const char *part = g_strstrip (parts[i]);

      if (*part == '\0')
        return fail (error, where, text, "has an empty value in its list"), NULL;
      if (texts->len >= PS_MAX_SWEEP_VALUES)
        return fail (error, where, text, "has more than 100000 values"), NULL;
      if (g_str_equal (field->name, "schedule") && g_str_equal (part, "all"))
        add_families (texts);
      else if (!has_ranges (field) || strstr (part, "..") == NULL)
        g_ptr_array_add (texts, g_strdup (part));
      else if (!expand_range (where, part, texts, error))
        return NULL;
    }
  if (texts->len == 0)
    return fail (error, where, text, "holds no value"), NULL;
  return check_once (where, texts, error) ? g_steal_pointer (&texts) : NULL;
}

/* Single values */

/* Through the option itself, so that a spec takes what the command line takes. */
static gboolean
read_option (const PsField *field, const char *text, PsSetting *setting, GError **error)
{
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_autofree char *argument = field->type == PS_FIELD_FLAG ? g_strconcat ("--", field->name, NULL)
                                                           : g_strconcat ("--", field->name, "=", text, NULL);
  gboolean given = g_strcmp0 (text, field->none) != 0 && (field->type != PS_FIELD_FLAG || g_str_equal (text, "yes"));
  g_auto (GStrv) arguments = g_new0 (char *, 3);

  arguments[0] = g_strdup ("sweep");
  arguments[1] = given ? g_strdup (argument) : NULL;
  g_option_context_set_help_enabled (context, FALSE);
  ps_setting_add_options (setting, context);
  return g_option_context_parse_strv (context, &arguments, error) && ps_setting_read (setting, error);
}

static gboolean
read_schedule (const char *text, PsSweepValue *value, GError **error)
{
  g_autoptr (PsSetting) setting = ps_setting_new ();
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);
  g_autoptr (PsSchedule) schedule = NULL;
  g_autofree char *contents = NULL;
  gsize length;

  value->value = (PsValue){ .type = PS_VALUE_TEXT, .text = value->text };
  if (ps_family_find (text))
    return TRUE;
  schedule = ps_predictor_schedule (predictor, text, error);
  if (!schedule || !ps_read_file (text, &contents, &length, error))
    return FALSE;
  value->content = g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guchar *)contents, length);
  return TRUE;
}

/* Lists of one value per stage have no place in a column of numbers. */
static gboolean
read_cost (const PsField *field, const char *text, PsSweepValue *value, GError **error)
{
  gint64 *number = &value->value.integer;

  value->value.type = PS_VALUE_INTEGER;
  if (strchr (text, ':') == NULL)
    return field->type == PS_FIELD_TIME ? ps_parse_time (field->name, text, number, error)
                                        : ps_parse_size (field->name, text, number, error);
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: '%s' has a value per stage; such lists go into costs, whole",
               field->name, text);
  return FALSE;
}

/* Fields that are no options of SETTING. */
static gboolean
read_own (const PsField *field, const char *text, PsSweepValue *value, GError **error)
{
  gboolean batch = g_str_equal (field->name, "global-batch");
  gint64 number;

  if (ps_sweep_field_cost (field))
    return read_cost (field, text, value, error);
  if (g_str_equal (field->name, "schedule"))
    return read_schedule (text, value, error);
  if (!ps_parse_integer (field->name, text, 1, batch ? PS_MAX_SIZE_BYTES : PS_MAX_MICROBATCHES, &number, error))
    return FALSE;
  value->value = (PsValue){ .type = PS_VALUE_INTEGER, .integer = number };
  if (!batch)
    value->setting->microbatch_size = (guint)number;
  return TRUE;
}

static gint64
smallest (const gint64 *sizes, guint n)
{
  gint64 least = sizes[0];

  for (guint i = 1; i < n; i++)
    least = MIN (least, sizes[i]);
  return least;
}

static PsValue
option_value (const PsField *field, const PsSweepValue *read)
{
  const PsSetting *setting = read->setting;

  switch (field->type)
    {
    case PS_FIELD_COUNT:
      if (g_strcmp0 (read->text, field->none) != 0)
        return (PsValue){ .type = PS_VALUE_INTEGER, .integer = g_ascii_strtoll (read->text, NULL, 10) };
      if (g_str_equal (read->text, "none"))
        return (PsValue){ .type = PS_VALUE_INTEGER, .integer = 0 };
      return (PsValue){ .type = PS_VALUE_NONE };
    case PS_FIELD_FLAG:
      return (PsValue){ .type = PS_VALUE_INTEGER, .integer = g_str_equal (read->text, "yes") };
    case PS_FIELD_SIZE:
      if (setting->n_memory_limits)
        return (PsValue){ .type = PS_VALUE_INTEGER,
                          .integer = smallest (setting->memory_limit, setting->n_memory_limits) };
      if (g_strcmp0 (read->text, field->none) == 0)
        return (PsValue){ .type = PS_VALUE_NONE };
      return (PsValue){ .type = PS_VALUE_INTEGER, .integer = setting->eager_bytes };
    case PS_FIELD_FACTOR:
      return (PsValue){ .type = PS_VALUE_REAL, .real = g_ascii_strtod (read->text, NULL) };
    case PS_FIELD_FACTORS:
    case PS_FIELD_TEXT:
    default:
      return (PsValue){ .type = PS_VALUE_TEXT, .text = read->text };
    }
}

static gboolean
read_value (const PsField *field, PsSweepValue *value, GError **error)
{
  if (field->type == PS_FIELD_FLAG && !g_str_equal (value->text, "yes") && !g_str_equal (value->text, "no"))
    {
      g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: '%s' is neither yes nor no", field->name, value->text);
      return FALSE;
    }
  if (!field->option)
    return read_own (field, value->text, value, error);
  if (!read_option (field, value->text, value->setting, error))
    return FALSE;
  value->value = option_value (field, value);
  return TRUE;
}

PsSweepValue *
ps_sweep_value_new (const char *where, const PsField *field, const char *text, GError **error)
{
  PsSweepValue *value = g_new0 (PsSweepValue, 1);
  g_autoptr (GError) reason = NULL;

  value->text = g_strdup (text);
  value->setting = ps_setting_new ();
  if (read_value (field, value, &reason))
    return value;
  g_set_error (error, PS_ERROR, g_error_matches (reason, PS_ERROR, PS_ERROR_IO) ? PS_ERROR_IO : PS_ERROR_INPUT,
               "%s: %s", where, reason->message);
  ps_sweep_value_free (value);
  return NULL;
}
