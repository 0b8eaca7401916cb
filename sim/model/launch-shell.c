/* launch-shell.c - reads shell scripts and lists of arguments as the options of the command that starts a run.
 * Variables, arrays, functions, loops and conditions are followed as far as the text decides them. Nothing is executed.
 *
 * A part of a word that only an execution would tell stands in it between UNKNOWN and KNOWN as the reason, with GAP for
 * its blanks. */
#include "launch-text.h"

#include "base/text.h"

#include <string.h>

#define UNKNOWN '\1'
#define KNOWN '\2'
#define GAP '\3'
#define NAME_LETTERS G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_"
#define UNSET "is not set here"
#define MAX_WORD (1 << 20)
#define MAX_WORDS (1 << 16)
#define MAX_COPIED (64 << 20) /* bytes of all variables that are read */
#define MAX_STEPS 10000       /* commands */
#define MAX_DEPTH 48
#define MAX_ROUNDS 64    /* of a loop */
#define MAX_ARGUMENTS 64 /* $1 and those after it */

typedef struct {
  char *text;
  guint line;
} Word;

/* Whether commands are run here; MAYBE: that depends on a condition that is not known. */
typedef enum { SKIPPED, MAYBE, RUN } Mode;

typedef enum { NO, UNSURE, YES } Truth;

typedef struct {
  const char *at; /* its body */
  guint line;
} Function;

typedef struct {
  const char *at;
  guint line;
  const char *resume; /* the end of here-documents, where the next line begins; NULL: there is none */
  guint resume_line;
  GHashTable *variables; /* name -> GPtrArray of Word */
  GHashTable *functions; /* name -> Function */
  GPtrArray *bodies;     /* all of them */
  GPtrArray *texts;      /* that commands are read from, char * */
  GPtrArray *documents;  /* JSON of here-documents, char * */
  PsLaunchKnows *knows;
  Mode mode;
  char *doubt; /* the reason of the last condition that is not known */
  guint depth, steps;
  gsize copied;
  GPtrArray *command; /* words of the launch */
  guint score;        /* its known options */
  GPtrArray *bare;    /* words of lines that begin with an option */
  GPtrArray *given;   /* arguments of the script, which ps_launch_open sets in its first line; NULL: none */
} Shell;

/* A word that is being read. */
typedef struct {
  GString *text;
  gboolean quoted; /* it is a word though it is empty */
  guint line;
  GPtrArray *out; /* where it goes; NULL: into the text, with what would be further words */
} Building;

static Truth run_list (Shell *shell, const char *const *ends);
static Truth run_command (Shell *shell);
static char *read_word (Shell *shell, GPtrArray *out);

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

static void add_word (GPtrArray *words, const char *text, guint line)
{
  Word *word;

  if (words->len >= MAX_WORDS)
    return;
  word = g_new (Word, 1);
  word->text = g_strdup (text);
  word->line = line;
  g_ptr_array_add (words, word);
}

static const char *word_at (const GPtrArray *words, guint i)
{
  return i < words->len ? ((const Word *)words->pdata[i])->text : "";
}

static void finish_word (Building *word)
{
  if (word->out != NULL && (word->text->len > 0 || word->quoted)) {
    add_word (word->out, word->text->str, word->line);
    g_string_truncate (word->text, 0);
    word->quoted = FALSE;
  }
}

/* "NAME reason" as it stands in words. Free with g_free. */
static char *unknown_text (const char *name, const char *reason)
{
  g_autofree char *words = g_strdelimit (g_strdup_printf ("%s %s", name, reason), " \t\r\n", GAP);

  return g_strdup_printf ("%c%s%c", UNKNOWN, words, KNOWN);
}

static void append_unknown (GString *text, const char *name, const char *reason)
{
  g_autofree char *words = unknown_text (name, reason);

  g_string_append (text, words);
}

static char *find_reason (const char *text)
{
  const char *reason = strchr (text, UNKNOWN);

  return reason == NULL ? NULL
                        : g_strstrip (g_strdelimit (g_strndup (reason + 1, strcspn (reason + 1, "\2")), "\3", ' '));
}

/* Whether the word is one variable or argument that is not set. */
static gboolean is_unset (const char *text)
{
  return *text == UNKNOWN && strchr (text, KNOWN) == text + strlen (text) - 1 && strstr (text, "is\3not\3set") != NULL;
}

/* Remembers why a condition is not known. */
static Truth doubt (Shell *shell, const char *reason)
{
  g_autofree char *unknown = find_reason (reason);
  char *kept = g_strdup (unknown != NULL ? unknown : reason);

  g_free (shell->doubt);
  shell->doubt = kept;
  return UNSURE;
}

/* Variables */

/* Sets a variable, or appends words. Where that depends on a condition the words are those of before, and the new ones
 * with the reason. Takes the value. */
static void assign (Shell *shell, const char *name, GPtrArray *value, gboolean more)
{
  GPtrArray *before = g_hash_table_lookup (shell->variables, name);
  g_autoptr (GPtrArray) words = value;
  const char *old = before != NULL ? word_at (before, 0) : "", *text = word_at (words, 0);

  if (shell->mode == SKIPPED
      || (before != NULL && !more && words->len == 1 && before->len == 1 && g_str_equal (old, text)))
    return;
  if (shell->mode == MAYBE) {
    g_autofree char *reason = g_strconcat ("depends on a condition: ", shell->doubt, NULL);
    g_autofree char *mark = unknown_text (name, reason);
    gboolean longer = !more && before != NULL && before->len == 1 && words->len == 1 && strchr (old, ' ') != NULL
                      && g_str_has_prefix (text, old);

    if (longer || more) { /* each new word by itself */
      g_auto (GStrv) parts = longer ? g_strsplit_set (text + strlen (old), " \t\n", -1) : NULL;
      g_autoptr (GString) all = g_string_new (longer ? old : NULL);

      for (guint i = 0; longer && parts[i] != NULL; i++)
        g_string_append_printf (all, " %s%s", parts[i], *parts[i] != '\0' ? mark : "");
      for (guint i = 0; !longer && i < words->len; i++) {
        Word *word = words->pdata[i];
        char *marked = g_strconcat (word->text, mark, NULL);

        g_free (word->text);
        word->text = marked;
      }
      if (longer) {
        g_ptr_array_set_size (words, 0);
        add_word (words, all->str, shell->line);
      }
    } else {
      g_ptr_array_set_size (words, 0);
      add_word (words, mark, shell->line);
    }
  }
  if (more && before != NULL) {
    for (guint i = 0; i < words->len; i++)
      add_word (before, word_at (words, i), ((Word *)words->pdata[i])->line);
    return;
  }
  g_hash_table_replace (shell->variables, g_strdup (name), g_steal_pointer (&words));
}

static void assign_text (Shell *shell, const char *name, const char *text)
{
  GPtrArray *words = words_new ();

  add_word (words, text, shell->line);
  assign (shell, name, words, FALSE);
}

/* Appends words of a variable, of an array all of them: they are words of their own where they are not quoted, or where
 * split says so. */
