/* launch-text.c - reads the files that start a training run as lists of keys and values: logs, TOML, YAML and JSON.
 * launch-shell.c reads scripts. */
#include "launch-text.h"

#include "base/json.h"
#include "base/text.h"

#include <string.h>

#define MAX_TEXT (16 << 20)
#define MAX_WORDS (1 << 16)
#define MAX_DEPTH 64
#define MAX_VALUE 4096
#define MAX_ROUNDS 8 /* of replacing within a value */

static char *unquote (const char *text)
{
  gsize n = strlen (text);
  gboolean quoted = n > 1 && (*text == '"' || *text == '\'') && text[n - 1] == *text;

  return quoted ? g_strndup (text + 1, n - 2) : g_strdup (text);
}

static GRegex *log_line (void)
{
  return g_regex_new ("(?:^|[\\s:\\]>])([a-z][a-z0-9_]*) \\.{2,} (.*)$", G_REGEX_OPTIMIZE, 0, NULL);
}

static void read_log (char **lines, GPtrArray *keys)
{
  g_autoptr (GRegex) row = log_line ();

  for (guint i = 0; lines[i] != NULL; i++) {
    g_autoptr (GMatchInfo) match = NULL;

    if (!g_regex_match (row, lines[i], 0, &match))
      continue;
    g_autofree char *value = g_match_info_fetch (match, 2);
    ps_launch_add_key (keys, g_match_info_fetch (match, 1), value, i + 1);
  }
}

/* Cuts a comment off, which begins with # outside quotes, and blanks. */
static void cut_comment (char *line)
{
  char quote = '\0';

  for (char *at = line; *at != '\0'; at++)
    if (quote != '\0')
      quote = *at == quote ? '\0' : quote;
    else if (*at == '"' || *at == '\'')
      quote = *at;
    else if (*at == '#' && (at == line || g_ascii_isspace (at[-1]))) {
      *at = '\0';
      break;
    }
  g_strchomp (line);
}

/* The brackets that are open at the end of the text. */
static int count_brackets (const char *text)
{
  int n = 0;
  char quote = '\0';

  for (; *text != '\0'; text++)
    if (quote != '\0' || *text == '"' || *text == '\'')
      quote = quote == '\0' ? *text : *text == quote ? '\0' : quote;
    else
      n += (strchr ("[{", *text) != NULL) - (strchr ("]}", *text) != NULL);
  return n;
}

/* Adds the keys of "{a: 1, b: {c: 2}}", or with = of TOML, below a prefix. FALSE: it is no such mapping. */
static gboolean add_braces (GPtrArray *keys, const char *prefix, const char *text, char sign, guint line)
{
  const gsize n = strlen (text);
  const char *end = text + n - 1;

  if (n < 2 || *text != '{' || *end != '}' || count_brackets (text) != 0 || strlen (prefix) > 1000)
    return FALSE;
  for (const char *at = text + 1; at < end;) {
    g_autoptr (GString) item = g_string_new (NULL);

    for (; at < end && (*at != ',' || count_brackets (item->str) > 0); at++)
      g_string_append_c (item, *at);
    at += at < end;
    char *colon = strchr (g_strstrip (item->str), sign);
    if (*item->str == '\0')
      continue;
    if (colon == NULL)
      return FALSE;
    *colon = '\0';
    g_autofree char *name = unquote (g_strchomp (item->str)), *key = g_strconcat (prefix, name, NULL);
    char *value = g_strstrip (colon + 1);
    g_autofree char *inner = g_strconcat (key, ".", NULL), *plain = unquote (value);
    if (*value != '{')
      ps_launch_add_key (keys, g_steal_pointer (&key), plain, line);
    else if (!add_braces (keys, inner, value, sign, line))
      return FALSE;
  }
  return TRUE;
}

