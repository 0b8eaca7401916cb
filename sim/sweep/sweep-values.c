/* sweep-values.c - the fields of a spec, their lists and ranges written out, and the single values read. */
#include "sweep-private.h"

#include "text.h"

#include <string.h>

/* Decimal numbers as integers of a millionth, so that steps are exact. */
#define UNIT G_GINT64_CONSTANT (1000000)
#define MAX_WHOLE G_GINT64_CONSTANT (1000000000000)

const PsOption *
ps_sweep_field_find (const char *name)
{
  const PsOption *field = ps_setting_options;

  while (field->name != NULL && !g_str_equal (field->name, name) && !ps_column_is_called (&field->sweep->column, name))
    field++;
  return field->name != NULL && !(field->flags & PS_FIELD_DERIVED) ? field : NULL;
}

char *
ps_sweep_field_names (void)
{
  GString *names = g_string_new (NULL);

  for (const PsOption *field = ps_setting_options; field->name != NULL; field++)
    if (!(field->flags & PS_FIELD_DERIVED))
      g_string_append_printf (names, "%s%s", names->len > 0 ? " " : "", field->name);
  return g_string_free (names, FALSE);
}

const char *
ps_sweep_field_cost (const PsOption *field)
{
  return g_str_has_prefix (field->name, "costs.") ? field->name + strlen ("costs.") : NULL;
}

void
ps_sweep_value_free (PsSweepValue *value)
{
  if (value == NULL)
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

  return ps_refuse (error, PS_ERROR_INPUT, "%s: %s %s", where, quoted, message);
}

/* The text after the two ends: nothing, "step 4" or "x2". */
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

/* "4..64GiB x2". The unit follows both ends or only the last. */
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
    return fail (error, where, text, "has two units; the same after both ends would be right");
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
  Range range = { 0 };

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
has_ranges (const PsOption *field)
{
  return field->type != PS_OPTION_FLAG
         && (field->sweep->column.type != PS_COLUMN_TEXT || field->type == PS_OPTION_FACTORS);
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
ps_sweep_expand (const char *where, const PsOption *field, const char *text, GError **error)
{
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  g_auto (GStrv) parts = g_strsplit (text, g_str_equal (field->name, "costs") ? ";" : ",", -1);

  for (guint i = 0; parts[i] != NULL; i++)
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

static gboolean
read_schedule (const char *text, PsSweepValue *value, GError **error)
{
  g_autoptr (PsSetting) setting = ps_setting_new ();
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);
  g_autoptr (PsSchedule) schedule = NULL;
  g_autofree char *contents = NULL;
  gsize length;

  value->value = (PsValue){ .type = PS_VALUE_TEXT, .text = value->text };
  if (ps_family_find (text) != NULL)
    return TRUE;
  schedule = ps_predictor_schedule (predictor, text, error);
  if (schedule == NULL || !ps_read_file (text, &contents, &length, error))
    return FALSE;
  value->content = g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guchar *)contents, length);
  return TRUE;
}

/* As the column has it: texts as they are typed, a list of sizes as the smallest. */
static PsValue
column_value (const PsOption *field, gconstpointer base, const char *text)
{
  if (field->sweep->column.type == PS_COLUMN_TEXT)
    return (PsValue){ .type = PS_VALUE_TEXT, .text = text };
  return field->flags & PS_FIELD_OWN ? ps_option_value (field, base) : ps_setting_column (field, base);
}

static gboolean
read_value (const PsOption *field, PsSweepValue *value, GError **error)
{
  gpointer base = field->flags & PS_FIELD_OWN ? (gpointer)&value->own : value->setting;

  if (g_str_equal (field->name, "schedule"))
    return read_schedule (value->text, value, error);
  /* A column of numbers has no place for one value per stage. */
  if (ps_sweep_field_cost (field) != NULL && strchr (value->text, ':') != NULL)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: '%s' has a value per stage; such lists go into costs, whole",
                      field->name, value->text);
  if (!ps_option_read (field, base, value->text, error))
    return FALSE;
  value->value = column_value (field, base, value->text);
  return TRUE;
}

PsSweepValue *
ps_sweep_value_new (const char *where, const PsOption *field, const char *text, GError **error)
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