static void append_words (Shell *shell, const GPtrArray *items, gboolean quoted, gboolean array, gboolean split,
                          Building *word)
{
  for (guint i = 0; i < (array ? items->len : MIN (items->len, 1)); i++) {
    const Word *item = items->pdata[i];
    gsize n = strlen (item->text);

    shell->copied += n;
    if (word->text->len + n > MAX_WORD || shell->copied > MAX_COPIED)
      return;
    if (i > 0 && word->out != NULL && (split || !quoted))
      finish_word (word);
    else if (i > 0)
      g_string_append_c (word->text, ' ');
    if (array || word->text->len == 0)
      word->line = item->line;
    if (word->out == NULL || quoted) {
      g_string_append (word->text, item->text);
      word->quoted |= array;
      continue;
    }
    for (const char *at = item->text; *at != '\0'; at++)
      if (g_ascii_isspace (*at))
        finish_word (word);
      else if (*at != '\\' || !g_ascii_isspace (at[1]))
        g_string_append_c (word->text, *at);
  }
}

static gboolean is_list (const char *rest)
{
  return g_str_has_prefix (rest, "[@]") || g_str_has_prefix (rest, "[*]");
}

/* Arithmetic */

typedef struct {
  Shell *shell;
  const char *at;
  guint depth;
  gboolean failed;
} Sum;

static gint64 compute_level (Sum *sum, guint level);

static gint64 compute_operand (Sum *sum)
{
  gint64 value = 0;

  sum->at += strspn (sum->at, " \t\n");
  if (++sum->depth > MAX_DEPTH)
    sum->failed = TRUE;
  else if (*sum->at == '(') {
    sum->at++;
    value = compute_level (sum, 0);
    sum->failed |= *sum->at != ')';
    sum->at += *sum->at == ')';
  } else if (*sum->at == '-' || *sum->at == '+' || *sum->at == '!') {
    char sign = *sum->at++;

    value = compute_operand (sum);
    value = sign == '-' ? -value : sign == '!' ? value == 0 : value;
  } else {
    sum->at += strspn (sum->at, "${");
    gsize n = strspn (sum->at, NAME_LETTERS);
    g_autofree char *name = g_strndup (sum->at, n);
    const GPtrArray *items = g_hash_table_lookup (sum->shell->variables, name);
    const char *digits = items != NULL ? word_at (items, 0) : name;
    char *end;

    if (items == NULL && n > 0 && !g_ascii_isdigit (*name))
      doubt (sum->shell, name);
    value = g_ascii_strtoll (digits, &end, 10);
    sum->failed |= end == digits || *end != '\0' || ABS (value) > G_MAXINT;
    sum->at += n;
    sum->at += strspn (sum->at, "}");
  }
  sum->at += strspn (sum->at, " \t\n");
  sum->depth--;
  return sum->failed ? 0 : value;
}

/* Operators of the level and of those after it. */
static gint64 compute_level (Sum *sum, guint level)
{
  static const char *const operators[][5]
      = { { "||" }, { "&&" }, { "==", "!=" }, { "<=", ">=", "<", ">" }, { "+", "-" }, { "*", "/", "%" } };
  gint64 value = level + 1 < G_N_ELEMENTS (operators) ? compute_level (sum, level + 1) : compute_operand (sum);

  while (!sum->failed) {
    const char *sign = NULL;

    for (guint i = 0; sign == NULL && i < 5 && operators[level][i] != NULL; i++)
      sign = g_str_has_prefix (sum->at, operators[level][i]) ? operators[level][i] : NULL;
    if (sign == NULL)
      break;
    sum->at += strlen (sign);
    gint64 right = level + 1 < G_N_ELEMENTS (operators) ? compute_level (sum, level + 1) : compute_operand (sum);
    char c = *sign;
    if ((c == '/' || c == '%') && right == 0) {
      sum->failed = TRUE;
      break;
    }
    gboolean same = sign[1] == '=' && value == right;
    value = c == '|'   ? value || right
            : c == '&' ? value && right
            : c == '=' ? same
            : c == '!' ? value != right
            : c == '<' ? value < right || same
            : c == '>' ? value > right || same
            : c == '+' ? value + right
            : c == '-' ? value - right
            : c == '*' ? value * right
            : c == '/' ? value / right
                       : value % right;
    sum->failed |= ABS (value) > G_MAXINT;
  }
  return value;
}

/* The value of an expression. FALSE: it is not known. */
static gboolean compute (Shell *shell, const char *text, gint64 *value)
{
  Sum sum = { .shell = shell, .at = text };

  *value = compute_level (&sum, 0);
  return !sum.failed && *sum.at == '\0';
}

/* Words */

/* Goes to after the bracket that closes the one before the place. */
static void skip_brackets (Shell *shell, char open, char close)
{
  for (guint depth = 1; *shell->at != '\0' && depth > 0; shell->at++) {
    depth += *shell->at == open && open != close;
    depth -= *shell->at == close;
    shell->line += *shell->at == '\n';
  }
}

/* The text as one word, its variables replaced. Free with g_free. */
static char *expand_text (Shell *shell, const char *text, gboolean quoted)
{
  const char *at = shell->at;
  guint line = shell->line;
  g_autofree char *whole = quoted ? g_strconcat ("\"", text, "\"", NULL) : g_strdup (text);
  char *word = g_strdup ("");

  if (shell->depth >= MAX_DEPTH)
    return word;
  shell->depth++;
  for (shell->at = whole; *shell->at != '\0' && strlen (word) < MAX_WORD;) {
    g_autofree char *before = word, *next = NULL;
    gsize n = strspn (shell->at, " \t\r\n;&|()<>");
    g_autofree char *blanks = g_strndup (shell->at, n);

    shell->at += n;
    next = read_word (shell, NULL);
    word = g_strconcat (before, blanks, next, NULL);
  }
  shell->depth--;
  shell->at = at;
  shell->line = line;
  return word;
}

/* The value with what a pattern finds at an end removed, or its matches replaced, or a part of it: "%.sh", "##*" "/",
 * "/a/b", ":1:2", "^^", ",,". NULL: that is not known here. Free with g_free. */
static char *change_text (Shell *shell, const char *value, const char *change)
{
  const char mark = *change;
  gboolean most = change[1] == mark && mark != ':';
  g_autofree char *pattern = expand_text (shell, change + 1 + most, FALSE);
  const gsize n = strlen (value);

  if (strpbrk (value, "\1") != NULL || strpbrk (pattern, "\1[") != NULL || n > 4096)
    return NULL;
  if (mark == '^' || mark == ',')
    return !most ? NULL : mark == '^' ? g_ascii_strup (value, -1) : g_ascii_strdown (value, -1);
  if (mark == ':') {
    gint64 from, count = G_MAXINT;
    g_auto (GStrv) parts = g_strsplit (pattern, ":", 2);

    if (parts[0] == NULL || !compute (shell, parts[0], &from) || from < 0
        || (parts[1] != NULL && (!compute (shell, parts[1], &count) || count < 0)))
      return NULL;
    return g_strndup (value + MIN ((gsize)from, n), (gsize)count);
  }
  if (mark == '/') {
    char *slash = strchr (pattern, '/');

    if (slash != NULL)
      *slash = '\0';
    if (*pattern == '\0' || strpbrk (pattern, "*?") != NULL)
      return NULL;
    g_auto (GStrv) parts = g_strsplit (value, pattern, most ? -1 : 2);
    return g_strjoinv (slash != NULL ? slash + 1 : "", parts);
  }
  for (gsize i = 0; i <= n; i++) {
    gsize length = most ? n - i : i, rest = n - length;
    g_autofree char *part = mark == '#' ? g_strndup (value, length) : g_strdup (value + rest);

    if (g_pattern_match_simple (pattern, part))
      return mark == '#' ? g_strdup (value + length) : g_strndup (value, rest);
  }
  return g_strdup (value);
}