static gboolean read_toml (const char *where, char **lines, GPtrArray *keys, GError **error)
{
  g_autofree char *section = g_strdup ("");

  for (guint i = 0; lines[i] != NULL; i++) {
    const guint number = i + 1;

    cut_comment (lines[i]);
    char *line = g_strchug (lines[i]), *equals = strchr (line, '=');
    gsize n = strlen (line);

    if (n == 0)
      continue;
    if (*line == '[' && line[n - 1] == ']' && equals == NULL) { /* [[section]]: an element of a list */
      gsize brackets = line[1] == '[' && n > 3 ? 2 : 1;

      g_free (section);
      section = g_strstrip (g_strndup (line + brackets, n - 2 * brackets));
      continue;
    }
    if (equals == NULL)
      return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: expected [section] or key = value", where, number);
    *equals = '\0';
    g_autoptr (GString) value = g_string_new (g_strstrip (equals + 1));
    int open = count_brackets (value->str);
    for (; open > 0 && lines[i + 1] != NULL; open += count_brackets (lines[i])) {
      cut_comment (lines[++i]);
      g_string_append (value, g_strchug (lines[i]));
    }
    g_autofree char *name = unquote (g_strchomp (line)), *plain = unquote (value->str);
    g_autofree char *key = *section != '\0' ? g_strconcat (section, ".", name, NULL) : g_strdup (name);
    g_autofree char *prefix = g_strconcat (key, ".", NULL);
    gboolean text = g_str_has_prefix (value->str, "\"\"\"") || g_str_has_prefix (value->str, "'''");
    if (text) { /* up to the same three quotes */
      g_autofree char *quotes = g_strndup (value->str, 3);

      if (strstr (value->str + 3, quotes) == NULL)
        for (i++; lines[i] != NULL && strstr (lines[i], quotes) == NULL;)
          i++;
      if (lines[i] == NULL)
        return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: a text has no end", where, number);
    } else if (value->len == 0 || open != 0
               || (*value->str == '{' && !add_braces (keys, prefix, value->str, '=', number)))
      return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: %s has no value that is read", where, number, name);
    else if (*value->str != '{')
      ps_launch_add_key (keys, g_steal_pointer (&key), plain, number);
  }
  return TRUE;
}

/* A mapping of YAML that is open. */
typedef struct {
  gsize indent;
  char *prefix; /* "model." */
} Level;

typedef struct {
  const char *where;
  guint line;
  GPtrArray *keys;
  GHashTable *anchors; /* name -> prefix of a mapping, or "=value" */
  Level levels[MAX_DEPTH];
  guint n_levels;
  gboolean in_text; /* lines of a block of text, indented more than its key */
  gsize text_indent;
} Yaml;

/* Adds the keys of an anchor's mapping below a prefix; those that are there already stay. */
static gboolean merge (const Yaml *yaml, const char *from, const char *prefix)
{
  const guint n = yaml->keys->len;

  for (guint i = 0; i < n && n < MAX_WORDS; i++) {
    const PsLaunchKey *key = yaml->keys->pdata[i];
    g_autofree char *name = NULL;
    gboolean there = FALSE;

    if (!g_str_has_prefix (key->key, from))
      continue;
    name = g_strconcat (prefix, key->key + strlen (from), NULL);
    for (guint k = 0; k < n && !there; k++)
      there = g_str_equal (((PsLaunchKey *)yaml->keys->pdata[k])->key, name);
    if (!there)
      ps_launch_add_key (yaml->keys, g_steal_pointer (&name), key->value, yaml->line);
  }
  return n < MAX_WORDS;
}

