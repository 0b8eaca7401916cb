/* launch-edit.c - changes a launch in its own text. A place is right where another text in it changes the key in
 * question and no other: each likely one is tried, and the file is read again. So this file knows no more of shells,
 * YAML, TOML and JSON than how a key is spelled there. */
#include "launch-private.h"

#include "base/text.h"

#include <string.h>

#define MOST_TRIALS 400 /* places of one key */
#define MOST_NEIGHBOURS 8
#define MOST_LINES 4000 /* of a file that is changed */
#define MOST_BYTES (1 << 20)

typedef struct {
  const char *where;
  PsLaunchForm form;
  char *text;
  GPtrArray *keys; /* PsLaunchKey of the text */
  guint n_trials;
} Edit;

static void edit_clear (Edit *edit)
{
  g_free (edit->text);
  g_clear_pointer (&edit->keys, g_ptr_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Edit, edit_clear)

/* Keys */

/* The name as the file spells it, without the sections of YAML, TOML and JSON. */
static const char *short_name (PsLaunchForm form, const char *key)
{
  const char *point = form == PS_LAUNCH_WORDS ? NULL : strrchr (key, '.');

  return point != NULL ? point + 1 : key;
}

/* "" for a key that is no setting. */
static const char *fact_of (PsLaunchForm form, const char *key)
{
  const PsKeyRow *row = ps_launch_key_row (form, key);

  return row != NULL && row->kind <= PS_KEY_SHAPE ? row->fact : "";
}

/* Whether both keys say the same thing, by whichever of its names. */
static gboolean is_same (PsLaunchForm form, const char *a, const char *b)
{
  const char *fact = fact_of (form, a);

  return *fact != '\0' ? g_str_equal (fact, fact_of (form, b))
                       : g_str_equal (short_name (form, a), short_name (form, b));
}

/* The last key that says the same; NULL: there is none. */
static const PsLaunchKey *find_key (PsLaunchForm form, const GPtrArray *keys, const char *name)
{
  for (guint i = keys->len; i-- > 0;)
    if (is_same (form, ((PsLaunchKey *)keys->pdata[i])->key, name))
      return keys->pdata[i];
  return NULL;
}

/* The key of that very name. */
static const PsLaunchKey *find_named (const GPtrArray *keys, const char *name)
{
  for (guint i = keys->len; i-- > 0;)
    if (g_str_equal (((PsLaunchKey *)keys->pdata[i])->key, name))
      return keys->pdata[i];
  return NULL;
}

/* The value as its words, which lists of YAML hold in brackets. Free with g_free. */
static char *plain_value (const char *value)
{
  g_autofree char *text = g_strdup (*value == '\0' ? "true" : value);
  GString *words = g_string_new (NULL);

  if (*text != '[' || text[1] == '[')
    return g_string_free (g_string_assign (words, g_ascii_strcasecmp (text, "true") == 0 ? "true" : text), FALSE);
  g_auto (GStrv) items = g_strsplit_set (text + 1, "], \"'", -1);
  for (char **item = items; *item != NULL; item++)
    if (**item != '\0')
      g_string_append_printf (words, "%s%s", words->len > 0 ? " " : "", *item);
  return g_string_free (words, FALSE);
}

static gboolean is_value (const PsLaunchKey *key, const char *value)
{
  g_autofree char *has = key != NULL && key->unknown == NULL ? plain_value (key->value) : NULL;
  g_autofree char *wanted = value != NULL ? plain_value (value) : NULL;

  if (wanted == NULL)
    return key == NULL || g_ascii_strcasecmp (key->value, "false") == 0;
  return g_strcmp0 (has, wanted) == 0;
}

/* Whether the keys are as before, but for one that has the value now (NULL: none). */
static gboolean is_wanted (const Edit *edit, const GPtrArray *now, const char *name, const char *value)
{
  guint i = 0, k = 0;

  for (;; i++, k++) {
    while (i < edit->keys->len && is_same (edit->form, ((PsLaunchKey *)edit->keys->pdata[i])->key, name))
      i++;
    while (k < now->len && is_same (edit->form, ((PsLaunchKey *)now->pdata[k])->key, name))
      k++;
    if (i == edit->keys->len || k == now->len)
      break;
    const PsLaunchKey *a = edit->keys->pdata[i], *b = now->pdata[k];
    if (!g_str_equal (a->key, b->key) || !g_str_equal (a->value, b->value))
      return FALSE;
  }
  return i == edit->keys->len && k == now->len && is_value (find_key (edit->form, now, name), value);
}

/* Puts the text in the place, if that gives the key the value and changes no other. */
static gboolean try_place (Edit *edit, gsize begin, gsize end, const char *text, const char *name, const char *value)
{
  g_autofree char *changed = g_strdup_printf ("%.*s%s%s", (int)begin, edit->text, text, edit->text + end);
  g_autoptr (GPtrArray) now
      = edit->n_trials++ < MOST_TRIALS ? ps_launch_keys (edit->where, changed, edit->form, NULL) : NULL;

  if (now == NULL || !is_wanted (edit, now, name, value))
    return FALSE;
  g_free (edit->text);
  edit->text = g_steal_pointer (&changed);
  g_ptr_array_unref (edit->keys);
  edit->keys = g_steal_pointer (&now);
  return TRUE;
}

/* Places */

static gboolean is_name_char (char c)
{
  return g_ascii_isalnum (c) || c == '_';
}

/* Whether the key's name ends at the place; - and _ are alike. */
static gboolean ends_with_key (const Edit *edit, gsize at, const char *name)
{
  const char *shown = short_name (edit->form, name);
  gsize n = strlen (shown);

  if (at < n)
    return FALSE;
  for (gsize i = 0; i < n; i++) {
    char c = edit->text[at - n + i];

    if (c != shown[i] && !(c == '-' && shown[i] == '_'))
      return FALSE;
  }
  char before = at > n ? edit->text[at - n - 1] : '\n', after = edit->text[at];
  return !is_name_char (after) && after != '-' && after != '.'
         && (edit->form == PS_LAUNCH_WORDS ? before == '-' : !is_name_char (before));
}

/* The first place from there where the key's name ends; 0: there is none. */
static gsize next_key (const Edit *edit, gsize from, const char *name)
{
  for (gsize at = from; edit->text[at] != '\0'; at++)
    if (ends_with_key (edit, at + 1, name))
      return at + 1;
  return 0;
}

static gsize line_begin (const char *text, gsize at)
{
  while (at > 0 && text[at - 1] != '\n')
    at--;
  return at;
}

/* Whether the value at the place is the key's: its name goes before. */
static gboolean follows_key (const Edit *edit, gsize at, const char *name)
{
  while (at > 0 && strchr (" \t\r\n\\\"'=:", edit->text[at - 1]) != NULL)
    at--;
  return ends_with_key (edit, at, name);
}

/* Where the value at the place begins: of the 8 of ${NAME:-8} it is the $. */
static gsize value_begin (const char *text, gsize at)
{
  gsize begin = at;

  while (begin > 0 && strchr ("\"'", text[begin - 1]) != NULL)
    begin--;
  if (begin < 4 || text[begin - 1] != '-')
    return at;
  begin -= text[begin - 2] == ':' ? 2 : 1;
  while (begin > 0 && is_name_char (text[begin - 1]))
    begin--;
  return begin > 1 && text[begin - 1] == '{' && text[begin - 2] == '$' ? begin - 2 : at;
}

/* The uses of the variable to which a value is assigned that begins and stands there; 0: none is. */
static guint count_uses (const char *text, gsize begin, gsize at)
{
  gsize end = begin;
  guint n = 0;

  while (end > 0 && strchr ("\"'", text[end - 1]) != NULL)
    end--;
  if (end == 0 || text[--end] != '=')
    return 0;
  for (begin = end; begin > 0 && is_name_char (text[begin - 1]);)
    begin--;
  const gsize length = end - begin;
  for (const char *use = strchr (text, '$'); use != NULL && length > 0; use = strchr (use + 1, '$')) {
    const char *name = use + 1 + (use[1] == '{');
    gboolean own = use > text + end && use < text + at; /* NAME=${NAME:-8} */

    n += strncmp (name, text + begin, length) == 0 && !is_name_char (name[length]) && !own;
  }
  return n;
}

/* Where an expression that begins with $ ends. */
static gsize expression_end (const char *text, gsize at)
{
  char open = text[at + 1], close = open == '{' ? '}' : ')';
  guint depth = 0;

  at++;
  if (open != '{' && open != '(') {
    while (is_name_char (text[at]))
      at++;
    return at;
  }
  do {
    depth += text[at] == open;
    depth -= text[at] == close;
  } while (text[at] != '\0' && text[at++] != '\n' && depth > 0);
  return at;
}

typedef struct {
  gsize begin, end;
  guint rank; /* the least first */
} Place;

static int compare_places (gconstpointer a, gconstpointer b)
{
  const Place *x = a, *y = b;

  return x->rank != y->rank ? PS_COMPARE (x->rank, y->rank) : PS_COMPARE (x->begin, y->begin);
}

/* Where the value may stand: after the key; in a variable that is used once; in an expression, whose place it takes; or
 * anywhere. Free with g_array_unref. */
static GArray *list_places (const Edit *edit, const char *name, const char *value)
{
  GArray *places = g_array_new (FALSE, FALSE, sizeof (Place));
  gsize n = strlen (value);

  for (gsize at = 0; edit->text[at] != '\0'; at++) {
    gboolean begins = at == 0 || !is_name_char (edit->text[at - 1]);
    Place place = { at, at + n, 4 };

    if (n > 0 && begins && strncmp (edit->text + at, value, n) == 0 && !is_name_char (edit->text[at + n])) {
      const gsize begin = value_begin (edit->text, at);

      place.rank = follows_key (edit, begin, name) ? 0 : count_uses (edit->text, begin, at) == 1 ? 1 : 4;
    } else if (edit->text[at] == '$')
      place = (Place){ at, expression_end (edit->text, at), follows_key (edit, at, name) ? 2 : 3 };
    else
      continue;
    g_array_append_val (places, place);
  }
  g_array_sort (places, compare_places);
  return places;
}

/* Where the line of a place ends, before the backslash that continues it. */
static gsize line_end (const char *text, gsize at)
{
  gsize end = at + strcspn (text + at, "\n");

  if (text[end] == '\n' && end > at && text[end - 1] == '\\')
    for (end--; end > at && strchr (" \t", text[end - 1]) != NULL;)
      end--;
  return end;
}

/* Where an option of a line of words may end, the last place first. Free with g_array_unref. */
static GArray *list_ends (const char *text, gsize from)
{
  GArray *ends = g_array_new (FALSE, FALSE, sizeof (gsize));
  gsize at = from;

  for (const gsize end = line_end (text, from); at < end; at++) {
    gboolean option = text[at] == ' ' && text[at + 1] == '-' && text[at + 2] == '-';
    gboolean comment = text[at] == ' ' && text[at + 1] == '#';

    if (option || comment || strchr (")\"'", text[at]) != NULL)
      g_array_prepend_val (ends, at);
  }
  g_array_prepend_val (ends, at);
  return ends;
}

/* Changes of one key */

static gboolean is_plain (const char *value)
{
  return *value != '\0' && strspn (value, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "-_./:=,+") == strlen (value);
}

/* The value as the file's form spells it. Free with g_free. */
static char *spell (PsLaunchForm form, const char *value)
{
  g_auto (GStrv) words = g_strsplit (value, " ", -1);
  gboolean literal = g_str_equal (value, "true") || strspn (value, G_CSET_DIGITS) == strlen (value) || *value == '[';

  if (form == PS_LAUNCH_WORDS) {
    for (char **word = words; *word != NULL; word++) {
      char *shown = ps_shell_word (*word);

      g_free (*word);
      *word = shown;
    }
    return g_strjoinv (" ", words);
  }
  if (*value == '\0')
    return g_strdup ("true");
  if (g_str_has_prefix (value, "[[")) { /* a line for each stage */
    g_auto (GStrv) stages = g_strsplit (value + 1, "],[", -1);
    g_autofree char *lines = g_strjoinv ("],\n  [", stages);
    const gsize n = strlen (lines);

    return g_strdup_printf ("[\n  %.*s,\n]", (int)(n - (g_str_has_suffix (lines, ",]") ? 2 : 1)), lines);
  }
  if (literal || (form == PS_LAUNCH_YAML && is_plain (value)))
    return g_strdup (value);
  if (words[1] != NULL) {
    g_autofree char *list = g_strjoinv (form == PS_LAUNCH_YAML ? ", " : "\", \"", words);

    return g_strdup_printf (form == PS_LAUNCH_YAML ? "[%s]" : "[\"%s\"]", list);
  }
  return g_strdup_printf ("\"%s\"", value);
}

/* The key as the file's form spells it, with its value: that of a log as words. Free with g_free. */
static char *spell_key (const Edit *edit, const char *key, const char *value)
{
  const PsLaunchForm form = edit->form == PS_LAUNCH_LOG ? PS_LAUNCH_WORDS : edit->form;
  g_autofree char *spelled = spell (form, value);
  const char *name = short_name (form, key);

  if (form == PS_LAUNCH_WORDS) {
    g_autofree char *dashed = strchr (name, '.') != NULL ? g_strdup (name) : g_strdelimit (g_strdup (name), "_", '-');

    if (g_str_equal (key, "activation_checkpoint.mode") && find_named (edit->keys, "job.config_file") == NULL)
      return g_strdup_printf ("activation_checkpoint:%s", value);
    return g_strdup_printf (*value != '\0' ? "--%s %s" : "--%s", dashed, spelled);
  }
  return g_strdup_printf (form == PS_LAUNCH_TOML   ? "%s = %s"
                          : form == PS_LAUNCH_YAML ? "%s: %s"
                                                   : "\"%s\": %s",
                          name, spelled);
}

/* Gives the key of YAML whose name ends at the place another value: the rest of its line, or the elements below it. */
static gboolean set_line (Edit *edit, gsize at, const char *text, const char *name, const char *value)
{
  gsize end = at + strcspn (edit->text + at, "\n#"), next = at + strcspn (edit->text + at, "\n");

  while (end > at && edit->text[end - 1] == ' ')
    end--;
  while (edit->text[next] == '\n'
         && g_str_has_prefix (edit->text + next + 1 + strspn (edit->text + next + 1, " "), "- "))
    end = next += 1 + strcspn (edit->text + next + 1, "\n");
  g_autofree char *rest = g_strconcat (": ", text, NULL);
  return try_place (edit, at, end, rest, name, value);
}

/* Gives a key that the file has another value. */
static gboolean set_value (Edit *edit, const PsLaunchKey *key, const char *value)
{
  g_autofree char *name = g_strdup (key->key), *spelled = spell (edit->form, value);
  g_autoptr (GArray) places = list_places (edit, name, key->value);

  if (is_value (key, value))
    return TRUE;
  for (guint i = 0; i < places->len; i++) {
    const Place *place = &g_array_index (places, Place, i);

    if (try_place (edit, place->begin, place->end, value, name, value)
        || try_place (edit, place->begin, place->end, spelled, name, value))
      return TRUE;
  }
  for (gsize at = next_key (edit, 0, name); at > 0 && edit->form == PS_LAUNCH_YAML; at = next_key (edit, at, name))
    if (set_line (edit, at, spelled, name, value))
      return TRUE;
  return FALSE;
}

/* Takes an option of words off, and its line where nothing else is on it. */
static gboolean remove_words (Edit *edit, gsize at, const char *name)
{
  g_autoptr (GArray) ends = list_ends (edit->text, at);
  gsize begin = at - strlen (name) - 2, line = line_begin (edit->text, at), blank = begin;

  while (blank > line && strchr (" \t", edit->text[blank - 1]) != NULL)
    blank--;
  for (guint i = 0; i < ends->len; i++) {
    gsize end = g_array_index (ends, gsize, i), next = end + strspn (edit->text + end, " \t\\");
    gboolean alone = blank == line && (edit->text[next] == '\n' || edit->text[next] == '\0');
    gboolean continues = line > 1 && edit->text[line - 2] == '\\', goes_on = next > end && edit->text[next - 1] == '\\';
    gsize before = line > 0 ? line - 1 : 0;

    while (continues && !goes_on && before > 0 && strchr (" \\", edit->text[before - 1]) != NULL)
      before--;
    if ((alone && continues && !goes_on && try_place (edit, before, next, "", name, NULL))
        || (alone && try_place (edit, line, next + (edit->text[next] == '\n'), "", name, NULL))
        || (blank > line && blank < begin && try_place (edit, blank, end, "", name, NULL))
        || try_place (edit, begin, end + (edit->text[end] == ' '), "", name, NULL)
        || try_place (edit, begin, end, "", name, NULL))
      return TRUE;
  }
  return FALSE;
}

static gboolean remove_key (Edit *edit, const PsLaunchKey *key)
{
  g_autofree char *name = g_strdup (key->key);
  const gboolean truth = is_value (key, "true");

  if (is_value (key, NULL))
    return TRUE;
  for (gsize at = next_key (edit, 0, name); at > 0; at = next_key (edit, at, name)) {
    gsize line = line_begin (edit->text, at), end = at + strcspn (edit->text + at, "\n");

    if (edit->form == PS_LAUNCH_WORDS  ? remove_words (edit, at, name)
        : edit->form == PS_LAUNCH_YAML ? set_line (edit, at, truth ? "false" : "null", name, NULL)
                                       : try_place (edit, line, end + (edit->text[end] == '\n'), "", name, NULL))
      return TRUE;
  }
  return FALSE;
}

/* Adds the words after an option, on a line of their own where the option has one. */
static gboolean add_after (Edit *edit, gsize at, const char *after, const char *words, const char *name,
                           const char *value)
{
  g_autoptr (GArray) ends = list_ends (edit->text, at);
  gsize line = line_begin (edit->text, at), indent = strspn (edit->text + line, " \t");
  gboolean own = line + indent + strlen (after) + 2 == at || edit->form != PS_LAUNCH_WORDS;
  g_autofree char *inserted = g_strdup_printf ("\n%.*s%s", (int)indent, edit->text + line, words);
  g_autofree char *continued = g_strconcat (" \\", inserted, NULL), *inline_words = g_strconcat (" ", words, NULL);

  for (guint i = 0; i < (edit->form == PS_LAUNCH_WORDS ? ends->len : 1); i++) {
    const gsize end = g_array_index (ends, gsize, i);
    const gboolean last = strcspn (edit->text + end, "\n") <= strspn (edit->text + end, " \t\\"); /* of its line */
    const gboolean continues = strchr (edit->text + end, '\\') == edit->text + end + strspn (edit->text + end, " \t")
                               || (line > 1 && edit->text[line - 2] == '\\');

    if ((own && last && !continues && try_place (edit, end, end, inserted, name, value))
        || (own && last && edit->form == PS_LAUNCH_WORDS && try_place (edit, end, end, continued, name, value))
        || (edit->form == PS_LAUNCH_WORDS && try_place (edit, end, end, inline_words, name, value)))
      return TRUE;
  }
  return FALSE;
}

typedef struct {
  char *name;
  guint distance; /* rows in the table of keys */
} Neighbour;

static void neighbour_clear (gpointer data)
{
  g_free (((Neighbour *)data)->name);
}

static int compare_neighbours (gconstpointer a, gconstpointer b)
{
  return PS_COMPARE (((const Neighbour *)a)->distance, ((const Neighbour *)b)->distance);
}

/* The settings of the file, the one whose row is next to a key's first; in TOML those of its section. Free with
 * g_array_unref. */
static GArray *list_neighbours (const Edit *edit, const char *key)
{
  const PsKeyRow *row = ps_launch_key_row (edit->form, key);
  const gsize section = edit->form == PS_LAUNCH_TOML ? (gsize)(short_name (edit->form, key) - key) : 0;
  GArray *neighbours = g_array_new (FALSE, FALSE, sizeof (Neighbour));

  g_array_set_clear_func (neighbours, neighbour_clear);
  for (guint i = edit->keys->len; i-- > 0 && row != NULL;) {
    const char *name = ((PsLaunchKey *)edit->keys->pdata[i])->key;
    const PsKeyRow *its = ps_launch_key_row (edit->form, name);

    if (*fact_of (edit->form, name) != '\0' && strncmp (key, name, section) == 0) {
      const Neighbour neighbour = { g_strdup (name), (guint)ABS (its - row) };

      g_array_append_val (neighbours, neighbour);
    }
  }
  g_array_sort (neighbours, compare_neighbours);
  return neighbours;
}

static gboolean add_json (Edit *edit, const char *key, const char *words, const char *value)
{
  g_autofree char *section = g_strndup (key, (gsize)(short_name (edit->form, key) - key));
  gsize n = strlen (section);
  const char *brace = strchr (edit->text, '{');
  g_autofree char *outer = n > 0 ? g_strdup_printf ("\"%.*s\"", (int)n - 1, section) : NULL;
  const char *within = outer != NULL ? strstr (edit->text, outer) : NULL,
             *inner = within != NULL ? strchr (within, '{') : NULL;
  g_autofree char *item = inner != NULL ? g_strdup_printf (" %s,", words)
                          : n > 0       ? g_strdup_printf ("\n  %s: { %s },", outer, words)
                                        : g_strdup_printf ("\n  %s,", words);
  gsize at = inner != NULL ? (gsize)(inner - edit->text) + 1 : brace != NULL ? (gsize)(brace - edit->text) + 1 : 0;

  /* All else is said in Python. */
  return brace != NULL && (n > 0 || g_str_has_prefix (key, "train_") || g_str_has_prefix (key, "gradient_"))
         && try_place (edit, at, at, item, key, value);
}

/* Whether the place is in a branch or a loop of a script. */
static gboolean is_conditional (const char *text, gsize at)
{
  static const char *const opening[] = { "if", "case", "for", "while", "until", NULL };
  static const char *const closing[] = { "fi", "esac", "done", NULL };
  int depth = 0;

  for (gsize line = 0; line < at; line += strcspn (text + line, "\n") + 1) {
    const char *word = text + line + strspn (text + line, " \t");
    g_autofree char *first = g_strndup (word, strspn (word, G_CSET_a_2_z));
    const char *rest = word + strcspn (word, "\n"), *end = g_strstr_len (word, rest - word, "; fi");

    depth += g_strv_contains (opening, first) && end == NULL;
    depth -= g_strv_contains (closing, first);
  }
  return depth > 0;
}

/* Adds a key that the file does not have, after the one that is next to it in the table of keys. */
static gboolean add_key (Edit *edit, const char *key, const char *value)
{
  g_autofree char *words = spell_key (edit, key, value), *spelled = spell (edit->form, value);
  g_autoptr (GArray) neighbours = list_neighbours (edit, key);

  if (edit->form == PS_LAUNCH_JSON)
    return add_json (edit, key, words, value);
  for (gsize at = next_key (edit, 0, key); at > 0 && edit->form == PS_LAUNCH_YAML; at = next_key (edit, at, key))
    if (set_line (edit, at, spelled, key, value)) /* null until now */
      return TRUE;
  for (guint i = 0; i < MIN (neighbours->len, MOST_NEIGHBOURS); i++) {
    const char *name = g_array_index (neighbours, Neighbour, i).name;

    for (gsize at = next_key (edit, 0, name); at > 0; at = next_key (edit, at, name))
      if (!is_conditional (edit->text, at) && add_after (edit, at, name, words, key, value))
        return TRUE;
  }
  if (edit->form != PS_LAUNCH_TOML)
    return FALSE;
  gsize end = strlen (edit->text);
  g_autofree char *section = g_strndup (key, (gsize)(short_name (edit->form, key) - key));
  g_autofree char *block = g_strdup_printf ("%s\n[%.*s]\n%s\n", end > 0 && edit->text[end - 1] != '\n' ? "\n" : "",
                                            (int)MAX (strlen (section), 1) - 1, section, words);
  return try_place (edit, end, end, block, key, value);
}

/* All changes */

/* A key of the new launch as the file says such things: in virtual stages where it counts those. */
static void adapt (const PsLaunchEdit *change, const Edit *edit, const char **key, char **value)
{
  static const char chunks[] = "virtual_pipeline_model_parallel_size";

  if (g_str_equal (fact_of (edit->form, *key), "chunks.layers")
      && (change->bridge || find_key (edit->form, edit->keys, chunks) != NULL)) {
    *key = chunks;
    g_free (*value);
    *value = g_strdup_printf ("%u", change->n_chunks);
  }
}

/* Sets or adds a key; one of another name that says the same goes. */
static gboolean put (Edit *edit, const char *key, const char *value)
{
  const PsLaunchKey *there = find_key (edit->form, edit->keys, key);

  edit->n_trials = 0;
  if (there != NULL && ps_launch_key_row (edit->form, there->key) != ps_launch_key_row (edit->form, key)) {
    if (!remove_key (edit, there))
      return FALSE;
    there = NULL;
  }
  return there != NULL ? set_value (edit, there, value) : add_key (edit, key, value);
}

static gboolean take_off (Edit *edit, const char *key)
{
  const PsLaunchKey *there = find_key (edit->form, edit->keys, key);

  edit->n_trials = 0;
  return there == NULL || remove_key (edit, there);
}

static void add_flag (GString *flags, const Edit *edit, gboolean goes, const char *key, const char *value)
{
  g_autofree char *words = spell_key (edit, key, goes ? "" : value);

  g_string_append_printf (flags, "%s%s%.*s", flags->len > 0 ? ", " : "", goes ? "without " : "",
                          (int)(goes && *words != '-' ? strcspn (words, " :") : strlen (words)), words);
}

/* Whether facts are about the same option of pipesim: "chunks" and "chunks.layers". Lists of modules say the chunks. */
static gboolean is_about (const char *fact, const char *other)
{
  const gsize n = strcspn (fact, ".");

  return (n > 0 && n == strcspn (other, ".") && strncmp (fact, other, n) == 0)
         || (g_str_has_prefix (fact, "chunks") && g_str_equal (other, "layout.parts"));
}

/* Takes the keys off that say what the new launch says by others; changed: names of keys. */
static gboolean clean (Edit *edit, const GPtrArray *changed, const GPtrArray *after, GString *flags)
{
  gboolean done = TRUE;

  for (guint i = edit->keys->len; i-- > 0;) {
    g_autofree char *key = i < edit->keys->len ? g_strdup (((PsLaunchKey *)edit->keys->pdata[i])->key) : NULL;
    gboolean goes = FALSE;

    for (guint k = 0; key != NULL && k < changed->len; k++)
      goes |= is_about (fact_of (edit->form, key), fact_of (edit->form, changed->pdata[k]));
    for (guint k = 0; goes && k < changed->len; k++)
      goes = !is_same (edit->form, key, changed->pdata[k]);
    if (!goes || find_key (edit->form, after, key) != NULL)
      continue;
    add_flag (flags, edit, TRUE, key, NULL);
    done &= edit->form == PS_LAUNCH_LOG || take_off (edit, key);
  }
  return done;
}

/* Whether torchtitan finds the key's value by its GPUs, in the file and after the change. */
static gboolean follows_gpus (const Edit *edit, const GPtrArray *after, const char *key)
{
  const PsLaunchKey *there = find_key (edit->form, edit->keys, key);

  return g_str_equal (key, "parallelism.data_parallel_shard_degree") && (there == NULL || is_value (there, "-1"))
         && is_value (find_named (after, "parallelism.data_parallel_replicate_degree"), "1");
}

char *ps_launch_edit (const PsLaunchEdit *change, GString *flags)
{
  g_auto (Edit) edit = { .where = change->where, .form = change->form, .text = g_strdup (change->text) };
  g_autoptr (GPtrArray) before = ps_launch_keys ("before", change->before, ps_launch_form (change->before), NULL);
  g_autoptr (GPtrArray) after = ps_launch_keys ("after", change->after, ps_launch_form (change->after), NULL);
  g_autoptr (GPtrArray) changed = g_ptr_array_new_with_free_func (g_free);
  const gboolean log = edit.form == PS_LAUNCH_LOG;
  /* DeepSpeed's JSON in words of Megatron-LM: what no word says follows from others, or its reader finds it missing. */
  const gboolean other = edit.form == PS_LAUNCH_WORDS && ps_launch_form (change->before) == PS_LAUNCH_JSON;
  gboolean done = !log;

  if (strlen (edit.text) <= MOST_BYTES)
    edit.keys = ps_launch_keys (edit.where, edit.text, edit.form, NULL);
  if (edit.keys == NULL || before == NULL || after == NULL)
    return NULL;
  const PsLaunchKey *degree = find_named (after, "parallelism.pipeline_parallel_degree");
  for (guint i = 0; i < before->len; i++) {
    const PsLaunchKey *was = before->pdata[i];

    if (find_named (after, was->key) != NULL)
      continue;
    g_ptr_array_add (changed, g_strdup (was->key));
    if (find_key (edit.form, edit.keys, was->key) == NULL)
      continue;
    add_flag (flags, &edit, TRUE, was->key, NULL);
    done &= log || take_off (&edit, was->key);
  }
  for (guint i = 0; i < after->len; i++) {
    const PsLaunchKey *now = after->pdata[i], *was = find_named (before, now->key);
    const char *key = now->key;
    g_autofree char *value = g_strdup (now->value);
    /* Without a pipeline torchtitan adds up gradients by its batch alone. */
    gboolean says_batch = g_str_equal (now->key, "training.global_batch_size") && is_value (degree, "1")
                          && find_key (edit.form, edit.keys, now->key) == NULL;

    if ((was != NULL && g_str_equal (was->value, now->value) && !says_batch) || follows_gpus (&edit, after, now->key))
      continue;
    adapt (change, &edit, &key, &value);
    g_ptr_array_add (changed, g_strdup (key));
    add_flag (flags, &edit, FALSE, key, value);
    done &= log || (other && find_key (edit.form, edit.keys, key) == NULL) || put (&edit, key, value);
  }
  done &= clean (&edit, changed, after, flags);
  return done ? g_steal_pointer (&edit.text) : NULL;
}

/* Differences of lines */

char *ps_launch_diff (const char *where, const char *from, const char *to)
{
  g_auto (GStrv) a = g_strsplit (from, "\n", -1), b = g_strsplit (to, "\n", -1);
  guint n_a = g_strv_length (a), n_b = g_strv_length (b), n = n_b + 1, i = 0, k = 0;
  GString *text = g_string_new (NULL);

  if (n_a > MOST_LINES || n_b > MOST_LINES)
    return g_string_free (text, FALSE);
  g_autofree guint16 *alike = g_new0 (guint16, (gsize)(n_a + 1) * n); /* lines in common from there on */
  for (guint x = n_a; x-- > 0;)
    for (guint y = n_b; y-- > 0;)
      alike[x * n + y] = g_str_equal (a[x], b[y]) ? (guint16)(alike[(x + 1) * n + y + 1] + 1)
                                                  : MAX (alike[(x + 1) * n + y], alike[x * n + y + 1]);
  g_string_append_printf (text, "--- %s\n+++ %s\n", where, where);
  while (i < n_a || k < n_b) {
    guint x = i, y = k;

    if (i < n_a && k < n_b && g_str_equal (a[i], b[k])) {
      i++;
      k++;
      continue;
    }
    while (x < n_a || y < n_b)
      if (x < n_a && y < n_b && g_str_equal (a[x], b[y]))
        break;
      else if (y == n_b || (x < n_a && alike[(x + 1) * n + y] >= alike[x * n + y + 1]))
        x++;
      else
        y++;
    g_string_append_printf (text, "@@ -%u,%u +%u,%u @@\n", i + (x > i), x - i, k + (y > k), y - k);
    for (; i < x; i++)
      g_string_append_printf (text, "-%s\n", a[i]);
    for (; k < y; k++)
      g_string_append_printf (text, "+%s\n", b[k]);
  }
  return g_string_free (text, FALSE);
}