/* What stands in ${ }. */
static void expand_braces (Shell *shell, gboolean quoted, Building *word)
{
  const char *begin = shell->at;
  guint line = shell->line;

  skip_brackets (shell, '{', '}');
  if (shell->at[-1] != '}') {
    append_unknown (word->text, "${", "has no end");
    return;
  }
  g_autofree char *inside = g_strndup (begin, (gsize)(shell->at - begin) - 1);
  gboolean counted = inside[0] == '#' && inside[1] != '\0', indirect = inside[0] == '!';
  char *plain = inside + (counted || indirect);
  gsize n = *plain == '@' || *plain == '*' || *plain == '#' ? 1 : strspn (plain, NAME_LETTERS);
  g_autofree char *name = g_strndup (plain, n);
  const char *rest = plain + n;
  gboolean array = is_list (rest), split = *name == '@' || g_str_has_prefix (rest, "[@]");
  const GPtrArray *items = g_hash_table_lookup (shell->variables, name);
  g_autoptr (GPtrArray) one = NULL;

  rest += array ? 3 : 0;
  word->line = word->text->len == 0 ? line : word->line;
  if (indirect && items != NULL && *rest == '\0')
    items = g_hash_table_lookup (shell->variables, word_at (items, 0));
  if (*rest == '[' && items != NULL) {
    g_autofree char *index = g_strndup (rest + 1, strcspn (rest + 1, "]"));
    gint64 i;

    one = words_new ();
    if (compute (shell, index, &i) && i >= 0)
      add_word (one, word_at (items, (guint)MIN (i, MAX_WORDS)), shell->line);
    items = one->len > 0 ? one : NULL;
    rest += strcspn (rest, "]");
    rest += *rest == ']';
  }
  if (g_str_equal (name, "@") || g_str_equal (name, "*"))
    array = TRUE;
  gboolean empty = items == NULL || items->len == 0 || (items->len == 1 && *word_at (items, 0) == '\0');
  const char *operation = *rest == ':' && rest[1] != '\0' && strchr ("-=+?", rest[1]) != NULL ? rest + 1 : rest;
  gboolean missing = operation > rest ? empty : items == NULL;

  if (counted && *rest == '\0' && items != NULL)
    g_string_append_printf (word->text, "%u", array ? items->len : (guint)strlen (word_at (items, 0)));
  else if (n > 0 && *operation != '\0' && strchr ("-=+", *operation) != NULL) {
    g_autofree char *otherwise
        = missing == (*operation != '+') ? expand_text (shell, operation + 1, quoted) : g_strdup ("");
    g_autoptr (GPtrArray) words = words_new ();

    add_word (words, otherwise, shell->line);
    if (*operation == '=' && missing)
      assign_text (shell, name, otherwise);
    append_words (shell, missing || *operation == '+' ? words : items, quoted, array && !missing, split, word);
  } else if (n > 0 && items == NULL && !array)
    append_unknown (word->text, name, UNSET);
  else if (n > 0 && (*rest == '\0' || *operation == '?')) {
    if (items != NULL)
      append_words (shell, items, quoted, array, split, word);
  } else {
    g_autofree char *changed = items != NULL && !array && strchr ("%#/:^,", *rest) != NULL
                                   ? change_text (shell, word_at (items, 0), rest)
                                   : NULL;
    if (changed != NULL)
      g_string_append (word->text, changed);
    else if (items != NULL || !array)
      append_unknown (word->text, n > 0 ? name : inside, "is changed where it is read, which needs a shell");
  }
}

/* What a command between $( and ) prints: of echo and expr. FALSE: it is not run. */
static gboolean expand_output (Shell *shell, const char *command, GString *text)
{
  gboolean sums = g_str_has_prefix (command, "expr "), says = g_str_has_prefix (command, "echo ");
  gint64 value;

  if ((!sums && !says) || strpbrk (command, "|;&<>`") != NULL)
    return FALSE;
  g_autofree char *words = expand_text (shell, command + 5, FALSE);
  if (sums && !compute (shell, words, &value))
    return FALSE;
  if (sums)
    g_string_append_printf (text, "%" G_GINT64_FORMAT, value);
  else
    g_string_append (text, g_strstrip (words));
  return TRUE;
}

/* What follows a dollar sign. */
static void expand (Shell *shell, gboolean quoted, Building *word)
{
  const char *at = ++shell->at;
  gsize n = strspn (at, NAME_LETTERS);

  if (at[0] == '(') {
    gboolean sums = at[1] == '(';
    gint64 value;

    shell->at++;
    skip_brackets (shell, '(', ')');
    gsize length = (gsize)(shell->at - at);
    g_autofree char *text = g_strndup (at, MIN (length, 40));
    g_autofree char *inside = length > 4 ? g_strndup (at + 1 + sums, length - 2 - 2 * sums) : g_strdup ("");
    g_autofree char *shown = g_strconcat ("$", text, NULL);
    g_autofree char *plain = sums ? expand_text (shell, inside, FALSE) : NULL;

    if (sums && compute (shell, plain, &value))
      g_string_append_printf (word->text, "%" G_GINT64_FORMAT, value);
    else if (sums && strchr (plain, UNKNOWN) != NULL) {
      g_autofree char *reason = find_reason (plain), *mark = unknown_text (reason, "");

      g_string_append (word->text, mark);
    } else if (sums || !expand_output (shell, inside + strspn (inside, " "), word->text))
      append_unknown (word->text, shown, sums ? "is not computed here" : "is not run here");
  } else if (at[0] == '{') {
    shell->at++;
    expand_braces (shell, quoted, word);
  } else if (at[0] == '\'')
    ; /* a string with escapes follows */
  else if (n == 0 || g_ascii_isdigit (*at)) {
    g_autofree char *name = g_strndup (at, at[0] != '\0' && strchr ("@*#?$!-0123456789", at[0]) != NULL ? 1 : 0);
    const GPtrArray *items = g_hash_table_lookup (shell->variables, name);
    g_autofree char *shown = g_strconcat ("$", name, NULL);

    shell->at += strlen (name);
    if (*name == '\0')
      g_string_append_c (word->text, '$');
    else if (items != NULL)
      append_words (shell, items, quoted, *name == '@' || *name == '*', *name == '@', word);
    else if (*name != '@' && *name != '*')
      append_unknown (word->text, shown, UNSET);
  } else {
    g_autofree char *name = g_strndup (at, n);
    const GPtrArray *items = g_hash_table_lookup (shell->variables, name);

    shell->at += n;
    if (items != NULL)
      append_words (shell, items, quoted, FALSE, FALSE, word);
    else
      append_unknown (word->text, name, UNSET);
  }
}