/* A value with its anchor, or an alias; opens a mapping where there is none. */
static gboolean read_yaml_value (Yaml *yaml, gsize indent, const char *name, const char *value, GError **error)
{
  const Level *level = &yaml->levels[yaml->n_levels - 1];
  g_autofree char *key = g_strconcat (level->prefix, name, NULL), *anchor = NULL;

  if (*value == '&') {
    gsize n = strcspn (++value, " ");

    anchor = g_strndup (value, n);
    value += n + strspn (value + n, " ");
  }
  if (*value == '*') {
    const char *target = g_hash_table_lookup (yaml->anchors, value + 1);
    g_autofree char *prefix = g_str_equal (name, "<<") ? g_strdup (level->prefix) : g_strconcat (key, ".", NULL);

    if (target == NULL)
      return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: '%s' has no anchor before it", yaml->where, yaml->line, value);
    if (*target == '=')
      ps_launch_add_key (yaml->keys, g_steal_pointer (&key), target + 1, yaml->line);
    else if (!merge (yaml, target, prefix))
      return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: too many keys", yaml->where, yaml->line);
    return TRUE;
  }
  if (*value == '!') { /* a tag */
    value += strcspn (value, " ");
    value += strspn (value, " ");
  }
  if (*value != '\0' && strchr ("%@`", *value) != NULL)
    return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: %s: values that begin with %c are not read", yaml->where,
                      yaml->line, name, *value);
  if (*value == '|' || *value == '>') {
    yaml->in_text = TRUE;
    yaml->text_indent = indent;
    return TRUE;
  }
  if (*value == '{') {
    g_autofree char *prefix = g_strconcat (key, ".", NULL);

    if (anchor != NULL)
      g_hash_table_replace (yaml->anchors, g_steal_pointer (&anchor), g_strdup (prefix));
    return add_braces (yaml->keys, prefix, value, ':', yaml->line)
           || ps_refuse (error, PS_ERROR_INPUT, "%s:%u: %s: a mapping in braces that is not read", yaml->where,
                         yaml->line, name);
  }
  if (*value == '\0') {
    if (yaml->n_levels == MAX_DEPTH)
      return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: nested too deep", yaml->where, yaml->line);
    yaml->levels[yaml->n_levels++] = (Level){ indent, g_strconcat (key, ".", NULL) };
    if (anchor != NULL)
      g_hash_table_replace (yaml->anchors, g_steal_pointer (&anchor), g_strconcat (key, ".", NULL));
    return TRUE;
  }
  g_autofree char *plain = unquote (value);
  if (anchor != NULL)
    g_hash_table_replace (yaml->anchors, g_steal_pointer (&anchor), g_strconcat ("=", plain, NULL));
  ps_launch_add_key (yaml->keys, g_steal_pointer (&key), plain, yaml->line);
  return TRUE;
}

/* An element of a list belongs to the key above it, as a further word of its value. */
static void add_yaml_element (Yaml *yaml, const char *text)
{
  const char *prefix = yaml->levels[yaml->n_levels - 1].prefix;
  PsLaunchKey *last = yaml->keys->len > 0 ? yaml->keys->pdata[yaml->keys->len - 1] : NULL;
  g_autofree char *key = g_strndup (prefix, strlen (prefix) - (*prefix != '\0')), *plain = unquote (text);

  if (last == NULL || !g_str_equal (last->key, key)) {
    ps_launch_add_key (yaml->keys, g_steal_pointer (&key), plain, yaml->line);
    return;
  }
  char *joined = g_strconcat (last->value, " ", plain, NULL);
  g_free (last->value);
  last->value = joined;
}

static gboolean read_yaml_line (Yaml *yaml, char *line, GError **error)
{
  cut_comment (line);
  gsize indent = strspn (line, " ");
  char *text = line + indent, *colon = NULL;

  if (*text == '\0' || g_str_equal (line, "---") || *line == '%')
    return TRUE;
  yaml->in_text &= indent > yaml->text_indent;
  if (yaml->in_text)
    return TRUE;
  gboolean element = g_str_has_prefix (text, "- ") || g_str_equal (text, "-");
  while (yaml->n_levels > 1
         && (element ? indent < yaml->levels[yaml->n_levels - 1].indent
                     : indent <= yaml->levels[yaml->n_levels - 1].indent))
    g_free (yaml->levels[--yaml->n_levels].prefix);
  if (element) {
    add_yaml_element (yaml, g_strstrip (text + 1));
    return TRUE;
  }
  for (char *at = text; *at != '\0' && colon == NULL; at++)
    colon = *at == ':' && (at[1] == ' ' || at[1] == '\0') ? at : NULL;
  if (colon == NULL && yaml->keys->len > 0 && indent > yaml->levels[yaml->n_levels - 1].indent)
    return TRUE; /* a value goes on */
  if (colon == NULL || strchr ("\t?%{[", *text) != NULL || colon == text)
    return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: expected key: value, indented by blanks", yaml->where, yaml->line);
  *colon = '\0';
  g_autofree char *name = unquote (g_strchomp (text)), *rest = NULL;
  if (g_str_has_prefix (name, "--")) { /* an option of the command line */
    rest = name;
    name = g_strdelimit (g_strdup (rest + 2), "-", '_');
  }
  return read_yaml_value (yaml, indent, name, g_strstrip (colon + 1), error);
}

