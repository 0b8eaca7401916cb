/* launch-text.c - reads the files that start a training run as lists of keys and values: scripts, logs, TOML, YAML and
 * JSON. A part of a value that only an execution would tell stands in it between UNKNOWN and KNOWN as the reason, with
 * GAP for its blanks. */
#include "launch-text.h"

#include "base/json.h"
#include "base/text.h"

#include <string.h>

#define UNKNOWN '\1'
#define KNOWN '\2'
#define GAP '\3'
#define MAX_TEXT (16 << 20)
#define MAX_WORDS (1 << 16)
#define MAX_DEPTH 64

static void key_free (gpointer data)
{
  PsLaunchKey *key = data;

  g_free (key->key);
  g_free (key->value);
  g_free (key->unknown);
  g_free (key);
}

static GPtrArray *keys_new (void)
{
  return g_ptr_array_new_with_free_func (key_free);
}

/* Adds a key; takes key. Values None and null say nothing. */
static void add_key (GPtrArray *keys, char *key, const char *value, guint line)
{
  PsLaunchKey *added = g_new0 (PsLaunchKey, 1);
  const char *reason = strchr (value, UNKNOWN);

  added->key = key;
  added->value = g_strstrip (g_strdup (value));
  added->line = line;
  if (reason != NULL)
    added->unknown = g_strdelimit (g_strndup (reason + 1, strcspn (reason + 1, "\2")), "\3", ' ');
  if (g_str_equal (added->value, "None") || g_str_equal (added->value, "null"))
    key_free (added);
  else
    g_ptr_array_add (keys, added);
}

/* Shell scripts and lists of arguments */

typedef struct {
  char *text;
  guint line;
} Word;

static void word_free (gpointer data)
{
  Word *word = data;

  g_free (word->text);
  g_free (word);
}

static GPtrArray *words_new (void)
{
  return g_ptr_array_new_with_free_func (word_free);
}

static void words_unref (gpointer words)
{
  g_ptr_array_unref (words);
}

static void add_word (GPtrArray *words, const char *text, gsize length, guint line)
{
  Word *word = g_new (Word, 1);

  word->text = g_strndup (text, length);
  word->line = line;
  if (words->len < MAX_WORDS)
    g_ptr_array_add (words, word);
  else
    word_free (word);
}

/* A branch of if, case or a loop. */
typedef enum {
  MAYBE, /* its condition is not known */
  TAKEN,
  NOT_YET, /* a later branch may be taken */
  NO_MORE, /* an earlier one was */
} Branch;

typedef struct {
  const char *at;
  guint line;
  GHashTable *variables;      /* name -> GPtrArray of Word */
  Branch branches[MAX_DEPTH]; /* around the place */
  guint n_branches;
  gboolean tests;     /* the command is the condition of a branch */
  gboolean chained;   /* it follows && or || */
  GPtrArray *command; /* words of the command with most options */
  guint n_options;
  GPtrArray *bare; /* words of lines that begin with an option */
} Shell;

/* A word that is being read. */
typedef struct {
  GString *text;
  gboolean quoted; /* it is a word though it is empty */
  guint line;
  GPtrArray *out; /* where it goes; NULL: into the text, with what would be further words */
} Building;

static void finish_word (Building *word)
{
  if (word->out != NULL && (word->text->len > 0 || word->quoted)) {
    add_word (word->out, word->text->str, word->text->len, word->line);
    g_string_truncate (word->text, 0);
    word->quoted = FALSE;
  }
}

static void append_unknown (GString *text, const char *name, const char *reason)
{
  g_autofree char *words = g_strdelimit (g_strdup_printf ("%s %s", name, reason), " ", GAP);

  g_string_append_printf (text, "%c%s%c", UNKNOWN, words, KNOWN);
}

/* Goes to after the bracket that closes the one before the place. */
static void skip_brackets (Shell *shell, char open, char close)
{
  for (guint depth = 1; *shell->at != '\0' && depth > 0; shell->at++) {
    depth += *shell->at == open;
    depth -= *shell->at == close;
    shell->line += *shell->at == '\n';
  }
}