/* Back quotes. */
static void skip_command (Shell *shell, Building *word)
{
  append_unknown (word->text, "`...`", "is not run here");
  shell->at++;
  skip_brackets (shell, '`', '`');
}

/* What stands in double quotes. */
static void read_quoted (Shell *shell, Building *word)
{
  word->quoted = TRUE;
  for (shell->at++; *shell->at != '\0' && *shell->at != '"' && word->text->len < MAX_WORD;) {
    char c = *shell->at;

    if (c == '$')
      expand (shell, TRUE, word);
    else if (c == '`')
      skip_command (shell, word);
    else {
      gboolean escaped = c == '\\' && shell->at[1] != '\0' && strchr ("\"\\$`\n", shell->at[1]) != NULL;

      shell->at += escaped;
      shell->line += *shell->at == '\n';
      if (!escaped || *shell->at != '\n')
        g_string_append_c (word->text, *shell->at);
      shell->at++;
    }
  }
  shell->at += *shell->at == '"';
}

/* Reads a word, which may become several; out NULL: it is one, and returned. */
static char *read_word (Shell *shell, GPtrArray *out)
{
  Building word = { .text = g_string_new (NULL), .line = shell->line, .out = out };

  while (*shell->at != '\0' && strchr (" \t\r\n;&|()<>", *shell->at) == NULL && word.text->len < MAX_WORD) {
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
    else if (c == '`')
      skip_command (shell, &word);
    else {
      g_string_append_c (word.text, c);
      shell->at++;
    }
  }
  finish_word (&word);
  return g_string_free (word.text, out != NULL);
}

/* Commands */