/* Replaces "${key}" by the value of that key, and "${NAME:otherwise}" of the environment by the other value. */
static void resolve_yaml (GPtrArray *keys)
{
  for (guint i = 0; i < keys->len; i++) {
    PsLaunchKey *key = keys->pdata[i];

    for (guint round = 0; round < MAX_ROUNDS && key->unknown == NULL; round++) {
      const char *open = strstr (key->value, "${"), *close = open != NULL ? strchr (open, '}') : NULL;

      if (close == NULL)
        break;
      g_autofree char *name = g_strndup (open + 2, (gsize)(close - open - 2)), *before = key->value;
      const char *colon = strchr (name, ':'), *value = colon != NULL ? colon + 1 + (colon[1] == '-') : NULL;
      for (guint k = 0; k < keys->len && value == NULL; k++)
        if (k != i && g_str_equal (((PsLaunchKey *)keys->pdata[k])->key, name))
          value = ((PsLaunchKey *)keys->pdata[k])->value;
      if (value == NULL || strlen (before) > MAX_VALUE || strlen (value) > MAX_VALUE)
        key->unknown = g_strdup_printf ("%s is not set here", name);
      key->value = g_strdup_printf ("%.*s%s%s", (int)(open - before), before, value != NULL ? value : "", close + 1);
    }
  }
}

static gboolean read_yaml (const char *where, char **lines, GPtrArray *keys, GError **error)
{
  g_autoptr (GHashTable) anchors = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  Yaml yaml = { .where = where, .keys = keys, .anchors = anchors, .levels = { { 0, g_strdup ("") } }, .n_levels = 1 };
  gboolean done = TRUE;

  for (guint i = 0; done && lines[i] != NULL; i++) {
    yaml.line = i + 1;
    done = read_yaml_line (&yaml, lines[i], error);
  }
  while (yaml.n_levels > 0)
    g_free (yaml.levels[--yaml.n_levels].prefix);
  resolve_yaml (keys);
  return done;
}

/* Objects in objects become "outer.inner"; arrays are left out. */
static void read_json_object (PsJsonReader *reader, const char *prefix, GPtrArray *keys)
{
  const char *key;

  for (key = ps_json_next_key (reader); key != NULL; key = ps_json_next_key (reader)) {
    g_autofree char *name = g_strconcat (prefix, key, NULL);
    g_autofree char *inner = g_strconcat (name, ".", NULL);
    const char *text;
    double number;
    gboolean truth;

    if (ps_json_enter_object (reader))
      read_json_object (reader, inner, keys);
    else if (ps_json_read_text (reader, &text))
      ps_launch_add_key (keys, g_steal_pointer (&name), g_str_equal (text, "auto") ? "null" : text, 0);
    else if (ps_json_read_number (reader, &number)) {
      char digits[G_ASCII_DTOSTR_BUF_SIZE];

      ps_launch_add_key (keys, g_steal_pointer (&name), g_ascii_formatd (digits, sizeof digits, "%.17g", number), 0);
    } else if (ps_json_read_boolean (reader, &truth))
      ps_launch_add_key (keys, g_steal_pointer (&name), truth ? "true" : "false", 0);
    else
      ps_json_skip_value (reader);
  }
}