/* Appends the value of a variable: its items are words of their own where it is not quoted, or an array. */
static void append_variable (Shell *shell, const char *name, gboolean quoted, gboolean array, const char *otherwise,
                             Building *word)
{
  const GPtrArray *items = g_hash_table_lookup (shell->variables, name);

  if (items == NULL && otherwise != NULL)
    g_string_append (word->text, otherwise);
  else if (items == NULL)
    append_unknown (word->text, name, "is not set here");
  for (guint i = 0; items != NULL && i < items->len && word->text->len < MAX_TEXT; i++) {
    const Word *item = items->pdata[i];

    if (i > 0 && word->out != NULL && (array || !quoted))
      finish_word (word);
    else if (i > 0)
      g_string_append_c (word->text, ' ');
    if (word->out == NULL || quoted) {
      g_string_append (word->text, item->text);
      word->line = array ? item->line : word->line;
      continue;
    }
    word->line = item->line;
    for (const char *at = item->text; *at != '\0'; at++)
      if (g_ascii_isspace (*at))
        finish_word (word);
      else
        g_string_append_c (word->text, *at);
  }
}

/* Sums and products of numbers and variables, from the left as in a shell without brackets. FALSE: it is another. */
static gboolean compute (Shell *shell, const char *text, gint64 *value)
{
  gint64 sum = 0, product = 1, sign = 1;
  char operator= '*';

  for (const char *at = text; TRUE;) {
    char *end;
    gint64 operand;

    at += strspn (at, " ${");
    gsize n = strspn (at, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_");
    g_autofree char *name = g_strndup (at, n);
    const GPtrArray *items = g_hash_table_lookup (shell->variables, name);
    const char *digits = items != NULL && items->len == 1 ? ((Word *)items->pdata[0])->text : name;

    operand = g_ascii_strtoll (digits, &end, 10);
    if (*digits == '\0' || *end != '\0' || ABS (operand) > G_MAXINT || (operand == 0 && operator!= '*'))
      return FALSE;
    product = operator== '*' ? product * operand : operator== '/' ? product / operand : product % operand;
    at += n;
    at += strspn (at, " }");
    if (ABS (product) > G_MAXINT || (*at != '\0' && strchr ("+-*/%", *at) == NULL))
      return FALSE;
    if (*at == '\0' || *at == '+' || *at == '-') {
      sum += sign * product;
      product = 1;
      sign = *at == '-' ? -1 : 1;
    }
    if (*at == '\0')
      break;
    operator= * at == '+' || * at == '-' ? '*' : * at;
    at++;
  }
  *value = sum;
  return TRUE;
}

static char *unquote (const char *text)
{
  gsize n = strlen (text);
  gboolean quoted = n > 1 && (*text == '"' || *text == '\'') && text[n - 1] == *text;

  return quoted ? g_strndup (text + 1, n - 2) : g_strdup (text);
}

/* What stands in ${ }. */
static void expand_braces (Shell *shell, gboolean quoted, Building *word)
{
  const char *begin = shell->at;
  guint line = shell->line;

  skip_brackets (shell, '{', '}');
  g_autofree char *inside = g_strndup (begin, (gsize)(shell->at - begin) - (shell->at > begin && shell->at[-1] == '}'));
  gsize n = strspn (inside, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_");
  g_autofree char *name = g_strndup (inside, n);
  const char *rest = inside + n;
  gboolean array = g_str_has_prefix (rest, "[@]") || g_str_has_prefix (rest, "[*]");

  rest += array ? 3 : 0;
  word->line = word->text->len == 0 ? line : word->line;
  if (n > 0 && (*rest == '\0' || g_str_has_prefix (rest, ":-") || *rest == '-' || g_str_has_prefix (rest, ":="))) {
    g_autofree char *otherwise = *rest == '\0' ? NULL : unquote (rest + (*rest == ':' ? 2 : 1));

    if (otherwise != NULL && strpbrk (otherwise, "$`") != NULL && g_hash_table_lookup (shell->variables, name) == NULL)
      append_unknown (word->text, name, "is not set here");
    else
      append_variable (shell, name, quoted, array, otherwise, word);
  } else
    append_unknown (word->text, n > 0 ? name : inside, "is changed where it is read, which needs a shell");
}

/* What follows a dollar sign. */
static void expand (Shell *shell, gboolean quoted, Building *word)
{
  const char *at = ++shell->at;
  gsize n = strspn (at, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_");

  if (at[0] == '(') {
    gint64 value;

    shell->at++;
    skip_brackets (shell, '(', ')');
    gsize length = (gsize)(shell->at - at);
    g_autofree char *text = g_strndup (at, MIN (length, 40));
    g_autofree char *sum = at[1] == '(' && length > 4 ? g_strndup (at + 2, length - 4) : g_strdup ("");
    g_strdelimit (text, "\n\r\t", ' ');
    g_autofree char *shown = g_strconcat ("$", text, NULL);
    if (at[1] == '(' && compute (shell, sum, &value))
      g_string_append_printf (word->text, "%" G_GINT64_FORMAT, value);
    else
      append_unknown (word->text, shown, at[1] == '(' ? "is not computed here" : "is not run here");
  } else if (at[0] == '{') {
    shell->at++;
    expand_braces (shell, quoted, word);
  } else if (n == 0 || g_ascii_isdigit (*at)) {
    g_autofree char *name
        = g_strndup (shell->at - 1, at[0] != '\0' && strchr ("@*#?$!0123456789", at[0]) != NULL ? 2 : 1);

    shell->at += strlen (name) - 1;
    if (strlen (name) == 1)
      g_string_append_c (word->text, '$');
    else if (name[1] != '@' && name[1] != '*')
      append_unknown (word->text, name, "is not known here");
  } else {
    g_autofree char *name = g_strndup (at, n);

    shell->at += n;
    append_variable (shell, name, quoted, FALSE, NULL, word);
  }
}

/* What stands in double quotes. */
static void read_quoted (Shell *shell, Building *word)
{
  word->quoted = TRUE;
  for (shell->at++; *shell->at != '\0' && *shell->at != '"';) {
    char c = *shell->at;

    if (c == '$') {
      expand (shell, TRUE, word);
      continue;
    }
    if (c == '\\' && shell->at[1] != '\0' && strchr ("\"\\$`\n", shell->at[1]) != NULL)
      c = *++shell->at;
    shell->line += c == '\n';
    if (c == '`')
      append_unknown (word->text, "`...`", "is not run here");
    if (c == '`') {
      shell->at++;
      skip_brackets (shell, '`', '`');
      continue;
    }
    if (c != '\n' || shell->at[-1] != '\\')
      g_string_append_c (word->text, c);
    shell->at++;
  }
  shell->at += *shell->at == '"';
}

/* Reads a word, which may become several; out NULL: it is one, and returned. */
static char *read_word (Shell *shell, GPtrArray *out)
{
  Building word = { .text = g_string_new (NULL), .line = shell->line, .out = out };

  while (*shell->at != '\0' && strchr (" \t\r\n;&|()<>", *shell->at) == NULL && word.text->len < MAX_TEXT) {
    char c = *shell->at;

    if (c == '\\') {
      shell->line += shell->at[1] == '\n';
      if (shell->at[1] != '\n' && shell->at[1] != '\0')
        g_string_append_c (word.text, shell->at[1]);
      shell->at += shell->at[1] != '\0' ? 2 : 1;
    } else if (c == '\'') {
      gsize n = strcspn (++shell->at, "'");

      for (gsize i = 0; i < n; i++)
        shell->line += shell->at[i] == '\n';
      g_string_append_len (word.text, shell->at, (gssize)n);
      shell->at += n + (shell->at[n] == '\'');
      word.quoted = TRUE;
    } else if (c == '"')
      read_quoted (shell, &word);
    else if (c == '$')
      expand (shell, FALSE, &word);
    else if (c == '`') {
      append_unknown (word.text, "`...`", "is not run here");
      shell->at++;
      skip_brackets (shell, '`', '`');
    } else {
      g_string_append_c (word.text, c);
      shell->at++;
    }
  }
  finish_word (&word);
  return g_string_free (word.text, out != NULL);
}

/* Blanks, continued lines, and comments. A comment "# launch: " of ps_launch_write is a command. */
static gboolean skip_blanks (Shell *shell, gboolean lines)
{
  while (TRUE) {
    if (*shell->at == '\\' && shell->at[1] == '\n') {
      shell->at += 2;
      shell->line++;
    } else if (*shell->at == '\\' && shell->at[1] == '\r' && shell->at[2] == '\n') {
      shell->at += 3;
      shell->line++;
    } else if (g_str_has_prefix (shell->at, "# launch: ") && !lines) {
      shell->at += strlen ("# launch: ");
      return TRUE;
    } else if (*shell->at == '#')
      shell->at += strcspn (shell->at, "\n");
    else if (*shell->at == ' ' || *shell->at == '\t' || *shell->at == '\r' || (lines && *shell->at == '\n'))
      shell->line += *shell->at++ == '\n';
    else
      return FALSE;
  }
}

static GPtrArray *read_array (Shell *shell)
{
  GPtrArray *words = words_new ();

  shell->at++;
  for (skip_blanks (shell, TRUE); *shell->at != ')' && *shell->at != '\0'; skip_blanks (shell, TRUE))
    if (strchr (";&|(<>", *shell->at) != NULL)
      shell->at++;
    else
      g_free (read_word (shell, words));
  shell->at += *shell->at == ')';
  return words;
}

static gboolean is_within (const Shell *shell, Branch a, Branch b)
{
  for (guint i = 0; i < shell->n_branches; i++)
    if (shell->branches[i] == a || shell->branches[i] == b)
      return TRUE;
  return FALSE;
}

/* Reads NAME=value, NAME+=value or NAME=( ... ). FALSE: the place holds none. */
static gboolean read_assignment (Shell *shell)
{
  gsize n = strspn (shell->at, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_");
  gboolean more = n > 0 && g_str_has_prefix (shell->at + n, "+=");
  guint line = shell->line;

  if (n == 0 || g_ascii_isdigit (*shell->at) || (!more && shell->at[n] != '='))
    return FALSE;
  g_autofree char *name = g_strndup (shell->at, n);
  GPtrArray *before = g_hash_table_lookup (shell->variables, name);
  g_autoptr (GPtrArray) value = NULL;
  shell->at += n + (more ? 2 : 1);
  if (*shell->at == '(')
    value = read_array (shell);
  else {
    const char *first = more && before != NULL && before->len > 0 ? ((Word *)before->pdata[0])->text : "";
    g_autofree char *rest = read_word (shell, NULL), *text = g_strconcat (first, rest, NULL);

    value = words_new ();
    more = FALSE;
    add_word (value, text, strlen (text), line);
  }
  if (is_within (shell, NOT_YET, NO_MORE))
    return TRUE;
  if (shell->chained || is_within (shell, MAYBE, MAYBE)) {
    g_autoptr (GString) reason = g_string_new (NULL);

    append_unknown (reason, name, "depends on a condition, which is not tried here");
    add_word (value, reason->str, reason->len, line);
  }
  if (more && before != NULL) {
    g_ptr_array_extend_and_steal (before, g_steal_pointer (&value));
    return TRUE;
  }
  g_hash_table_replace (shell->variables, g_steal_pointer (&name), g_steal_pointer (&value));
  return TRUE;
}

/* A here-document is no part of the script, a redirection no argument. */
static void skip_redirection (Shell *shell)
{
  gboolean here = g_str_has_prefix (shell->at, "<<") && shell->at[2] != '<';

  shell->at += strspn (shell->at, "<>&-");
  skip_blanks (shell, FALSE);
  g_autofree char *word = read_word (shell, NULL);
  while (here && *shell->at != '\0') {
    gsize n = strcspn (shell->at, "\n");
    g_autofree char *line = g_strstrip (g_strndup (shell->at, n));

    if (g_str_equal (line, word))
      break;
    shell->at += n + (shell->at[n] == '\n');
    shell->line++;
  }
}

static gboolean is_option (const char *text)
{
  return text[0] == '-' && text[1] == '-' && g_ascii_isalpha (text[2]);
}

/* Takes a command: words that are command lines themselves (of bash -c, eval) are split. */
static void take_command (Shell *shell, const GPtrArray *words, gboolean is_launch)
{
  g_autoptr (GPtrArray) split = words_new ();
  guint n_options = 0;

  for (guint i = 0; i < words->len; i++) {
    const Word *word = words->pdata[i];
    gboolean several = strstr (word->text, " --") != NULL;
    g_auto (GStrv) parts = several ? g_strsplit_set (word->text, " \t\n", -1) : NULL;

    for (char **part = parts; several && *part != NULL; part++)
      if (**part != '\0')
        add_word (split, *part, strlen (*part), word->line);
    if (!several)
      add_word (split, word->text, strlen (word->text), word->line);
  }
  for (guint i = 0; i < split->len; i++)
    n_options += is_option (((Word *)split->pdata[i])->text);
  if (split->len > 0
      && (is_launch || is_option (((Word *)split->pdata[0])->text)
          || g_str_has_prefix (((Word *)split->pdata[0])->text, "activation_checkpoint:")))
    g_ptr_array_extend_and_steal (shell->bare, g_steal_pointer (&split));
  else if (n_options > shell->n_options) {
    g_ptr_array_unref (shell->command);
    shell->command = g_steal_pointer (&split);
    shell->n_options = n_options;
  }
}

/* What a test between [ and ] says of two words. MAYBE: it is another test, or a word is not known. */
static Branch try_condition (const GPtrArray *words)
{
  static const char *const operators[] = { "=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge" };
  const char *word[3] = { NULL };
  guint n = words->len - 2;

  if (words->len < 4 || n > 3 || ((Word *)words->pdata[0])->text[0] != '[')
    return MAYBE;
  for (guint i = 0; i < n; i++) {
    word[i] = ((Word *)words->pdata[i + 1])->text;
    if (strpbrk (word[i], "\1*?") != NULL)
      return MAYBE;
  }
  if (n == 2)
    return g_str_equal (word[0], "-z") || g_str_equal (word[0], "-n")
               ? ((*word[1] == '\0') == (word[0][1] == 'z') ? TAKEN : NOT_YET)
               : MAYBE;
  gint64 a = g_ascii_strtoll (word[0], NULL, 10), b = g_ascii_strtoll (word[2], NULL, 10);
  gboolean same = g_str_equal (word[0], word[2]);
  const gboolean results[] = { same, same, !same, a == b, a != b, a<b, a <= b, a> b, a >= b };
  for (guint i = 0; i < G_N_ELEMENTS (operators); i++)
    if (g_str_equal (word[1], operators[i]))
      return results[i] ? TAKEN : NOT_YET;
  return MAYBE;
}

/* The first word of a command, if it is one of the shell's own. TRUE: another command follows it. */
static gboolean take_keyword (Shell *shell, const char *word)
{
  static const char *const opening[] = { "if", "while", "until", "for", "case", "select", NULL };
  static const char *const closing[] = { "fi", "done", "esac", NULL };
  static const char *const others[] = { "elif",   "then",  "else",    "do",       "{",       "}",   "!",
                                        "export", "local", "declare", "readonly", "typeset", "set", NULL };
  Branch *branch = shell->n_branches > 0 ? &shell->branches[shell->n_branches - 1] : NULL;
  gboolean otherwise = branch != NULL && (g_str_equal (word, "else") || g_str_equal (word, "elif"));

  if (g_strv_contains (opening, word) && shell->n_branches < MAX_DEPTH) {
    shell->branches[shell->n_branches++] = MAYBE;
    shell->tests = g_str_equal (word, "if");
  } else if (g_strv_contains (closing, word) && branch != NULL)
    shell->n_branches--;
  else if (otherwise && *branch == TAKEN)
    *branch = NO_MORE;
  else if (otherwise && *branch == NOT_YET) {
    *branch = word[2] == 's' ? TAKEN : MAYBE;
    shell->tests = word[2] != 's';
  }
  return g_strv_contains (others, word) || g_strv_contains (opening, word) || g_strv_contains (closing, word);
}

/* Reads up to the end of a command, and takes it. */
static void read_command (Shell *shell)
{
  g_autoptr (GPtrArray) words = words_new ();
  gboolean is_launch = FALSE, chained = FALSE;

  while (*shell->at != '\0') {
    is_launch |= skip_blanks (shell, FALSE);
    char c = *shell->at;

    if (c == '\0')
      break;
    if (strchr ("\n;&|", c) != NULL) {
      chained = shell->at[1] == c && (c == '&' || c == '|');
      shell->line += c == '\n';
      shell->at += chained ? 2 : 1;
      break;
    }
    if (c == '<' || c == '>')
      skip_redirection (shell);
    else if (c == '(' || c == ')') { /* of a function, a pattern of case, a shell of its own */
      g_ptr_array_set_size (words, 0);
      shell->at++;
    } else if (words->len > 0 || !read_assignment (shell)) {
      g_free (read_word (shell, words));
      if (words->len == 1 && take_keyword (shell, ((Word *)words->pdata[0])->text))
        g_ptr_array_set_size (words, 0);
    }
  }
  if (shell->tests && shell->n_branches > 0)
    shell->branches[shell->n_branches - 1] = chained || words->len == 0 ? MAYBE : try_condition (words);
  else if (!is_within (shell, NOT_YET, NO_MORE))
    take_command (shell, words, is_launch);
  shell->tests = FALSE;
  shell->chained = chained;
}

/* Options with the words after them. */
static void add_words (GPtrArray *keys, const GPtrArray *words)
{
  g_autofree char *key = NULL;
  g_autoptr (GString) value = g_string_new (NULL);
  guint line = 0;

  for (guint i = 0; i <= words->len; i++) {
    const Word *word = i < words->len ? words->pdata[i] : NULL;
    const char *text = word != NULL ? word->text : "--end";
    gboolean program = g_str_has_suffix (text, ".py") || g_str_equal (text, "-m");
    const char *mode = g_str_has_prefix (text, "activation_checkpoint:") ? strchr (text, ':') + 1 : NULL;

    if (!is_option (text) && !program && mode == NULL) {
      g_string_append_printf (value, "%s%s", value->len > 0 ? " " : "", text);
      continue;
    }
    if (key != NULL)
      add_key (keys, g_steal_pointer (&key), value->str, line);
    g_string_truncate (value, 0);
    if (word == NULL)
      break;
    line = word->line;
    if (mode != NULL)
      add_key (keys, g_strdup ("activation_checkpoint.mode"), mode, line);
    else if (program) {
      key = g_strdup ("program");
      g_string_append (value, g_str_equal (text, "-m") ? "" : text);
    } else {
      gsize n = strcspn (text + 2, "=");

      key = g_strdelimit (g_strndup (text + 2, n), "-", '_');
      g_string_append (value, text[2 + n] == '=' ? text + 3 + n : "");
    }
  }
}

static void read_shell (const char *text, GPtrArray *keys)
{
  Shell shell = { .at = text,
                  .line = 1,
                  .variables = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, words_unref),
                  .command = words_new (),
                  .bare = words_new () };

  while (*shell.at != '\0')
    read_command (&shell);
  add_words (keys, shell.n_options * 2 > shell.bare->len ? shell.command : shell.bare);
  g_hash_table_unref (shell.variables);
  g_ptr_array_unref (shell.command);
  g_ptr_array_unref (shell.bare);
}

/* Other forms */

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
    add_key (keys, g_match_info_fetch (match, 1), value, i + 1);
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

static int count_brackets (const char *text)
{
  int n = 0;

  for (; *text != '\0'; text++)
    n += (*text == '[') - (*text == ']');
  return n;
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
    if (*line == '[' && line[n - 1] == ']' && equals == NULL && line[1] != '[') {
      g_free (section);
      section = g_strndup (line + 1, n - 2);
      continue;
    }
    if (equals == NULL)
      return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: expected [section] or key = value", where, number);
    *equals = '\0';
    g_autoptr (GString) value = g_string_new (g_strstrip (equals + 1));
    while (*value->str == '[' && count_brackets (value->str) > 0 && lines[i + 1] != NULL && value->len < MAX_TEXT) {
      cut_comment (lines[++i]);
      g_string_append (value, g_strchug (lines[i]));
    }
    if (*value->str == '{' || g_str_has_prefix (value->str, "\"\"\"") || g_str_has_prefix (value->str, "'''")
        || (*value->str == '[' && count_brackets (value->str) != 0) || value->len == 0)
      return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: a value in braces or several lines is not read", where, number);
    g_autofree char *name = unquote (g_strchomp (line)), *plain = unquote (value->str);
    add_key (keys, *section != '\0' ? g_strconcat (section, ".", name, NULL) : g_strdup (name), plain, number);
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
      add_key (yaml->keys, g_steal_pointer (&name), key->value, yaml->line);
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
      add_key (yaml->keys, g_steal_pointer (&key), target + 1, yaml->line);
    else if (!merge (yaml, target, prefix))
      return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: too many keys", yaml->where, yaml->line);
    return TRUE;
  }
  if (*value != '\0' && strchr ("|>!%@`", *value) != NULL)
    return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: %s: values that begin with %c are not read", yaml->where,
                      yaml->line, name, *value);
  if (*value == '{' && !g_str_equal (value, "{}"))
    return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: %s: a mapping in braces is not read", yaml->where, yaml->line,
                      name);
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
  add_key (yaml->keys, g_steal_pointer (&key), plain, yaml->line);
  return TRUE;
}

