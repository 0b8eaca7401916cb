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
#define ENDS " \t\r\n;&|()<>" /* of a word */
#define UNSET "is not set here"
#define MAX_WORD (1 << 20)
#define MAX_WORDS (1 << 16)
#define MAX_COPIED (64 << 20) /* bytes of all variables that are read */
#define MAX_STEPS 10000       /* commands */
#define MAX_DEPTH 48
#define MAX_ROUNDS 64 /* of a loop */

typedef struct {
  char *text;
  guint line;
} Word;

/* Whether commands are run here; MAYBE: that depends on a condition that is not known. */
typedef enum { SKIPPED, MAYBE, RUN } Mode;

typedef enum { NO, UNSURE, YES } Truth;

typedef struct {
  const char *at;
  guint line;
  const char *resume; /* the end of here-documents, where the next line begins; NULL: there is none */
  guint resume_line;
} Place;

typedef struct {
  const char *at; /* as in Place */
  guint line;
  const char *resume;
  guint resume_line;
  GHashTable *variables; /* name -> GPtrArray of Word; "@" has the arguments */
  GHashTable *functions; /* name -> Place of the body */
  GPtrArray *bodies;     /* all of them */
  GPtrArray *texts;      /* that commands are read from, char * */
  GPtrArray *documents;  /* JSON of here-documents, char * */
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

static Truth run_list (Shell *shell, const char *ends);
static Truth run_command (Shell *shell);
static void read_part (Shell *shell, const char *ends, gboolean quoted, Building *word);

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

/* Adds the words of another array from that one on. */
static void add_words (GPtrArray *words, const GPtrArray *others, guint from)
{
  for (guint i = from; i < others->len; i++)
    add_word (words, ((const Word *)others->pdata[i])->text, ((const Word *)others->pdata[i])->line);
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

/* Whether nothing of the word is known. */
static gboolean is_unknown (const char *text)
{
  return *text == UNKNOWN && strchr (text, KNOWN) == text + strlen (text) - 1;
}

/* Whether the word is one variable or argument that is not set. */
static gboolean is_unset (const char *text)
{
  return is_unknown (text) && strstr (text, "is\3not\3set\3here\2") != NULL && strstr (text, "condition:") == NULL;
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

/* Goes to another text, and returns where to come_back. */
static Place leave (Shell *shell, const char *at, guint line)
{
  const Place place = { shell->at, shell->line, shell->resume, shell->resume_line };

  shell->at = at;
  shell->line = line;
  shell->resume = NULL;
  shell->depth++;
  return place;
}

static void come_back (Shell *shell, Place place)
{
  shell->at = place.at;
  shell->line = place.line;
  shell->resume = place.resume;
  shell->resume_line = place.resume_line;
  shell->depth--;
}

/* Variables */

/* The words of a variable, or of $1, $@, $#; NULL: it is not set. Free with g_ptr_array_unref. */
static GPtrArray *find (const Shell *shell, const char *name)
{
  gboolean counts = *name == '#', numbered = g_ascii_isdigit (*name), arguments = counts || numbered || *name == '*';
  GPtrArray *words = g_hash_table_lookup (shell->variables, arguments ? "@" : name), *one;
  guint64 i = numbered ? g_ascii_strtoull (name, NULL, 10) : 1;
  g_autofree char *count = words != NULL ? g_strdup_printf ("%u", words->len) : NULL;

  if (words == NULL || i == 0 || (numbered && i > words->len))
    return NULL;
  if (!counts && !numbered)
    return g_ptr_array_ref (words);
  one = words_new ();
  add_word (one, counts ? count : word_at (words, (guint)i - 1), shell->line);
  return one;
}

/* Sets $1, $2 ..., $@, $* and $# to words from that one on. */
static void set_arguments (Shell *shell, const GPtrArray *words, guint from)
{
  GPtrArray *all = words_new ();

  add_words (all, words, from);
  g_hash_table_replace (shell->variables, g_strdup ("@"), all);
}

/* The text from that place on, each of its words marked. Free with g_free. */
static char *mark_words (const char *text, gsize from, const char *mark)
{
  g_auto (GStrv) parts = g_strsplit_set (text + from, " \t\n", -1);
  GString *all = g_string_new_len (text, (gssize)from);

  for (guint i = 0; parts[i] != NULL; i++)
    g_string_append_printf (all, "%s%s%s", i > 0 || from > 0 ? " " : "", parts[i], *parts[i] != '\0' ? mark : "");
  return g_string_free (all, FALSE);
}

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
    gboolean longer = !more && before != NULL && before->len == 1 && words->len == 1 && g_str_has_prefix (text, old)
                      && g_ascii_isspace (text[strlen (old)]);

    if (!longer && !more) {
      g_ptr_array_set_size (words, 0);
      add_word (words, mark, shell->line);
    }
    for (guint i = 0; i < words->len && (longer || more); i++) { /* each new word by itself */
      Word *word = words->pdata[i];
      g_autofree char *unmarked = word->text;

      word->text = mark_words (unmarked, longer ? strlen (old) : 0, mark);
    }
  }
  if (more && before != NULL) {
    add_words (before, words, 0);
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

static gint64 compute_from (Sum *sum, guint level);

static gint64 compute_operand (Sum *sum)
{
  gint64 value = 0;

  sum->at += strspn (sum->at, " \t\n");
  if (++sum->depth > MAX_DEPTH)
    sum->failed = TRUE;
  else if (*sum->at == '(') {
    sum->at++;
    value = compute_from (sum, 0);
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

/* Operators of the level and of those that bind more. */
static gint64 compute_from (Sum *sum, guint level)
{
  static const struct {
    const char *sign;
    guint level;
  } operators[] = { { "||", 0 }, { "&&", 1 }, { "==", 2 }, { "!=", 2 }, { "<=", 3 }, { ">=", 3 }, { "<", 3 },
                    { ">", 3 },  { "+", 4 },  { "-", 4 },  { "*", 5 },  { "/", 5 },  { "%", 5 } };
  gint64 value = compute_operand (sum);

  while (!sum->failed) {
    guint i = 0;

    while (i < G_N_ELEMENTS (operators) && !g_str_has_prefix (sum->at, operators[i].sign))
      i++;
    if (i == G_N_ELEMENTS (operators) || operators[i].level < level)
      break;
    sum->at += strlen (operators[i].sign);
    gint64 right = compute_from (sum, operators[i].level + 1), divisor = right != 0 ? right : 1;
    const gint64 results[G_N_ELEMENTS (operators)] = { value || right,
                                                       value && right,
                                                       value == right,
                                                       value != right,
                                                       value <= right,
                                                       value >= right,
                                                       value<right, value>
                                                           right,
                                                       value + right,
                                                       value - right,
                                                       value * right,
                                                       value / divisor,
                                                       value % divisor };
    sum->failed |= (strchr ("/%", *operators[i].sign) != NULL && right == 0) || ABS (results[i]) > G_MAXINT;
    value = results[i];
  }
  return value;
}

/* The value of an expression. FALSE: it is not known. */
static gboolean compute (Shell *shell, const char *text, gint64 *value)
{
  Sum sum = { .shell = shell, .at = text };

  *value = compute_from (&sum, 0);
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
  Building word = { .text = g_string_new (NULL) };

  if (shell->depth < MAX_DEPTH) {
    const Place place = leave (shell, text, shell->line);

    read_part (shell, "", quoted, &word);
    come_back (shell, place);
  }
  return g_string_free (word.text, FALSE);
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

/* An element of an array, "[1]" as index; NULL: it is not known. */
static GPtrArray *find_element (Shell *shell, const GPtrArray *items, const char *index)
{
  g_autofree char *inside = g_strndup (index + 1, strcspn (index + 1, "]"));
  GPtrArray *one;
  gint64 i;

  if (!compute (shell, inside, &i) || i < 0)
    return NULL;
  one = words_new ();
  add_word (one, word_at (items, (guint)MIN (i, MAX_WORDS)), shell->line);
  return one;
}

/* A parameter: what stands in ${ }, or after a dollar sign. */
static void expand_parameter (Shell *shell, const char *inside, gboolean quoted, Building *word)
{
  gboolean counted = inside[0] == '#' && inside[1] != '\0', indirect = inside[0] == '!' && inside[1] != '\0';
  const char *plain = inside + (counted || indirect);
  gsize n = *plain != '\0' && strchr ("@*#?$!-", *plain) != NULL ? 1 : strspn (plain, NAME_LETTERS);
  g_autofree char *name = g_strndup (plain, n), *numbered = g_strconcat ("$", name, NULL);
  const char *rest = plain + n, *shown = g_ascii_isalpha (*name) || *name == '_' ? name : numbered;
  gboolean array = is_list (rest) || *name == '@' || *name == '*';
  gboolean split = *name == '@' || g_str_has_prefix (rest, "[@]");
  g_autoptr (GPtrArray) items = find (shell, name);

  rest += is_list (rest) ? 3 : 0;
  if (items != NULL && ((indirect && *rest == '\0') || *rest == '[')) {
    GPtrArray *other = *rest == '[' ? find_element (shell, items, rest) : find (shell, word_at (items, 0));

    g_ptr_array_unref (items);
    items = other;
    rest += strcspn (rest, "]");
    rest += *rest == ']';
  }
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
    append_unknown (word->text, shown, UNSET);
  else if (n > 0 && (*rest == '\0' || *operation == '?')) {
    if (items != NULL)
      append_words (shell, items, quoted, array, split, word);
  } else if (items != NULL || !array) {
    g_autofree char *changed = items != NULL && !array && strchr ("%#/:^,", *rest) != NULL
                                   ? change_text (shell, word_at (items, 0), rest)
                                   : NULL;

    if (changed != NULL)
      g_string_append (word->text, changed);
    else
      append_unknown (word->text, n > 0 ? name : inside, "is changed where it is read, which needs a shell");
  }
}

/* $(( )); a command in $( ) is not run. */
static void expand_brackets (Shell *shell, Building *word)
{
  const char *at = shell->at++;
  gboolean sums = *shell->at == '(';
  gint64 value;

  skip_brackets (shell, '(', ')');
  gsize length = (gsize)(shell->at - at);
  g_autofree char *shown = g_strdup_printf ("$%.*s", (int)MIN (length, 40), at);
  g_autofree char *inside = sums && length > 4 ? g_strndup (at + 2, length - 4) : g_strdup ("");
  g_autofree char *plain = expand_text (shell, inside, FALSE), *reason = find_reason (plain);
  if (sums && compute (shell, plain, &value))
    g_string_append_printf (word->text, "%" G_GINT64_FORMAT, value);
  else
    append_unknown (word->text, reason != NULL ? reason : shown,
                    reason != NULL ? ""
                    : sums         ? "is not computed here"
                                   : "is not run here");
}

/* What follows a dollar sign. */
static void expand (Shell *shell, gboolean quoted, Building *word)
{
  const char *at = ++shell->at;
  gsize n = g_ascii_isdigit (*at) || (*at != '\0' && strchr ("@*#?$!-", *at) != NULL) ? 1 : strspn (at, NAME_LETTERS);
  g_autofree char *name = g_strndup (at, n);

  if (*at == '(')
    expand_brackets (shell, word);
  else if (*at == '{') {
    shell->at++;
    skip_brackets (shell, '{', '}');
    g_autofree char *inside = g_strndup (at + 1, (gsize)MAX (0, shell->at - at - 2));

    if (shell->at[-1] == '}')
      expand_parameter (shell, inside, quoted, word);
    else
      append_unknown (word->text, "${", "has no end");
  } else if (n > 0) {
    shell->at += n;
    expand_parameter (shell, name, quoted, word);
  } else if (*at != '\'') /* a string with escapes */
    g_string_append_c (word->text, '$');
}

/* Reads on up to one of those letters; quoted: within double quotes. */
static void read_part (Shell *shell, const char *ends, gboolean quoted, Building *word)
{
  while (*shell->at != '\0' && strchr (ends, *shell->at) == NULL && word->text->len < MAX_WORD) {
    char c = *shell->at;

    if (c == '\\' && (!quoted || strchr ("\"\\$`\n", shell->at[1]) != NULL)) {
      c = *++shell->at;
      shell->line += c == '\n';
      if (c != '\n' && c != '\0')
        g_string_append_c (word->text, c);
      shell->at += c != '\0';
    } else if (c == UNKNOWN) { /* of a text that is read again */
      gsize n = strcspn (shell->at, "\2");

      g_string_append_len (word->text, shell->at, (gssize)n);
      shell->at += n;
    } else if (c == '$')
      expand (shell, quoted, word);
    else if (c == '`') {
      append_unknown (word->text, "`...`", "is not run here");
      shell->at++;
      skip_brackets (shell, '`', '`');
    } else if (c == '"') {
      shell->at++;
      if (!quoted)
        read_part (shell, "\"", TRUE, word);
      shell->at += !quoted && *shell->at == '"';
      word->quoted = TRUE;
    } else if (c == '\'' && !quoted) {
      for (shell->at++; *shell->at != '\0' && *shell->at != '\''; shell->line += *shell->at++ == '\n')
        g_string_append_c (word->text, *shell->at);
      shell->at += *shell->at == '\'';
      word->quoted = TRUE;
    } else {
      shell->line += c == '\n';
      g_string_append_c (word->text, c);
      shell->at++;
    }
  }
}

/* Reads a word, which may become several; out NULL: it is one, and returned. */
static char *read_word (Shell *shell, GPtrArray *out)
{
  Building word = { .text = g_string_new (NULL), .line = shell->line, .out = out };

  read_part (shell, ENDS, FALSE, &word);
  finish_word (&word);
  return g_string_free (word.text, out != NULL);
}

/* Commands */

/* What Slurm is told of nodes and GPUs: options in comments and of sbatch, the variables that it sets by them, and the
 * key. */
static const struct {
  const char *options[2], *names[2], *key;
} slurm[] = {
  { { "--nodes", "-N" }, { "SLURM_NNODES", "SLURM_JOB_NUM_NODES" }, "nnodes" },
  { { "--ntasks-per-node" }, { "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE" }, "nproc_per_node" },
  { { "--gpus-per-node", "--gres" }, { "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE" }, "nproc_per_node" },
};

/* What the command line says of it, in the first line, wins over the script. */
static void read_slurm (Shell *shell, const char *comment)
{
  g_autofree char *line = g_strndup (comment, strcspn (comment, "\r\n"));

  for (guint i = 0; i < 2 * G_N_ELEMENTS (slurm); i++) {
    const char *option = slurm[i / 2].options[i % 2], *place = option != NULL ? strstr (line, option) : NULL;

    if (place == NULL)
      continue;
    const char *value = place + strlen (option);
    const gboolean joined = option[1] != '-' && g_ascii_isdigit (*value); /* -N4 */
    if (*value != '=' && *value != ' ' && !joined)
      continue;
    value += !joined;
    g_autofree char *text = g_strndup (value, strcspn (value, " \t#"));
    const char *number = strrchr (text, ':') != NULL ? strrchr (text, ':') + 1 : text; /* gpu:a100:8 */
    for (guint k = 0; k < 2 && g_ascii_isdigit (*number) && number[strspn (number, G_CSET_DIGITS)] == '\0'; k++) {
      const GPtrArray *before = g_hash_table_lookup (shell->variables, slurm[i / 2].names[k]);

      if (before == NULL || shell->line == 1 || ((const Word *)before->pdata[0])->line > 1)
        assign_text (shell, slurm[i / 2].names[k], number);
    }
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

/* Reads words up to one of those letters, over several lines unless a line ends them. */
static void read_words (Shell *shell, const char *ends, GPtrArray *words)
{
  gboolean lines = strchr (ends, '\n') == NULL;

  while (skip_blanks (shell, lines), *shell->at != '\0' && strchr (ends, *shell->at) == NULL)
    if (strchr (ENDS, *shell->at) != NULL)
      shell->at++;
    else
      g_free (read_word (shell, words));
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
  value = words_new ();
  if (*shell->at == '(') {
    shell->at++;
    read_words (shell, ")", value);
    shell->at += *shell->at == ')';
  } else {
    const GPtrArray *before = g_hash_table_lookup (shell->variables, name);
    g_autofree char *rest = read_word (shell, NULL);
    g_autofree char *text = g_strconcat (more && before != NULL ? word_at (before, 0) : "", rest, NULL);

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
  Truth status = UNSURE;

  if (shell->depth >= MAX_DEPTH)
    return UNSURE;
  shell->copied += strlen (text);
  g_ptr_array_add (shell->texts, g_strdup (text));
  const Place place = leave (shell, shell->texts->pdata[shell->texts->len - 1], shell->line);
  for (; *shell->at != '\0'; shell->at += *shell->at != '\0')
    status = run_list (shell, "");
  come_back (shell, place);
  return status;
}

/* A here-document: JSON is kept, a script for another shell is read. */
static void take_document (Shell *shell, GString *body, gboolean literal)
{
  gboolean json = body->str[strspn (body->str, " \t\n")] == '{';

  if (shell->mode == SKIPPED || (!json && strstr (body->str, " --") == NULL))
    return;
  if (!json && !literal) /* \$ is for the other shell */
    g_string_replace (body, "\\$", "$", 0);
  else if (json && !literal) {
    g_string_replace (body, "\"", "\\\"", 0);
    g_autofree char *expanded = expand_text (shell, body->str, TRUE);
    g_autoptr (GRegex) unknown = g_regex_new ("\"?\1[^\2]*\2\"?", 0, 0, NULL);
    g_autofree char *known = g_regex_replace_literal (unknown, expanded, -1, 0, "null", 0, NULL);

    g_string_assign (body, known != NULL ? known : "");
  }
  if (json)
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
  take_document (shell, body, literal);
}

/* What a test says of words between [ and ], from *i on; level 0 is "or", 1 "and", 2 a comparison. */
static Truth test (Shell *shell, const GPtrArray *words, guint *i, guint level)
{
  static const char *const joins[][3] = { { "||", "-o", NULL }, { "&&", "-a", NULL } };
  static const char *const operators[] = { "=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge" };

  if (level < 2) {
    Truth truth = test (shell, words, i, level + 1);

    while (*i < words->len && g_strv_contains (joins[level], word_at (words, *i))) {
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
  if (*i >= words->len || g_strv_contains (joins[0], second) || g_strv_contains (joins[1], second)
      || g_str_equal (second, ")"))
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

/* [ ... ] or [[ ... ]], from after its begin on. */
static Truth run_test (Shell *shell, const char *end)
{
  g_autoptr (GPtrArray) words = words_new ();
  gboolean lines = end[1] != '\0';
  guint i = 0;

  while (skip_blanks (shell, lines), *shell->at != '\0' && (lines || strchr (";\n", *shell->at) == NULL)) {
    const char *at = shell->at;
    gboolean sign = strchr (ENDS, *at) != NULL, twice = sign && at[1] == *at && strchr ("&|", *at) != NULL;
    g_autofree char *word = sign ? g_strndup (at, 1 + twice) : read_word (shell, NULL);

    shell->at += sign + twice;
    if (g_str_equal (word, end))
      break;
    add_word (words, word, shell->line);
  }
  return words->len > 0 ? test (shell, words, &i, 0) : NO;
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

      score += ps_launch_key_row (PS_LAUNCH_WORDS, key) != NULL ? 4 : 0;
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

static Truth call (Shell *shell, const Place *function, const GPtrArray *words)
{
  g_autoptr (GPtrArray) before = find (shell, "@");
  Mode mode = shell->mode;

  if (shell->depth >= MAX_DEPTH)
    return UNSURE;
  set_arguments (shell, words, 1);
  const Place place = leave (shell, function->at, function->line);
  Truth status = run_command (shell);
  come_back (shell, place);
  shell->mode = mode;
  if (before == NULL)
    g_hash_table_remove (shell->variables, "@");
  else
    set_arguments (shell, before, 0);
  return status;
}

/* Takes a command of words. */
static Truth take_command (Shell *shell, const GPtrArray *words, gboolean is_launch)
{
  static const char *const done[] = { "true",  ":",       "cd",       "mkdir",   "echo", "source", ".", "export",
                                      "local", "declare", "readonly", "typeset", "set",  "module", NULL };
  const char *name = word_at (words, 0), *first = word_at (words, 1);
  const Place *function = g_hash_table_lookup (shell->functions, name);

  if (shell->mode == SKIPPED || words->len == 0)
    return YES;
  if (function != NULL)
    return call (shell, function, words);
  if (g_str_equal (name, "eval")) {
    g_autoptr (GString) text = g_string_new (NULL);

    for (guint i = 1; i < words->len && text->len < MAX_WORD; i++)
      g_string_append_printf (text, "%s ", word_at (words, i));
    return run_text (shell, text->str);
  }
  if (g_str_equal (name, "sbatch") && shell->line == 1) {
    g_autoptr (GString) options = g_string_new (NULL);

    for (guint i = 1; i < words->len; i++)
      g_string_append_printf (options, " %s", word_at (words, i));
    read_slurm (shell, options->str);
    return YES;
  }
  if (g_str_equal (name, "set") && g_str_equal (first, "--")) {
    set_arguments (shell, words, 2);
    if (shell->line == 1 && shell->given == NULL)
      shell->given = find (shell, "@");
    return YES;
  }
  if (g_str_equal (name, "shift")) {
    g_autoptr (GPtrArray) all = find (shell, "@");

    if (all != NULL)
      set_arguments (shell, all, (guint)MAX (1, g_ascii_strtoll (first, NULL, 10)));
    return YES;
  }
  for (guint i = 1; i < words->len; i++) {
    const char *word = word_at (words, i);
    g_autofree char *mark = g_str_equal (name, "read") ? unknown_text (word, "is read from the input") : NULL;

    if (mark != NULL)
      assign_text (shell, word, mark);
    else if (g_str_equal (name, "unset"))
      g_hash_table_remove (shell->variables, word);
  }
  if (g_str_equal (name, "exit") && shell->mode == RUN && shell->depth == 0 && strchr ("0", *first) != NULL)
    shell->at += strlen (shell->at);
  take_launch (shell, words, is_launch);
  for (guint i = 1; i < words->len; i++) /* bash -c "torchrun ..." */
    if (!is_option (word_at (words, i)) && strstr (word_at (words, i), " -") != NULL)
      run_text (shell, word_at (words, i));
  return g_strv_contains (done, name) ? YES : doubt (shell, "the outcome of a command is not known");
}

/* Commands are run where the truth is YES; restored by the mode that is returned. */
static Mode enter (Shell *shell, Truth truth)
{
  Mode mode = shell->mode;

  shell->mode = MIN (mode, truth == YES ? RUN : truth == NO ? SKIPPED : MAYBE);
  return mode;
}

/* The length of the first of several words that is at the place, as a word of its own; 0: none is. */
static gsize match (const Shell *shell, const char *words)
{
  for (; *words != '\0'; words += strspn (words, " ")) {
    gsize n = strcspn (words, " ");

    if (strncmp (shell->at, words, n) == 0 && strchr (ENDS, shell->at[n]) != NULL)
      return n;
    words += n;
  }
  return 0;
}

/* Goes to after the word, if it is at the place. */
static gboolean accept (Shell *shell, const char *word)
{
  gsize n = match (shell, word);

  shell->at += n;
  return n > 0;
}

/* Runs commands up to a word where the truth is YES. */
static Truth run_body (Shell *shell, Truth truth, const char *ends)
{
  Mode outer = enter (shell, truth);
  Truth status = run_list (shell, ends);

  shell->mode = outer;
  return status;
}

static void run_if (Shell *shell)
{
  Truth left = YES; /* that no branch was taken before */

  do {
    Truth truth = run_body (shell, left, "then");
    g_autofree char *reason = g_strdup (shell->doubt);

    if (!accept (shell, "then"))
      return;
    run_body (shell, MIN (left, truth), "elif else fi");
    left = MIN (left, YES - truth);
    doubt (shell, reason);
  } while (accept (shell, "elif"));
  if (accept (shell, "else"))
    run_body (shell, left, "fi");
  accept (shell, "fi");
}

static void run_while (Shell *shell)
{
  const char *at = shell->at;
  guint line = shell->line;
  Truth truth = YES;

  for (guint round = 0; truth == YES && round < MAX_ROUNDS && shell->steps < MAX_STEPS; round++) {
    shell->at = at;
    shell->line = line;
    truth = run_list (shell, "do");
    if (!accept (shell, "do"))
      return;
    run_body (shell, truth, "done");
    accept (shell, "done");
    if (shell->mode == SKIPPED)
      return;
  }
}

static void run_for (Shell *shell)
{
  g_autoptr (GPtrArray) items = words_new ();
  g_autofree char *name = NULL;
  gboolean known = TRUE;

  skip_blanks (shell, FALSE);
  if (*shell->at == '(') {
    shell->at++;
    skip_brackets (shell, '(', ')');
  } else {
    name = read_word (shell, NULL);
    skip_blanks (shell, TRUE);
    if (accept (shell, "in"))
      read_words (shell, ";\n", items);
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
    run_list (shell, "done");
    shell->mode = outer;
    accept (shell, "done");
  }
}

/* Reads the patterns of a branch up to ). */
static Truth match_patterns (Shell *shell, const char *word)
{
  Truth truth = NO;

  for (shell->at += *shell->at == '('; *shell->at != '\0' && *shell->at != ')';) {
    skip_blanks (shell, TRUE);
    const char *place = shell->at;
    g_autofree char *pattern = read_word (shell, NULL);

    if (!g_str_equal (pattern, "*") && (strchr (word, UNKNOWN) != NULL || strpbrk (pattern, "\1[") != NULL))
      truth = MAX (truth, UNSURE);
    else if (g_pattern_match_simple (pattern, word))
      truth = YES;
    skip_blanks (shell, TRUE);
    shell->at += *shell->at == '|' || shell->at == place;
  }
  shell->at += *shell->at == ')';
  return truth;
}

static void run_case (Shell *shell)
{
  Truth left = YES;

  skip_blanks (shell, FALSE);
  g_autofree char *word = read_word (shell, NULL);
  g_autofree char *reason = find_reason (word);
  skip_blanks (shell, TRUE);
  accept (shell, "in");
  while (skip_blanks (shell, TRUE), *shell->at != '\0' && shell->steps < MAX_STEPS && !accept (shell, "esac")) {
    const char *before = shell->at;
    Truth truth = match_patterns (shell, word);

    doubt (shell, reason != NULL ? reason : "a pattern is not tried here");
    run_body (shell, MIN (left, truth), "esac");
    left = MIN (left, YES - truth);
    shell->at += strspn (shell->at, ";&");
    shell->at += shell->at == before;
  }
}

/* Keeps where the body of a function is, and goes to after it. */
static void define (Shell *shell, const char *name)
{
  Place *function = g_new (Place, 1);

  skip_blanks (shell, TRUE);
  if (*shell->at == '(')
    shell->at += strcspn (shell->at, ")\n");
  shell->at += *shell->at == ')';
  skip_blanks (shell, TRUE);
  *function = (Place){ .at = shell->at, .line = shell->line };
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
    } else if ((words->len > 0 && !g_strv_contains (declare, word_at (words, 0))) || !read_assignment (shell))
      g_free (read_word (shell, words));
  }
  return take_command (shell, words, is_launch);
}

/* A command with others in it. FALSE: none is at the place. */
static gboolean run_compound (Shell *shell, Truth *status)
{
  const char *at = shell->at;
  gint64 value;

  if (accept (shell, "if"))
    run_if (shell);
  else if (accept (shell, "while"))
    run_while (shell);
  else if (accept (shell, "for"))
    run_for (shell);
  else if (accept (shell, "case"))
    run_case (shell);
  else if (accept (shell, "function")) {
    skip_blanks (shell, FALSE);
    g_autofree char *name = read_word (shell, NULL);

    define (shell, name);
  } else if (accept (shell, "{")) {
    *status = run_list (shell, "}");
    accept (shell, "}");
  } else if (accept (shell, "[["))
    *status = run_test (shell, "]]");
  else if (accept (shell, "["))
    *status = run_test (shell, "]");
  else if (g_str_has_prefix (at, "((")) {
    shell->at++;
    skip_brackets (shell, '(', ')');
    g_autofree char *text = g_strndup (at + 2, (gsize)MAX (0, shell->at - at - 4));

    *status = compute (shell, text, &value) ? (value != 0 ? YES : NO) : doubt (shell, text);
  } else if (*at == '(') {
    shell->at++;
    *status = run_list (shell, "");
    shell->at += *shell->at == ')';
  } else
    return FALSE;
  return TRUE;
}

static Truth run_command (Shell *shell)
{
  Truth status = YES;

  skip_blanks (shell, TRUE);
  if (++shell->steps > MAX_STEPS || shell->copied > MAX_COPIED || shell->depth >= MAX_DEPTH) {
    shell->at += strlen (shell->at);
    return UNSURE;
  }
  shell->depth++;
  gboolean compound = run_compound (shell, &status);
  shell->depth--;
  if (!compound)
    return run_simple (shell);
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
static Truth run_list (Shell *shell, const char *ends)
{
  Truth status = YES;

  while (TRUE) {
    const char *before = shell->at;

    skip_blanks (shell, TRUE);
    if (*shell->at == '\0' || *shell->at == ')' || g_str_has_prefix (shell->at, ";;") || match (shell, ends) > 0)
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
    if (!g_str_has_prefix (shell->at, ";;"))
      shell->at += strchr (";&", *shell->at) != NULL ? *shell->at != '\0' : shell->at == before;
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

static void add_option (GPtrArray *keys, char *key, const char *value, gboolean word, guint line)
{
  const guint n = keys->len;

  ps_launch_add_key (keys, key, value, line);
  if (keys->len > n && word) {
    PsLaunchKey *added = keys->pdata[n];

    added->word = is_unknown (value);
    added->unset = is_unset (value);
  }
}

/* Options with the words after them. A variable that is not set is no word after others. */
static void add_options (GPtrArray *keys, const GPtrArray *words)
{
  g_autofree char *key = NULL;
  g_autoptr (GString) value = g_string_new (NULL);
  gboolean apart = FALSE; /* the value is of words after the option */
  guint line = 0;

  for (guint i = 0; i <= words->len; i++) {
    const Word *word = i < words->len ? words->pdata[i] : NULL;
    const char *text = word != NULL ? word->text : "--end";
    gboolean program = g_str_has_suffix (text, ".py") || g_str_equal (text, "-m");
    const char *mode = g_str_has_prefix (text, "activation_checkpoint:") ? strchr (text, ':') + 1 : NULL;

    if (!is_option (text) && !program && mode == NULL) {
      apart |= value->len == 0;
      if (value->len == 0 || !is_unknown (text))
        g_string_append_printf (value, "%s%s", value->len > 0 ? " " : "", text);
      else if (!is_unset (text))
        add_option (keys, g_strdup (""), text, TRUE, word->line);
      continue;
    }
    if (key != NULL)
      add_option (keys, g_steal_pointer (&key), value->str, apart, line);
    apart = FALSE;
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
    add_words (kept, words, 0);
  }
  take_launch (shell, kept, FALSE);
}

void ps_launch_read_shell (const char *text, GPtrArray *keys, GPtrArray *documents)
{
  Shell shell
      = { .at = text,
          .line = 1,
          .mode = RUN,
          .doubt = g_strdup (""),
          .variables = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_ptr_array_unref),
          .functions = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL),
          .bodies = g_ptr_array_new_with_free_func (g_free),
          .texts = g_ptr_array_new_with_free_func (g_free),
          .documents = documents,
          .command = words_new (),
          .bare = words_new () };

  for (; *shell.at != '\0'; shell.at += *shell.at != '\0')
    run_list (&shell, "");
  if (shell.score == 0)
    find_launch (&shell);
  for (guint i = 0; i < G_N_ELEMENTS (slurm); i++) {
    g_autoptr (GPtrArray) words = find (&shell, slurm[i].names[0]);

    if (words != NULL)
      ps_launch_add_key (keys, g_strdup (slurm[i].key), word_at (words, 0), ((Word *)words->pdata[0])->line);
  }
  add_options (keys, shell.score > shell.bare->len ? shell.command : shell.bare);
  if (shell.given != NULL)
    add_options (keys, shell.given);
  g_hash_table_unref (shell.variables);
  g_hash_table_unref (shell.functions);
  g_ptr_array_unref (shell.bodies);
  g_ptr_array_unref (shell.texts);
  g_ptr_array_unref (shell.command);
  g_ptr_array_unref (shell.bare);
  g_clear_pointer (&shell.given, g_ptr_array_unref);
  g_free (shell.doubt);
}