/* The object, and before it the lines "name=1" of what ps_launch_write prints for Python. */
static gboolean read_json (const char *where, const char *text, GPtrArray *keys, GError **error)
{
  g_auto (PsJsonReader) reader = { 0 };
  const char *brace = strstr (text, "\n{");
  g_autofree char *before = g_strndup (text, brace != NULL ? (gsize)(brace - text) : 0);
  g_autoptr (GRegex) row = g_regex_new ("\\b([a-z_]+)=(\\[[0-9, ]*|[0-9]+)", 0, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;

  for (g_regex_match (row, before, 0, &match); g_match_info_matches (match); g_match_info_next (match, NULL)) {
    g_autofree char *value = g_match_info_fetch (match, 2);

    ps_launch_add_key (keys, g_match_info_fetch (match, 1), value + (*value == '['), 0);
  }
  if (!ps_json_reader_init (&reader, where, brace != NULL ? brace + 1 : text, -1, error))
    return FALSE;
  if (ps_json_enter_object (&reader))
    read_json_object (&reader, "", keys);
  return TRUE;
}

/* Whether the text is an object of JSON, after comments and lines "name=1". */
static gboolean is_json (const char *text)
{
  while (*text == '#' || g_ascii_isspace (*text) || g_ascii_islower (*text))
    text += g_ascii_isspace (*text) ? 1 : strcspn (text, "\n");
  return *text == '{';
}

PsLaunchForm ps_launch_form (const char *text)
{
  static const struct {
    PsLaunchForm form;
    const char *pattern;
  } forms[] = {
    { PS_LAUNCH_WORDS, "\\A.*#!.*sh\\b" },
    { PS_LAUNCH_NONE, "^\\s*(layers\\s*=|hidden\\s*=)" },
    { PS_LAUNCH_LOG, "(?:^|[\\s:\\]>])(hidden_size|micro_batch_size|tensor_model_parallel_size) \\.{2,} " },
    { PS_LAUNCH_TOML, "^\\s*\\[(training|parallelism|job|model|activation_checkpoint)\\]\\s*(#.*)?$" },
    { PS_LAUNCH_YAML, "^\\s*--[a-z][a-z0-9-]*:\\s" },
    { PS_LAUNCH_YAML, "\\A(\\s*(#.*)?\\n)*(---|[A-Za-z_][A-Za-z0-9_]*:\\s*(#.*|&.*|\\w+)?$)" },
    { PS_LAUNCH_WORDS, "^(?![ \t]*#)(.*[\\s\"'(])?--[a-z]" },
    { PS_LAUNCH_YAML, "^\\s*[A-Za-z_\"'][A-Za-z0-9_\"'.-]*:(\\s|$)" },
  };

  if (is_json (text)) {
    g_autoptr (GRegex) deepspeed = g_regex_new (
        "\"(train_batch_size|train_micro_batch_size_per_gpu|zero_optimization|gradient_accumulation_steps)\"\\s*:", 0,
        0, NULL);

    return g_regex_match (deepspeed, text, 0, NULL) ? PS_LAUNCH_JSON : PS_LAUNCH_NONE;
  }
  for (guint i = 0; i < G_N_ELEMENTS (forms); i++) {
    g_autoptr (GRegex) regex = g_regex_new (forms[i].pattern, G_REGEX_MULTILINE, 0, NULL);

    if (g_regex_match (regex, text, 0, NULL))
      return forms[i].form;
  }
  return PS_LAUNCH_NONE;
}

/* Whether the word after this one is its value: after options of sbatch with one letter, but for a few. */
static gboolean is_value (const char *before)
{
  return before[0] == '-' && g_ascii_isalpha (before[1]) && before[2] == '\0' && strchr ("HkOQsvW", before[1]) == NULL;
}

gboolean ps_launch_open (const char *command, char **text, gsize *length, GError **error)
{
  static const char *const shells[] = { "bash", "sh", "sbatch", "source", ".", NULL };
  static const char *const launchers[] = { "torchrun", "python", "python3", "deepspeed", "srun", NULL };
  g_autoptr (GString) first = g_string_new (NULL);
  g_auto (GStrv) words = NULL;
  g_autofree char *script = NULL;

  if (strchr (command, ' ') == NULL || g_file_test (command, G_FILE_TEST_EXISTS)
      || !g_shell_parse_argv (command, NULL, &words, NULL))
    return ps_read_file (command, text, length, error);
  char **word = words;
  for (; *word != NULL && strchr (*word, '=') != NULL && g_ascii_isalpha (**word); word++) {
    gsize n = strcspn (*word, "=");
    g_autofree char *value = g_shell_quote (*word + n + 1);

    g_string_append_printf (first, "%.*s=%s; ", (int)n, *word, value);
  }
  if (*word != NULL && g_strv_contains (launchers, *word)) {
    *length = strlen (command);
    *text = g_strdup (command);
    return TRUE;
  }
  char **shell = word;
  while (*word != NULL && (g_strv_contains (shells, *word) || **word == '-'))
    word++;
  if (g_strcmp0 (*shell, "sbatch") == 0) { /* the script is the first word that is a file; those before are options */
    char **other = word;

    while (*other != NULL && (is_value (other[-1]) || !g_file_test (*other, G_FILE_TEST_IS_REGULAR)))
      other++;
    word = *other != NULL || g_strv_length (word) > 1 ? other : word;
    for (; shell < word; shell++) {
      g_autofree char *quoted = g_shell_quote (*shell);

      g_string_append_printf (first, "%s%s", quoted, shell + 1 < word ? " " : "; ");
    }
  }
  if (*word == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s' names no file", command);
  if (!ps_read_file (*word, &script, length, error))
    return FALSE;
  if (ps_launch_form (script) != PS_LAUNCH_WORDS)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: takes no arguments; a script does", *word);
  g_string_append (first, "set --");
  for (word++; *word != NULL; word++) {
    g_autofree char *value = g_shell_quote (*word);

    g_string_append_printf (first, " %s", value);
  }
  g_string_append_printf (first, "; %s", script);
  *length = first->len;
  *text = g_string_free (g_steal_pointer (&first), FALSE);
  return TRUE;
}

/* Options of a script, which win over its here-documents for DeepSpeed. */
static void read_script (const char *where, const char *text, GPtrArray *keys)
{
  g_autoptr (GPtrArray) documents = g_ptr_array_new_with_free_func (g_free);
  GPtrArray *options = ps_launch_keys_new ();

  ps_launch_read_shell (text, options, documents);
  for (guint i = 0; i < documents->len; i++)
    if (ps_launch_form (documents->pdata[i]) == PS_LAUNCH_JSON)
      read_json (where, documents->pdata[i], keys, NULL);
  g_ptr_array_extend_and_steal (keys, options);
}

GPtrArray *ps_launch_keys (const char *where, const char *text, PsLaunchForm form, GError **error)
{
  g_autoptr (GPtrArray) keys = ps_launch_keys_new ();
  g_auto (GStrv) lines = NULL;
  gboolean done = TRUE;

  if (!ps_text_check (where, text, strlen (text), MAX_TEXT, error))
    return NULL;
  if (form == PS_LAUNCH_LOG || form == PS_LAUNCH_TOML || form == PS_LAUNCH_YAML)
    lines = g_strsplit (text, "\n", -1);
  if (form == PS_LAUNCH_LOG)
    read_log (lines, keys);
  else if (form == PS_LAUNCH_TOML)
    done = read_toml (where, lines, keys, error);
  else if (form == PS_LAUNCH_YAML)
    done = read_yaml (where, lines, keys, error);
  else if (form == PS_LAUNCH_JSON)
    done = read_json (where, text, keys, error);
  else
    read_script (where, text, keys);
  return done ? g_steal_pointer (&keys) : NULL;
}