/* An element of a list belongs to the key above it, as a further word of its value. */
static void add_yaml_element (Yaml *yaml, const char *text)
{
  const char *prefix = yaml->levels[yaml->n_levels - 1].prefix;
  PsLaunchKey *last = yaml->keys->len > 0 ? yaml->keys->pdata[yaml->keys->len - 1] : NULL;
  g_autofree char *key = g_strndup (prefix, strlen (prefix) - (*prefix != '\0')), *plain = unquote (text);

  if (last == NULL || !g_str_equal (last->key, key)) {
    add_key (yaml->keys, g_steal_pointer (&key), plain, yaml->line);
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

  if (*text == '\0' || (g_str_equal (line, "---") && yaml->keys->len == 0))
    return TRUE;
  gboolean element = g_str_has_prefix (text, "- ");
  while (yaml->n_levels > 1
         && (element ? indent < yaml->levels[yaml->n_levels - 1].indent
                     : indent <= yaml->levels[yaml->n_levels - 1].indent))
    g_free (yaml->levels[--yaml->n_levels].prefix);
  if (element) {
    add_yaml_element (yaml, g_strstrip (text + 2));
    return TRUE;
  }
  for (char *at = text; *at != '\0' && colon == NULL; at++)
    colon = *at == ':' && (at[1] == ' ' || at[1] == '\0') ? at : NULL;
  if (colon == NULL || strchr ("\t?%{[", *text) != NULL || colon == text)
    return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: expected key: value, indented by blanks", yaml->where, yaml->line);
  *colon = '\0';
  g_autofree char *name = unquote (g_strchomp (text));
  return read_yaml_value (yaml, indent, name, g_strstrip (colon + 1), error);
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
      add_key (keys, g_steal_pointer (&name), text, 0);
    else if (ps_json_read_number (reader, &number)) {
      char digits[G_ASCII_DTOSTR_BUF_SIZE];

      add_key (keys, g_steal_pointer (&name), g_ascii_formatd (digits, sizeof digits, "%.17g", number), 0);
    } else if (ps_json_read_boolean (reader, &truth))
      add_key (keys, g_steal_pointer (&name), truth ? "true" : "false", 0);
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

    add_key (keys, g_match_info_fetch (match, 1), value + (*value == '['), 0);
  }
  if (!ps_json_reader_init (&reader, where, brace != NULL ? brace + 1 : text, -1, error))
    return FALSE;
  if (ps_json_enter_object (&reader))
    read_json_object (&reader, "", keys);
  return TRUE;
}