/* Takes what a comment of Slurm says of nodes and GPUs as the variables that Slurm sets. */
static void read_slurm (Shell *shell, const char *comment)
{
  static const struct {
    const char *option, *name, *also;
  } rows[] = { { "--nodes", "SLURM_NNODES", "SLURM_JOB_NUM_NODES" },
               { "-N", "SLURM_NNODES", "SLURM_JOB_NUM_NODES" },
               { "--gpus-per-node", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE" },
               { "--gres", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE" },
               { "--ntasks-per-node", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE" } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    const char *option = g_strstr_len (comment, (gssize)strcspn (comment, "\n"), rows[i].option);
    const char *value = option != NULL ? option + strlen (rows[i].option) : NULL;

    if (value == NULL || (*value != '=' && *value != ' '))
      continue;
    g_autofree char *text = g_strndup (value + 1, strcspn (value + 1, " \t\r\n#"));
    const char *number = strrchr (text, ':') != NULL ? strrchr (text, ':') + 1 : text; /* gpu:a100:8 */
    if (!g_ascii_isdigit (*number) || number[strspn (number, G_CSET_DIGITS)] != '\0')
      continue;
    assign_text (shell, rows[i].name, number);
    assign_text (shell, rows[i].also, number);
  }
}

/* Blanks, continued lines, and comments. A comment "# launch: " of ps_launch_write is a command. */
static gboolean skip_blanks (Shell *shell, gboolean lines)
{
  while (TRUE) {
    gsize n = *shell->at == '\\' ? 1 + (shell->at[1] == '\r') : 0;

    if (n > 0 && shell->at[n] == '\n') {
      shell->at += n + 1;
      shell->line++;
    } else if (g_str_has_prefix (shell->at, "# launch: ")) {
      shell->at += lines ? 0 : strlen ("# launch: ");
      return !lines;
    } else if (*shell->at == '#') {
      if (g_str_has_prefix (shell->at, "#SBATCH "))
        read_slurm (shell, shell->at);
      shell->at += strcspn (shell->at, "\n");
    } else if (lines && *shell->at == '\n' && shell->resume != NULL) {
      shell->at = g_steal_pointer (&shell->resume);
      shell->line = shell->resume_line;
    } else if (*shell->at == ' ' || *shell->at == '\t' || *shell->at == '\r' || (lines && *shell->at == '\n'))
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

/* Reads NAME=value, NAME+=value, NAME[i]=value or NAME=( ... ). FALSE: the place holds none. */
static gboolean read_assignment (Shell *shell)
{
  gsize n = strspn (shell->at, NAME_LETTERS);
  gsize index = n > 0 && shell->at[n] == '[' ? strcspn (shell->at + n, "]\n \t") : 0;

  index += index > 0 && shell->at[n + index] == ']';
  gboolean more = n > 0 && g_str_has_prefix (shell->at + n + index, "+=");
  if (n == 0 || g_ascii_isdigit (*shell->at) || (!more && shell->at[n + index] != '='))
    return FALSE;
  g_autofree char *name = g_strndup (shell->at, n);
  g_autoptr (GPtrArray) value = NULL;
  guint line = shell->line;
  shell->at += n + index + (more ? 2 : 1);
  if (*shell->at == '(')
    value = read_array (shell);
  else {
    const GPtrArray *before = g_hash_table_lookup (shell->variables, name);
    g_autofree char *rest = read_word (shell, NULL);
    g_autofree char *text = g_strconcat (more && before != NULL ? word_at (before, 0) : "", rest, NULL);

    value = words_new ();
    more = FALSE;
    if (strlen (text) <= MAX_WORD)
      add_word (value, text, line);
  }
  if (index == 0)
    assign (shell, name, g_steal_pointer (&value), more);
  return TRUE;
}

static gboolean is_option (const char *text)
{
  return text[0] == '-' && text[1] == '-' && g_ascii_isalpha (text[2]);
}

/* Reads another text as commands. */
static Truth run_text (Shell *shell, const char *text)
{
  const char *at = shell->at, *resume = shell->resume;
  guint line = shell->line;
  Truth status = UNSURE;

  if (shell->depth >= MAX_DEPTH)
    return UNSURE;
  shell->resume = NULL;
  shell->depth++;
  shell->copied += strlen (text);
  g_ptr_array_add (shell->texts, g_strdup (text));
  for (shell->at = shell->texts->pdata[shell->texts->len - 1]; *shell->at != '\0'; shell->at += *shell->at != '\0')
    status = run_list (shell, NULL);
  shell->depth--;
  shell->at = at;
  shell->resume = resume;
  shell->line = line;
  return status;
}

/* A here-document: JSON is kept, a script for another shell is read. */
static void take_document (Shell *shell, const char *text, gboolean literal)
{
  g_autoptr (GString) body = g_string_new (NULL);
  const char *first = text + strspn (text, " \t\n");

  if (shell->mode == SKIPPED || (*first != '{' && strstr (text, " --") == NULL))
    return;
  if (literal || *first != '{') {
    g_string_append (body, text);
    if (!literal) /* \$ is for the other shell */
      g_string_replace (body, "\\$", "$", 0);
  } else {
    g_autoptr (GString) quoted = g_string_new (text);

    g_string_replace (quoted, "\"", "\\\"", 0);
    g_autofree char *expanded = expand_text (shell, quoted->str, TRUE);
    g_autoptr (GRegex) unknown = g_regex_new ("\"?\1[^\2]*\2\"?", 0, 0, NULL);
    g_autofree char *known = g_regex_replace_literal (unknown, expanded, -1, 0, "null", 0, NULL);
    g_string_append (body, known != NULL ? known : "");
  }
  if (*first == '{')
    g_ptr_array_add (shell->documents, g_strdup (body->str));
  else
    run_text (shell, body->str);
}

/* A redirection is no argument. */
static void skip_redirection (Shell *shell)
{
  gboolean here = g_str_has_prefix (shell->at, "<<") && shell->at[2] != '<', tabs = here && shell->at[2] == '-';

  shell->at += strspn (shell->at, "<>&-");
  skip_blanks (shell, FALSE);
  gboolean literal = *shell->at == '\'' || *shell->at == '"' || *shell->at == '\\';
  g_autofree char *word = read_word (shell, NULL);
  if (!here)
    return;
  const char *at = shell->resume != NULL ? shell->resume : shell->at + strcspn (shell->at, "\n");
  guint line = shell->resume != NULL ? shell->resume_line : shell->line + 1;
  g_autoptr (GString) body = g_string_new (NULL);
  at += shell->resume == NULL && *at == '\n';
  for (; *at != '\0'; line++) {
    gsize n = strcspn (at, "\n");
    g_autofree char *text = g_strndup (at, n);

    at += n + (at[n] == '\n');
    g_strchomp (text);
    if (g_str_equal (tabs ? g_strchug (text) : text, word))
      break;
    g_string_append_printf (body, "%s\n", text);
  }
  shell->resume = at;
  shell->resume_line = line + 1;
  take_document (shell, body->str, literal);
}

static gboolean is_one (const char *word, const char *const *words)
{
  return words != NULL && g_strv_contains (words, word);
}

/* What a test says of words between [ and ], from *i on; level 0 is "or", 1 "and", 2 a comparison. */
static Truth test (Shell *shell, const GPtrArray *words, guint *i, guint level)
{
  static const char *const joins[][3] = { { "||", "-o", NULL }, { "&&", "-a", NULL } };
  static const char *const operators[] = { "=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge" };

  if (level < 2) {
    Truth truth = test (shell, words, i, level + 1);

    while (*i < words->len && is_one (word_at (words, *i), joins[level])) {
      (*i)++;
      Truth next = test (shell, words, i, level + 1);
      truth = level == 0 ? MAX (truth, next) : MIN (truth, next);
    }
    return truth;
  }
  const char *word = word_at (words, *i), *second = word_at (words, *i + 1), *third = word_at (words, *i + 2);
  Truth truth;

  (*i)++;
  if (g_str_equal (word, "!"))
    return YES - test (shell, words, i, 2);
  if (g_str_equal (word, "(")) {
    truth = test (shell, words, i, 0);
    (*i)++;
    return truth;
  }
  if (word[0] == '-' && g_ascii_isalpha (word[1]) && word[2] == '\0' && *i < words->len) {
    (*i)++;
    if (word[1] != 'z' && word[1] != 'n')
      return doubt (shell, "it asks for a file");
    if (strchr (second, UNKNOWN) != NULL && !is_unset (second))
      return doubt (shell, second);
    return (*second == '\0' || is_unset (second)) == (word[1] == 'z') ? YES : NO;
  }
  if (*i >= words->len || is_one (second, joins[0]) || is_one (second, joins[1]) || g_str_equal (second, ")"))
    return strchr (word, UNKNOWN) != NULL ? doubt (shell, word) : *word != '\0' ? YES : NO;
  *i += 2;
  if (strchr (word, UNKNOWN) != NULL || strchr (third, UNKNOWN) != NULL)
    return doubt (shell, strchr (word, UNKNOWN) != NULL ? word : third);
  gint64 a, b;
  gboolean numbers = second[0] == '-' && compute (shell, word, &a) && compute (shell, third, &b);
  if (!numbers)
    a = b = 0;
  gboolean same = strpbrk (third, "*?") != NULL ? g_pattern_match_simple (third, word) : g_str_equal (word, third);
  const gboolean results[] = { same, same, !same, a == b, a != b, a<b, a <= b, a> b, a >= b };
  for (guint k = 0; k < G_N_ELEMENTS (operators); k++)
    if (g_str_equal (second, operators[k]) && (k < 3 || numbers))
      return results[k] ? YES : NO;
  return doubt (shell, "it is not tried here");
}

static Truth test_words (Shell *shell, const GPtrArray *words, guint from)
{
  guint i = from;

  return words->len > from ? test (shell, words, &i, 0) : NO;
}

/* [[ ... ]] */
static Truth run_test (Shell *shell)
{
  g_autoptr (GPtrArray) words = words_new ();

  for (shell->at += 2; *shell->at != '\0';) {
    skip_blanks (shell, TRUE);
    char c = *shell->at;
    guint n = words->len;

    if (g_str_has_prefix (shell->at, "]]")) {
      shell->at += 2;
      break;
    }
    if (c != '\0' && strchr (";&|()<>", c) != NULL) {
      char text[3] = { c, (c == '&' || c == '|') && shell->at[1] == c ? c : '\0', '\0' };

      add_word (words, text, shell->line);
      shell->at += strlen (text);
    } else {
      g_autofree char *word = read_word (shell, NULL);

      add_word (words, word, shell->line);
      if (words->len == n)
        break;
    }
  }
  return test_words (shell, words, 0);
}

/* Keeps the words of the launch: those of the command with most options that frameworks have. */
static void take_launch (Shell *shell, const GPtrArray *words, gboolean is_launch)
{
  g_autoptr (GPtrArray) split = words_new ();
  guint score = 0;

  for (guint i = 0; i < words->len; i++) {
    const Word *word = words->pdata[i];
    gboolean several = is_option (word->text) && strpbrk (word->text, " \t\n") != NULL;
    g_auto (GStrv) parts = several ? g_strsplit_set (word->text, " \t\n", -1) : NULL;

    for (char **part = parts; several && *part != NULL; part++)
      if (**part != '\0')
        add_word (split, *part, word->line);
    if (!several)
      add_word (split, word->text, word->line);
  }
  for (guint i = 0; i < split->len; i++) {
    const char *text = word_at (split, i);

    if (is_option (text)) {
      g_autofree char *key = g_strdelimit (g_strndup (text + 2, strcspn (text + 2, "=\1")), "-", '_');

      score += shell->knows (key) ? 4 : 0;
    }
  }
  if (is_launch || is_option (word_at (split, 0)) || g_str_has_prefix (word_at (split, 0), "activation_checkpoint:"))
    g_ptr_array_extend_and_steal (shell->bare, g_steal_pointer (&split));
  else if (score > 0) {
    score += g_str_equal (word_at (split, 0), "echo") ? 0 : shell->mode == RUN ? 2 : 1;
    if (score <= shell->score)
      return;
    g_ptr_array_unref (shell->command);
    shell->command = g_steal_pointer (&split);
    shell->score = score;
  }
}

/* Sets $1, $2 ..., $@, $* and $#, and gives the ones of before. */
static GPtrArray *set_arguments (Shell *shell, const GPtrArray *words, guint from)
{
  const GPtrArray *old = g_hash_table_lookup (shell->variables, "@");
  GPtrArray *before = old != NULL ? words_new () : NULL, *all = words_new ();
  char count[12];

  for (guint i = 0; old != NULL && i < old->len; i++)
    add_word (before, word_at (old, i), ((Word *)old->pdata[i])->line);
  for (guint i = 1; i < MAX_ARGUMENTS; i++) {
    char name[12];

    g_snprintf (name, sizeof name, "%u", i);
    g_hash_table_remove (shell->variables, name);
    if (words != NULL && from + i - 1 < words->len)
      assign_text (shell, name, word_at (words, from + i - 1));
  }
  for (guint i = from; words != NULL && i < words->len; i++)
    add_word (all, word_at (words, i), ((Word *)words->pdata[i])->line);
  g_snprintf (count, sizeof count, "%u", all->len);
  assign_text (shell, "#", count);
  g_hash_table_replace (shell->variables, g_strdup ("*"), g_ptr_array_ref (all));
  g_hash_table_replace (shell->variables, g_strdup ("@"), all);
  return before;
}

static Truth call (Shell *shell, const Function *function, const GPtrArray *words)
{
  const char *at = shell->at, *resume = shell->resume;
  guint line = shell->line;
  Mode mode = shell->mode;

  if (shell->depth >= MAX_DEPTH)
    return UNSURE;
  shell->resume = NULL;
  g_autoptr (GPtrArray) before = set_arguments (shell, words, 1);
  shell->depth++;
  shell->at = function->at;
  shell->line = function->line;
  Truth status = run_command (shell);
  shell->depth--;
  shell->at = at;
  shell->line = line;
  shell->resume = resume;
  shell->mode = mode;
  g_ptr_array_unref (set_arguments (shell, before, 0));
  return status;
}

/* Takes a command of words. */
static Truth take_command (Shell *shell, const GPtrArray *words, gboolean is_launch)
{
  static const char *const tests[] = { "[", "test", NULL };
  static const char *const done[] = { "true",  ":",       "cd",       "mkdir",   "echo", "source", ".", "export",
                                      "local", "declare", "readonly", "typeset", "set",  "module", NULL };
  const char *name = word_at (words, 0);
  const Function *function = g_hash_table_lookup (shell->functions, name);

  if (shell->mode == SKIPPED || words->len == 0)
    return YES;
  if (function != NULL)
    return call (shell, function, words);
  if (is_one (name, tests)) {
    g_autoptr (GPtrArray) inner = words_new ();

    for (guint i = 1; i < words->len; i++)
      if (!g_str_equal (word_at (words, i), "]"))
        add_word (inner, word_at (words, i), shell->line);
    return test_words (shell, inner, 0);
  }
  if (g_str_equal (name, "false"))
    return NO;
  if (g_str_equal (name, "eval")) {
    g_autoptr (GString) text = g_string_new (NULL);

    for (guint i = 1; i < words->len && text->len < MAX_WORD; i++)
      g_string_append_printf (text, "%s ", word_at (words, i));
    return run_text (shell, text->str);
  }
  if ((g_str_equal (name, "set") && g_str_equal (word_at (words, 1), "--")) || g_str_equal (name, "shift")) {
    g_autoptr (GPtrArray) old = NULL;
    const GPtrArray *all = g_hash_table_lookup (shell->variables, "@");
    gboolean shifts = *name == 's' && name[1] == 'h';

    if (!shifts) {
      old = set_arguments (shell, words, 2);
      if (shell->line == 1 && shell->given == NULL)
        shell->given = g_ptr_array_ref (g_hash_table_lookup (shell->variables, "@"));
    } else if (all != NULL) {
      g_autoptr (GPtrArray) kept = g_ptr_array_ref ((GPtrArray *)all);

      old = set_arguments (shell, kept, (guint)MAX (1, g_ascii_strtoll (word_at (words, 1), NULL, 10)));
    }
    return YES;
  }
  if (g_str_equal (name, "unset"))
    for (guint i = 1; i < words->len; i++)
      g_hash_table_remove (shell->variables, word_at (words, i));
  if (g_str_equal (name, "read"))
    for (guint i = 1; i < words->len; i++) {
      g_autofree char *mark = unknown_text (word_at (words, i), "is read from the input");

      assign_text (shell, word_at (words, i), mark);
    }
  if (g_str_equal (name, "exit") && shell->mode == RUN && shell->depth == 0
      && strchr ("0", *word_at (words, 1)) != NULL)
    shell->at += strlen (shell->at);
  take_launch (shell, words, is_launch);
  for (guint i = 1; i < words->len; i++) /* bash -c "torchrun ..." */
    if (!is_option (word_at (words, i)) && strstr (word_at (words, i), " -") != NULL)
      run_text (shell, word_at (words, i));
  return is_one (name, done) ? YES : doubt (shell, "the outcome of a command is not known");
}

/* Commands are run where the truth is YES; restored by the mode that is returned. */
static Mode enter (Shell *shell, Truth truth)
{
  Mode mode = shell->mode;

  shell->mode = MIN (mode, truth == YES ? RUN : truth == NO ? SKIPPED : MAYBE);
  return mode;
}

/* Whether the word is at the place, as a word of its own; goes to after it. */
static gboolean accept (Shell *shell, const char *word)
{
  gsize n = strlen (word);

  if (strncmp (shell->at, word, n) != 0 || strchr (" \t\r\n;&|()<>", shell->at[n]) == NULL)
    return FALSE;
  shell->at += n;
  return TRUE;
}

static void run_if (Shell *shell, Truth *status)
{
  static const char *const then[] = { "then", NULL }, *const ends[] = { "elif", "else", "fi", NULL };
  Truth left = YES; /* that no branch was taken before */
  Mode outer = shell->mode;

  *status = YES;
  while (TRUE) {
    enter (shell, left);
    Truth truth = run_list (shell, then);
    g_autofree char *reason = g_strdup (shell->doubt);
    shell->mode = outer;
    if (!accept (shell, "then"))
      return;
    enter (shell, MIN (left, truth));
    run_list (shell, ends);
    shell->mode = outer;
    left = MIN (left, YES - truth);
    doubt (shell, reason != NULL ? reason : "");
    if (accept (shell, "elif"))
      continue;
    if (accept (shell, "else")) {
      enter (shell, left);
      run_list (shell, ends);
      shell->mode = outer;
    }
    accept (shell, "fi");
    return;
  }
}

static void run_while (Shell *shell, gboolean until)
{
  static const char *const begin[] = { "do", NULL }, *const ends[] = { "done", NULL };
  const char *at = shell->at;
  guint line = shell->line;
  Truth truth = YES;

  for (guint round = 0; truth == YES && round < MAX_ROUNDS && shell->steps < MAX_STEPS; round++) {
    shell->at = at;
    shell->line = line;
    truth = run_list (shell, begin);
    truth = until ? YES - truth : truth;
    if (!accept (shell, "do"))
      return;
    Mode outer = enter (shell, truth);
    run_list (shell, ends);
    shell->mode = outer;
    accept (shell, "done");
    if (outer == SKIPPED)
      return;
  }
}

static void run_for (Shell *shell)
{
  static const char *const ends[] = { "done", NULL };
  g_autoptr (GPtrArray) items = words_new ();
  g_autofree char *name = NULL;
  gboolean known = TRUE;

  skip_blanks (shell, FALSE);
  if (*shell->at == '(') {
    shell->at++;
    skip_brackets (shell, '(', ')');
    known = FALSE;
  } else {
    name = read_word (shell, NULL);
    skip_blanks (shell, TRUE);
    gboolean lists = accept (shell, "in");
    skip_blanks (shell, FALSE);
    while (lists && *shell->at != '\0' && strchr ("\n;", *shell->at) == NULL) {
      if (strchr ("&|()<>", *shell->at) != NULL)
        shell->at++;
      else
        g_free (read_word (shell, items));
      skip_blanks (shell, FALSE);
    }
    for (guint i = 0; i < items->len; i++)
      known &= strpbrk (word_at (items, i), "\1{") == NULL;
  }
  while (*shell->at == ';' || g_ascii_isspace (*shell->at))
    shell->line += *shell->at++ == '\n';
  if (!accept (shell, "do"))
    return;
  const char *at = shell->at;
  guint line = shell->line, n = known && shell->mode != SKIPPED ? MIN (items->len, MAX_ROUNDS) : 0;
  for (guint round = 0; round < MAX (n, 1) && shell->steps < MAX_STEPS; round++) {
    Mode outer = enter (shell, n > 0 ? YES : shell->mode == SKIPPED ? NO : doubt (shell, "a loop is not followed"));
    g_autofree char *mark = unknown_text (name != NULL ? name : "", "changes in a loop");

    shell->at = at;
    shell->line = line;
    if (name != NULL)
      assign_text (shell, name, n > 0 ? word_at (items, round) : mark);
    run_list (shell, ends);
    shell->mode = outer;
    accept (shell, "done");
  }
}

static void run_case (Shell *shell)
{
  static const char *const ends[] = { "esac", NULL };
  Truth left = YES;

  skip_blanks (shell, FALSE);
  g_autofree char *word = read_word (shell, NULL);
  g_autofree char *reason = find_reason (word);
  skip_blanks (shell, TRUE);
  accept (shell, "in");
  while (*shell->at != '\0' && shell->steps < MAX_STEPS) {
    const char *before = shell->at;
    Truth truth = NO;

    skip_blanks (shell, TRUE);
    if (accept (shell, "esac"))
      return;
    for (shell->at += *shell->at == '('; *shell->at != '\0' && *shell->at != ')';) {
      skip_blanks (shell, TRUE);
      const char *place = shell->at;
      g_autofree char *pattern = read_word (shell, NULL);
      gboolean all = g_str_equal (pattern, "*");

      if (!all && (strchr (word, UNKNOWN) != NULL || strpbrk (pattern, "\1[") != NULL))
        truth = MAX (truth, UNSURE);
      else if (g_pattern_match_simple (pattern, word))
        truth = YES;
      skip_blanks (shell, TRUE);
      shell->at += *shell->at == '|' || shell->at == place;
    }
    shell->at += *shell->at == ')';
    doubt (shell, reason != NULL ? reason : "a pattern is not tried here");
    Mode outer = enter (shell, MIN (left, truth));
    run_list (shell, ends);
    shell->mode = outer;
    left = MIN (left, YES - truth);
    while (*shell->at == ';' || *shell->at == '&')
      shell->at++;
    if (shell->at == before)
      shell->at++;
  }
}

/* Keeps where the body of a function is, and goes to after it. */
static void define (Shell *shell, const char *name)
{
  Function *function = g_new (Function, 1);

  skip_blanks (shell, TRUE);
  if (*shell->at == '(')
    shell->at += strcspn (shell->at, ")\n");
  shell->at += *shell->at == ')';
  skip_blanks (shell, TRUE);
  *function = (Function){ shell->at, shell->line };
  g_ptr_array_add (shell->bodies, function);
  g_hash_table_replace (shell->functions, g_strdup (name), function);
  Mode outer = enter (shell, NO);
  run_command (shell);
  shell->mode = outer;
}

static gboolean is_redirection (const char *at)
{
  return *at == '<' || *at == '>' || (*at == '&' && at[1] == '>');
}

/* A command of words, with its assignments and redirections. */
static Truth run_simple (Shell *shell)
{
  static const char *const declare[] = { "export", "local", "declare", "readonly", "typeset", NULL };
  g_autoptr (GPtrArray) words = words_new ();
  gboolean is_launch = FALSE;

  while (TRUE) {
    const char *before = shell->at;

    is_launch |= skip_blanks (shell, FALSE);
    char c = *shell->at;
    if (is_redirection (shell->at)) {
      const char *number = word_at (words, words->len > 0 ? words->len - 1 : 0);

      if (shell->at == before && words->len > 0 && *number != '\0' && number[strspn (number, G_CSET_DIGITS)] == '\0')
        g_ptr_array_set_size (words, (gint)words->len - 1); /* 2>&1 */
      skip_redirection (shell);
    } else if (c == '\0' || strchr ("\n;&|)", c) != NULL)
      break;
    else if (c == '(') {
      if (words->len == 1 && shell->depth < MAX_DEPTH) {
        g_autofree char *name = g_strdup (word_at (words, 0));

        define (shell, name);
        return YES;
      }
      shell->at++;
    } else if ((words->len > 0 && !is_one (word_at (words, 0), declare)) || !read_assignment (shell))
      g_free (read_word (shell, words));
  }
  return take_command (shell, words, is_launch);
}

static Truth run_command (Shell *shell)
{
  static const char *const ends[] = { "}", NULL };
  Truth status = YES;

  skip_blanks (shell, TRUE);
  if (++shell->steps > MAX_STEPS || shell->copied > MAX_COPIED || shell->depth >= MAX_DEPTH) {
    shell->at += strlen (shell->at);
    return UNSURE;
  }
  shell->depth++;
  guint inner = shell->depth;
  if (accept (shell, "if"))
    run_if (shell, &status);
  else if (accept (shell, "while"))
    run_while (shell, FALSE);
  else if (accept (shell, "until"))
    run_while (shell, TRUE);
  else if (accept (shell, "for") || accept (shell, "select"))
    run_for (shell);
  else if (accept (shell, "case"))
    run_case (shell);
  else if (accept (shell, "function")) {
    skip_blanks (shell, FALSE);
    g_autofree char *name = read_word (shell, NULL);

    define (shell, name);
  } else if (accept (shell, "{")) {
    status = run_list (shell, ends);
    accept (shell, "}");
  } else if (g_str_has_prefix (shell->at, "[[")) {
    status = run_test (shell);
  } else if (g_str_has_prefix (shell->at, "((")) {
    const char *at = shell->at + 2;
    gint64 value;

    shell->at++;
    skip_brackets (shell, '(', ')');
    g_autofree char *text = g_strndup (at, (gsize)MAX (0, shell->at - at - 2));
    status = compute (shell, text, &value) ? (value != 0 ? YES : NO) : doubt (shell, text);
  } else if (*shell->at == '(') {
    shell->at++;
    status = run_list (shell, NULL);
    shell->at += *shell->at == ')';
  } else {
    shell->depth--;
    return run_simple (shell);
  }
  shell->depth = inner - 1;
  while (skip_blanks (shell, FALSE),
         is_redirection (shell->at) || (g_ascii_isdigit (*shell->at) && is_redirection (shell->at + 1))) {
    shell->at += g_ascii_isdigit (*shell->at);
    skip_redirection (shell);
  }
  return status;
}

static Truth run_pipeline (Shell *shell)
{
  skip_blanks (shell, TRUE);
  gboolean negated = accept (shell, "!");
  Truth status = run_command (shell);

  while (skip_blanks (shell, FALSE), *shell->at == '|' && shell->at[1] != '|') {
    shell->at++;
    run_command (shell);
    status = doubt (shell, "the outcome of a pipe is not known");
  }
  return negated ? YES - status : status;
}

/* Commands up to a word of those that end the list, a bracket or ;; of case. Returns the outcome of the last one. */
static Truth run_list (Shell *shell, const char *const *ends)
{
  Truth status = YES;

  while (TRUE) {
    const char *before = shell->at;

    skip_blanks (shell, TRUE);
    for (guint i = 0; ends != NULL && ends[i] != NULL; i++) {
      const char *at = shell->at;

      if (accept (shell, ends[i])) {
        shell->at = at;
        return status;
      }
    }
    if (*shell->at == '\0' || *shell->at == ')' || g_str_has_prefix (shell->at, ";;"))
      return status;
    status = run_pipeline (shell);
    while (skip_blanks (shell, FALSE), g_str_has_prefix (shell->at, "&&") || g_str_has_prefix (shell->at, "||")) {
      gboolean both = *shell->at == '&';

      shell->at += 2;
      Mode outer = enter (shell, both ? status : YES - status);
      Truth next = run_pipeline (shell);
      shell->mode = outer;
      status = both ? MIN (status, next) : MAX (status, next);
    }
    if (*shell->at != '\0' && strchr (";&", *shell->at) != NULL && !g_str_has_prefix (shell->at, ";;"))
      shell->at++;
    else if (shell->at == before)
      shell->at++;
  }
}

/* Keys */

static void key_free (gpointer data)
{
  PsLaunchKey *key = data;

  g_free (key->key);
  g_free (key->value);
  g_free (key->unknown);
  g_free (key);
}

GPtrArray *ps_launch_keys_new (void)
{
  return g_ptr_array_new_with_free_func (key_free);
}

void ps_launch_add_key (GPtrArray *keys, char *key, const char *value, guint line)
{
  PsLaunchKey *added = g_new0 (PsLaunchKey, 1);

  added->key = key;
  added->value = g_strstrip (g_strdup (value));
  added->line = line;
  added->unknown = find_reason (value);
  if (g_str_equal (added->value, "None") || g_str_equal (added->value, "null"))
    key_free (added);
  else
    g_ptr_array_add (keys, added);
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
      ps_launch_add_key (keys, g_steal_pointer (&key), value->str, line);
    g_string_truncate (value, 0);
    if (word == NULL)
      break;
    line = word->line;
    if (mode != NULL)
      ps_launch_add_key (keys, g_strdup ("activation_checkpoint.mode"), mode, line);
    else if (program) {
      const char *known = strrchr (text, KNOWN);

      key = g_strdup ("program");
      g_string_append (value, g_str_equal (text, "-m") ? "" : known != NULL ? known + 1 : text);
    } else {
      gsize n = strcspn (text + 2, "=\1");

      key = g_strdelimit (g_strndup (text + 2, n), "-", '_');
      g_string_append (value, text[2 + n] == '=' ? text + 3 + n : text + 2 + n);
    }
  }
}

/* What Slurm says of nodes and GPUs, which options of the launch win over. */
static void add_slurm (const Shell *shell, GPtrArray *keys)
{
  static const char *const names[][2] = { { "SLURM_NNODES", "nnodes" },
                                          { "SLURM_NTASKS_PER_NODE", "nproc_per_node" },
                                          { "SLURM_GPUS_ON_NODE", "nproc_per_node" } };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    const GPtrArray *words = g_hash_table_lookup (shell->variables, names[i][0]);

    if (words != NULL)
      ps_launch_add_key (keys, g_strdup (names[i][1]), word_at (words, 0), ((Word *)words->pdata[0])->line);
  }
}

/* Looks for the launch in functions that the file does not call, and in variables of a file that another one reads. */
static void find_launch (Shell *shell)
{
  g_autoptr (GPtrArray) none = words_new (), kept = words_new ();
  GHashTableIter each;
  gpointer items;

  const guint n = shell->bodies->len;

  for (guint i = 0; i < n; i++)
    call (shell, shell->bodies->pdata[i], none);
  g_hash_table_iter_init (&each, shell->variables);
  while (shell->score == 0 && g_hash_table_iter_next (&each, NULL, &items)) {
    g_autoptr (GPtrArray) words = words_new ();
    Building word = { .text = g_string_new (NULL), .out = words };

    append_words (shell, items, FALSE, TRUE, TRUE, &word);
    finish_word (&word);
    g_string_free (word.text, TRUE);
    add_word (kept, "", 0);
    for (guint i = 0; i < words->len; i++)
      add_word (kept, word_at (words, i), ((Word *)words->pdata[i])->line);
  }
  take_launch (shell, kept, FALSE);
}

void ps_launch_read_shell (const char *text, PsLaunchKnows *knows, GPtrArray *keys, GPtrArray *documents)
{
  Shell shell = { .at = text,
                  .line = 1,
                  .mode = RUN,
                  .doubt = g_strdup (""),
                  .variables = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, words_unref),
                  .functions = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL),
                  .bodies = g_ptr_array_new_with_free_func (g_free),
                  .texts = g_ptr_array_new_with_free_func (g_free),
                  .documents = documents,
                  .knows = knows,
                  .command = words_new (),
                  .bare = words_new () };

  for (; *shell.at != '\0'; shell.at += *shell.at != '\0')
    run_list (&shell, NULL);
  if (shell.score == 0)
    find_launch (&shell);
  add_slurm (&shell, keys);
  add_words (keys, shell.score > shell.bare->len ? shell.command : shell.bare);
  if (shell.given != NULL)
    add_words (keys, shell.given);
  g_hash_table_unref (shell.variables);
  g_hash_table_unref (shell.functions);
  g_ptr_array_unref (shell.bodies);
  g_ptr_array_unref (shell.texts);
  g_ptr_array_unref (shell.command);
  g_ptr_array_unref (shell.bare);
  g_clear_pointer (&shell.given, g_ptr_array_unref);
  g_free (shell.doubt);
}