PsLaunchForm ps_launch_form (const char *text)
{
  static const struct {
    PsLaunchForm form;
    const char *pattern;
  } forms[] = {
    { PS_LAUNCH_JSON, "^\\s*\"(train_batch_size|train_micro_batch_size_per_gpu|zero_optimization)\"" },
    { PS_LAUNCH_NONE, "^\\s*(\\{|layers\\s*=|hidden\\s*=)" },
    { PS_LAUNCH_LOG, "(?:^|[\\s:\\]>])(hidden_size|micro_batch_size|tensor_model_parallel_size) \\.{2,} " },
    { PS_LAUNCH_TOML, "^\\s*\\[(training|parallelism|job|activation_checkpoint)\\]\\s*(#.*)?$" },
    { PS_LAUNCH_WORDS, "^(?![ \t]*#)(.*[\\s\"'(])?--[a-z]" },
    { PS_LAUNCH_YAML, "^\\s*[A-Za-z_\"'][A-Za-z0-9_\"'.-]*:(\\s|$)" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (forms); i++) {
    g_autoptr (GRegex) regex = g_regex_new (forms[i].pattern, G_REGEX_MULTILINE, 0, NULL);

    if (g_regex_match (regex, text, 0, NULL))
      return forms[i].form;
  }
  return PS_LAUNCH_NONE;
}

GPtrArray *ps_launch_keys (const char *where, const char *text, PsLaunchForm form, GError **error)
{
  g_autoptr (GPtrArray) keys = keys_new ();
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
    read_shell (text, keys);
  return done ? g_steal_pointer (&keys) : NULL;
}
