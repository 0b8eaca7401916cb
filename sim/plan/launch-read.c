/* launch-read.c - --from: the launch of a framework as options of pipesim. */
#include "launch-private.h"

#include "base/text.h"
#include "model/launch-text.h"

#include <string.h>

/* torchtitan's TrainingConfig where nothing is said */
#define TITAN_BATCH 8
#define TITAN_SEQUENCE 2048

const PsOption ps_from_rows[] = {
  PS_OPTION ("from", 0, PS_FILE (PsFromChoice, from), "FILE",
             "Take the setting of a launch: a script, arguments, log or YAML of Megatron-LM, TOML or words of "
             "torchtitan, JSON of DeepSpeed, or a config.json; other options win over it",
             .group = PS_GROUP_WHAT),
  PS_OPTION ("print-command", 0, PS_FLAG (PsFromChoice, print_command), NULL,
             "With --from: print the command line that the file stands for, and do no more", .group = PS_GROUP_OUTPUT),
  PS_OPTION_END,
};

typedef struct {
  const PsLaunchFacts *facts;
  const PsOption *rows;
  char *const *argv;
  gboolean searches; /* layouts: the command gets the model and the batch */
  gboolean titan;
  gboolean hybrid;
  PsModel *model; /* NULL: not known */
  GPtrArray *words;
  GString *unused; /* ", --replicas": options of a setting that the command does not have */
  GString *notes;
  PsLaunchCommand *command;
  GError *error; /* the first one */
} Reader;

/* The row of the command that people may give; NULL: it has none. include: the row that includes these rows. */
static const PsOption *find_row (const PsOption *rows, const PsOption *include, const char *name)
{
  for (; rows->name != NULL; rows++) {
    const PsOption *inner = rows->rows != NULL ? find_row (rows->rows, rows, name) : NULL;

    if (inner != NULL)
      return inner;
    if (rows->rows == NULL && g_str_equal (rows->name, name) && !rows->hidden
        && (include == NULL
            || (!(rows->flags & include->flags) && (include->only == 0 || rows->flags & include->only))))
      return rows;
  }
  return NULL;
}

/* What the command line gives the option: "" without a value; NULL: it is not given. */
static const char *find_given (const PsOption *row, char *const *argv)
{
  for (; *argv != NULL && !g_str_equal (*argv, "--"); argv++) {
    const char *word = *argv, *next = argv[1] != NULL ? argv[1] : "";

    if (g_str_has_prefix (word, "--") && g_str_has_prefix (word + 2, row->name)) {
      const char *rest = word + 2 + strlen (row->name);

      if (*rest == '\0' || *rest == '=')
        return *rest == '=' ? rest + 1 : next;
    }
    if (row->letter != 0 && word[0] == '-' && word[1] == row->letter)
      return word[2] != '\0' ? word + 2 : next;
  }
  return NULL;
}

/* The command line's value of the option that a fact is about, "recompute.method" of recompute; NULL: it gives none. */
static const char *find_given_for (const Reader *reader, const char *name)
{
  g_autofree char *option = g_strndup (name, strcspn (name, "."));
  const PsOption *row = find_row (reader->rows, NULL, option);

  return row != NULL ? find_given (row, reader->argv) : NULL;
}

/* Whether the line gives costs, which say the model, its formats and the GPUs of a device themselves. Runs on a cluster
 * (--costs-from with --cluster) do not. */
static gboolean has_costs (const Reader *reader)
{
  return find_given_for (reader, "db") != NULL || find_given_for (reader, "costs") != NULL
         || (find_given_for (reader, "costs-from") != NULL && find_given_for (reader, "cluster") == NULL);
}

/* Adds an option that the command has and its line does not give. One that others have is noted. */
static void G_GNUC_PRINTF (3, 4) add (Reader *reader, const char *name, const char *format, ...)
{
  static const char *const orders[] = { "schedule", "devices",   "chunks", "microbatches", "group", "defer-head",
                                        "replicas", "recompute", "gpus",   "global-batch", NULL };
  const PsOption *row = find_row (reader->rows, NULL, name);
  const PsOption *other = row == NULL && !reader->searches ? ps_option_find (ps_setting_options, name) : NULL;
  va_list arguments;

  if (other != NULL && !other->hidden && !g_str_equal (name, "layout")) /* that is what partition finds */
    g_string_append_printf (reader->unused, ", --%s", name);
  if (row == NULL || find_given (row, reader->argv) != NULL || (has_costs (reader) && !g_strv_contains (orders, name)))
    return;
  g_ptr_array_add (reader->words,
                   row->letter != 0 ? g_strdup_printf ("-%c", row->letter) : g_strconcat ("--", name, NULL));
  va_start (arguments, format);
  if (row->type != PS_OPTION_FLAG)
    g_ptr_array_add (reader->words, g_strdup_vprintf (format, arguments));
  va_end (arguments);
}

/* Adds one that says how the work is laid out, which commands that search layouts find out. */
#define add_layout(reader, name, ...) ((reader)->searches ? (void)0 : add (reader, name, __VA_ARGS__))

/* A value that only an execution would tell is an error, unless the command line gives it or finds it out. */
static const char *fact (Reader *reader, const char *name)
{
  if (reader->error == NULL && find_given_for (reader, name) == NULL)
    ps_launch_known (reader->facts, name, &reader->error);
  return ps_launch_fact (reader->facts, name);
}

static gboolean is (Reader *reader, const char *name)
{
  return fact (reader, name) != NULL && ps_launch_is (reader->facts, name);
}

static void G_GNUC_PRINTF (2, 3) fail (Reader *reader, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *problem = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  if (reader->error == NULL)
    ps_refuse (&reader->error, PS_ERROR_INPUT, "%s: %s", reader->facts->where, problem);
}

/* The number of a fact, or of the command line's option of that name. */
static gint64 count (Reader *reader, const char *name, gint64 otherwise)
{
  const PsOption *row = find_row (reader->rows, NULL, name);
  const char *given = row != NULL && (row->type == PS_OPTION_COUNT || row->type == PS_OPTION_COUNTS)
                          ? find_given (row, reader->argv)
                          : NULL;
  gint64 value = given != NULL ? g_ascii_strtoll (given, NULL, 10)
                               : ps_launch_count (reader->facts, name, otherwise, &reader->error);

  return value > 0 || value == otherwise ? value : (fail (reader, "%s is not positive", name), 1);
}

/* The number of a fact; otherwise where it is not said, and 0 where only an execution would tell it. */
static gint64 count_known (Reader *reader, const char *name, gint64 otherwise)
{
  return ps_launch_known (reader->facts, name, NULL) ? count (reader, name, otherwise) : 0;
}

/* The exact quotient, 1 on error. */
static gint64 divide (Reader *reader, const char *what, gint64 a, const char *by, gint64 b)
{
  if (b < 1 || a < b || a % b != 0) {
    fail (reader, "%s %" G_GINT64_FORMAT " is no multiple of %s, %" G_GINT64_FORMAT, what, a, by, b);
    return 1;
  }
  return a / b;
}

/* The stages that modules say: "tok_embeddings,layers.0 layers.1,norm,output", or lists of TOML. Free with g_free. */
static char *parts_layout (const char *parts)
{
  gboolean toml = *parts == '[';
  g_auto (GStrv) stages = g_strsplit (parts + toml, toml ? "]" : " ", -1);
  g_autoptr (GString) layout = g_string_new (NULL);

  for (char **stage = stages; *stage != NULL && !(toml && strchr (*stage, '[') == NULL); stage++) {
    g_string_append_printf (layout, "%s%s", stage > stages ? "|" : "", strstr (*stage, "tok_emb") != NULL ? "E" : "");
    for (const char *at = strstr (*stage, "layers."); at != NULL; at = strstr (at + 1, "layers."))
      g_string_append_c (layout, 't');
    g_string_append (layout, strstr (*stage, "output") != NULL || strstr (*stage, "lm_head") != NULL ? "L" : "");
  }
  return g_string_free (g_steal_pointer (&layout), FALSE);
}

/* The same of DeepSpeed's parts: the first of embedding, layers and head that each stage has, and the end. */
static char *cuts_layout (const char *cuts)
{
  g_auto (GStrv) first = g_strsplit (cuts, ",", -1);
  g_autoptr (GString) layout = g_string_new ("E");

  for (guint s = 0; first[s] != NULL && first[s + 1] != NULL && layout->len < PS_MAX_STAGES; s++) {
    gint64 n = g_ascii_strtoll (first[s + 1], NULL, 10) - g_ascii_strtoll (first[s], NULL, 10);
    gboolean last = first[s + 2] == NULL;

    for (n -= (s == 0) + last; n > 0 && layout->len < PS_MAX_STAGES; n--)
      g_string_append_c (layout, 't');
    g_string_append (layout, last ? "L" : "|");
  }
  return g_string_free (g_steal_pointer (&layout), FALSE);
}

/* The stages that torchtitan makes of layers (generate_llm_fqn_per_model_part): shares of the layers, with as many more
 * for what comes before the first and after the last. Free with g_free. */
static char *titan_layout (gint64 layers, gint64 n_stages, gint64 first, gint64 last)
{
  g_autoptr (GString) layout = g_string_new ("E");
  gint64 share = (layers + first + last) / n_stages, more = (layers + first + last) % n_stages;

  for (gint64 s = 0, left = layers; s < n_stages; s++) {
    gint64 n = share + (s < more) - (s == 0 ? first : s == n_stages - 1 ? last : 0);

    n = CLAMP (n, 0, left);
    left -= n;
    if (n > 0)
      g_string_append_printf (layout, "t*%" G_GINT64_FORMAT, n);
    g_string_append (layout, s == n_stages - 1 ? "L" : "|");
  }
  return g_string_free (g_steal_pointer (&layout), FALSE);
}

/* torchtitan's stages of a device: one or two by the class of the schedule, unless layers of a stage are said. */
static gint64 titan_chunks (Reader *reader, gint64 p, gint64 first, gint64 last)
{
  const char *torch = fact (reader, "schedule.torch");
  const PsFamily *family = torch != NULL ? ps_family_find (torch) : NULL;
  gint64 each = count (reader, "chunks.layers", 0);

  if (each > 0) {
    g_autofree char *what = g_strdup_printf ("layers per stage %" G_GINT64_FORMAT " of %u + %" G_GINT64_FORMAT
                                             " layers (embedding and head count as these): stages",
                                             each, reader->model->layers, first + last);

    return divide (reader, what, (reader->model->layers + first + last + each - 1) / each, "-p", p);
  }
  return family != NULL && family->default_chunks > 1 ? 2 : 1;
}

/* Stages of a device by a layout string or pattern; 0: it is none of p devices. */
static gint64 layout_chunks (const char *layout, const PsModel *model, gint64 p)
{
  guint n = 0;
  g_autofree PsStageShape *shapes = ps_layout_parse ("layout", layout, model, &n, NULL);

  return shapes != NULL && n % p == 0 ? n / p : 0;
}

/* Stages of a device for the schedules that the line names: the file's, where a family has any number, else the
 * family's; a list where they differ. NULL: the line names none, or all, or a file. Free with g_free. */
static char *given_chunks (const Reader *reader, gint64 v)
{
  const PsOption *row = find_row (reader->rows, NULL, "schedule"), *chunks = find_row (reader->rows, NULL, "chunks");
  const char *given = row != NULL ? find_given (row, reader->argv) : NULL;
  g_auto (GStrv) names = g_strsplit (given != NULL ? given : "", ",", -1);
  g_autoptr (GPtrArray) list = g_ptr_array_new_with_free_func (g_free);

  for (char **name = names; *name != NULL; name++) {
    const PsFamily *family = ps_family_find (*name);
    char *own = family != NULL ? g_strdup_printf ("%u", family->any_chunks && v > 1 ? (guint)v : family->default_chunks)
                               : NULL;

    if (own == NULL)
      return NULL;
    if (g_ptr_array_find_with_equal_func (list, own, g_str_equal, NULL))
      g_free (own);
    else
      g_ptr_array_add (list, own);
  }
  if (list->len == 0 || chunks == NULL || (list->len > 1 && chunks->type != PS_OPTION_COUNTS))
    return NULL;
  g_ptr_array_add (list, NULL);
  return g_strjoinv (",", (char **)list->pdata);
}

/* --layout, and the stages of a device: as many as wanted, unless that is 0. NULL: the file says no stages of so many.
 * Free with g_free. */
static char *find_stages (Reader *reader, gint64 p, gint64 wanted, gint64 *n_chunks)
{
  const char *layout = fact (reader, reader->hybrid ? "pattern" : "layout");
  const char *parts = fact (reader, "layout.parts"), *cuts = fact (reader, "layout.cuts");
  g_autofree char *made = parts != NULL ? parts_layout (parts) : cuts != NULL ? cuts_layout (cuts) : NULL;
  gint64 v = count (reader, "chunks", 0), each = count (reader, "chunks.layers", 0);
  gint64 first = count (reader, "layout.first", 0), last = count (reader, "layout.last", 0);

  if (reader->titan && parts == NULL && p > 1 && reader->model != NULL) {
    gint64 less = ps_launch_count (reader->facts, "layout.first-less", 1, &reader->error);
    gint64 less_last = ps_launch_count (reader->facts, "layout.last-less", 1, &reader->error);

    v = wanted > 0 ? wanted : titan_chunks (reader, p, less, less_last);
    made = titan_layout (reader->model->layers, p * v, less, less_last);
  }
  if (reader->hybrid && layout != NULL && strchr (layout, '|') == NULL)
    layout = NULL;
  layout = made != NULL ? made : layout;
  if (layout != NULL) {
    gint64 said = layout_chunks (layout, reader->model, p);

    *n_chunks = wanted > 0 ? wanted : v > 0 ? v : MAX (said, 1);
    return p > 1 && (wanted == 0 || said == wanted) ? g_strdup (layout) : NULL;
  }
  if (wanted == 0 && v == 0 && each > 0 && reader->model != NULL && p > 1)
    v = divide (reader, "layers", reader->model->layers + is (reader, "layout.embedding") + is (reader, "layout.loss"),
                "-p times layers of a virtual stage", p * each);
  *n_chunks = wanted > 0 ? wanted : MAX (v, 1);
  if (p > 1 && (first > 0 || last > 0)) {
    g_autoptr (GString) text = g_string_new ("even");

    if (first > 0)
      g_string_append_printf (text, ":first=%" G_GINT64_FORMAT, first);
    if (last > 0)
      g_string_append_printf (text, ":last=%" G_GINT64_FORMAT, last);
    return g_string_free (g_steal_pointer (&text), FALSE);
  }
  return p > 1 ? g_strconcat ("even", is (reader, "layout.embedding") ? ":embedding" : "",
                              is (reader, "layout.loss") ? ":loss" : "", NULL)
               : NULL;
}

static void note (Reader *reader, const char *name, const char *words)
{
  g_string_append_printf (reader->notes, "%s: %s: %s\n", reader->facts->where, name, words);
}

/* The layout for as many stages of a device as the line gives, or its schedules need, where the file has v: one that is
 * cut anew, or none. Takes layout. Free with g_free. */
static char *fit_layout (Reader *reader, gint64 p, gint64 v, const char *needed, char *layout)
{
  const char *line = find_given_for (reader, "chunks"), *chunks = line != NULL ? line : needed;
  const gboolean several = chunks != NULL && strchr (chunks, ',') != NULL;
  const gint64 wanted = chunks != NULL && !several ? g_ascii_strtoll (chunks, NULL, 10) : v;

  if (layout == NULL || g_str_has_prefix (layout, "even") || (wanted == v && !several))
    return layout;
  g_free (layout);
  return several || wanted < 1 ? NULL : find_stages (reader, p, wanted, &v);
}

/* -s and -v, and what belongs to them. */
static void add_schedule (Reader *reader, gint64 p, gint64 m)
{
  gint64 v = 1;
  g_autofree char *layout = find_stages (reader, p, 0, &v), *given = given_chunks (reader, v);
  const char *torch = fact (reader, "schedule.torch"), *family = NULL;

  if (reader->titan && fact (reader, "schedule") != NULL)
    family = fact (reader, "schedule");
  else if (reader->titan && p > 1 && torch != NULL) {
    family = ps_family_own_name (torch, (guint)v);
    if (ps_family_find (torch) == NULL)
      fail (reader, "schedule '%s' is not known here", torch);
  } else if (is (reader, "schedule.overlaps"))
    family = is (reader, "schedule.delays-w") ? "interleaved-overlap-w" : "interleaved-overlap";
  else
    family = v > 1 && p > 1 ? "interleaved" : "1f1b";
  layout = fit_layout (reader, p, v, given, g_steal_pointer (&layout));
  if (layout != NULL)
    add_layout (reader, "layout", "%s", layout);
  if (family == NULL)
    return;
  const PsFamily *row = ps_family_find (family);
  if (row != NULL && find_row (reader->rows, NULL, "schedule") != NULL && find_given_for (reader, "schedule") == NULL)
    reader->command->schedule = g_strdup (family);
  add_layout (reader, "schedule", "%s", family);
  if (given != NULL)
    add_layout (reader, "chunks", "%s", given);
  else if (v > 1 && p > 1)
    add_layout (reader, "chunks", "%" G_GINT64_FORMAT, v);
  else if (row != NULL && row->default_chunks > 1)
    add_layout (reader, "chunks", "1");
  if (row != NULL && row->groups && fact (reader, "group") != NULL)
    add_layout (reader, "group", "%s", fact (reader, "group"));
  else if (row != NULL && row->groups && given == NULL && !reader->titan && !reader->searches && v > 1 && m % p > 0)
    note (reader, "microbatch_group_size_per_virtual_pipeline_stage",
          "missing; the number of microbatches is no multiple of the pipeline's size, which Megatron-LM refuses then");
  if (is (reader, "defer-head.defers"))
    add_layout (reader, "defer-head", "%s", fact (reader, "defer-head") != NULL ? fact (reader, "defer-head") : "0");
}

/* A list of words as pipesim has it, "a+b". Free with g_free. */
static char *join_modules (const char *list)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (; *list != '\0'; list++)
    if (g_ascii_isalnum (*list) || *list == '_')
      g_string_append_c (text, *list);
    else if (text->len > 0 && text->str[text->len - 1] != '+' && strpbrk (list, G_CSET_a_2_z) != NULL)
      g_string_append_c (text, '+');
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* Whether the launch is of torchtitan 0.2, whose configuration is a file of TOML. */
static gboolean is_titan_toml (const Reader *reader)
{
  return reader->facts->form == PS_LAUNCH_TOML || ps_launch_fact (reader->facts, "titan-file") != NULL;
}

/* torchtitan's word for what it recomputes: none or full. It selects operators or every Nth layer, by default
 * (trainer.py of 0.3, job_config.py of 0.1 and 0.2), or leaves the choice to the compiler; these are none here. */
static const char *titan_recomputation (Reader *reader)
{
  const char *said = fact (reader, "recompute.granularity"), *kind = said != NULL ? said : "selective";
  const char *selects = fact (reader, "recompute.selects");
  const gboolean selective = g_str_equal (kind, "selective");

  if (selects == NULL)
    selects = is_titan_toml (reader) ? "2" : "op";
  if (g_str_equal (kind, "full") || (selective && (g_str_equal (selects, "0") || g_str_equal (selects, "1"))))
    return "full";
  if (g_str_equal (kind, "none") || find_given_for (reader, "recompute") != NULL || reader->searches)
    return NULL;
  g_autofree char *what = !selective                    ? g_strdup ("what the compiler chooses")
                          : g_str_equal (selects, "op") ? g_strdup ("some operators")
                                                        : g_strdup_printf ("one layer in %s", selects);
  g_autofree char *words
      = g_strdup_printf ("%s%s recomputes %s, which is predicted as none: it takes less memory there, "
                         "and more time",
                         said == NULL ? "missing; " : "", kind, what);
  note (reader, "activation_checkpoint.mode", words);
  return NULL;
}

static void add_recomputation (Reader *reader)
{
  const char *kind = reader->titan ? titan_recomputation (reader) : fact (reader, "recompute.granularity");
  const char *modules = fact (reader, "recompute.modules");
  gint64 layers = count (reader, "recompute.layers", 1), interval = count (reader, "recompute.interval", 0);
  gboolean block = g_strcmp0 (fact (reader, "recompute.method"), "block") == 0 || g_strcmp0 (kind, "block") == 0;
  g_autofree char *joined = join_modules (modules != NULL ? modules : "core_attn");

  if (reader->hybrid && reader->model != NULL && ps_model_layer_units (reader->model, 0, (PsUnitKind[2]){ 0 }) == 2)
    layers = (layers + 1) / 2;
  if (g_strcmp0 (kind, "selective") == 0)
    add_layout (reader, "recompute", "%s", joined);
  else if (block ? kind != NULL : g_strcmp0 (kind, "full") == 0 && layers > 1)
    add_layout (reader, "recompute", "full:%s=%" G_GINT64_FORMAT, block ? "layers" : "uniform", layers);
  else if (g_strcmp0 (kind, "full") == 0 || interval == 1)
    add_layout (reader, "recompute", "full");
  else if (interval > 1)
    add_layout (reader, "recompute", "full:uniform=%" G_GINT64_FORMAT, interval);
  if (is (reader, "offload-modules.offloads") && fact (reader, "offload-modules") != NULL) {
    g_autofree char *offload = join_modules (fact (reader, "offload-modules"));

    add_layout (reader, "offload-modules", "%s", offload);
  }
}

/* DeepSpeed adds gradients of bf16 up in fp32 without ZeRO, and in bf16 with it, unless data_types says otherwise
 * (get_data_types of its runtime/engine.py). */
static const char *find_deepspeed_grads (Reader *reader)
{
  const char *said = fact (reader, "main-grads-dtype");
  gboolean bf16 = g_strcmp0 (ps_launch_precision (reader->facts), "bf16") == 0;

  if (said != NULL)
    return bf16 && g_str_equal (said, "fp32") ? NULL : said; /* NULL: the framework's */
  return bf16 && ps_launch_count (reader->facts, "zero", 0, &reader->error) > 0 ? "bf16" : NULL;
}

/* Number formats and the optimizer. */
static void add_state (Reader *reader)
{
  static const char *const formats[] = { "main-grads-dtype", "main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype" };
  const char *optimizer = fact (reader, "optimizer"), *implementation = fact (reader, "optimizer-implementation");
  gboolean deepspeed = g_str_equal (reader->command->framework, "deepspeed");
  const char *grads = deepspeed ? find_deepspeed_grads (reader) : NULL;

  for (guint i = deepspeed; i < G_N_ELEMENTS (formats); i++) {
    const char *format = fact (reader, formats[i]);

    if (format != NULL && !g_str_equal (format, "fp32")
        && (i > 0 ? is (reader, "precise") : !is (reader, "main-grads-dtype.bf16")))
      add (reader, formats[i], "%s", format);
  }
  if (grads != NULL)
    add (reader, "main-grads-dtype", "%s", grads);
  else if (is (reader, "main-grads-dtype.bf16"))
    add (reader, "main-grads-dtype", "bf16");
  else if (reader->titan) /* ps_launch_imply says why */
    add (reader, "main-grads-dtype", "fp32");
  if (g_strcmp0 (implementation, "fused_opt_states_bf16") == 0) {
    add (reader, "exp-avg-dtype", "bf16");
    add (reader, "exp-avg-sq-dtype", "bf16");
  } else if (g_strcmp0 (implementation, "foreach") == 0)
    add (reader, "optimizer-implementation", "foreach");
  if (optimizer != NULL && g_str_equal (optimizer, "muon"))
    add (reader, "optimizer", "muon");
  else if (optimizer != NULL && !g_str_equal (optimizer, "adam"))
    note (reader, optimizer, "no optimizer that is known here; adam is predicted");
  if (is (reader, "fp8-param-gather"))
    add (reader, "fp8-param-gather", "yes");
}

/* torchtitan spreads over contexts, too. */
static gint64 find_zero (Reader *reader, gint64 p, gint64 d)
{
  const char *strategy = fact (reader, "zero.strategy"), *reshard = fact (reader, "zero.reshard");

  if (reader->titan) {
    gint64 replicated = count (reader, "replicas.replicated", 1);
    gboolean always = reshard != NULL ? g_str_equal (reshard, "always") : p == 1;

    if (replicated > 1 && d > replicated)
      note (reader, "data_parallel_replicate_degree", "the state is spread over all replicas here");
    return replicated == d && d > 1 ? 0 : always ? 3 : reshard != NULL && g_str_equal (reshard, "never") ? 2 : 1;
  }
  if (fact (reader, "zero") != NULL)
    return ps_launch_count (reader->facts, "zero", 0, &reader->error);
  if (!is (reader, "zero.fsdp"))
    return is (reader, "zero.distributed-optimizer");
  return g_strcmp0 (strategy, "optim_grads_params") == 0 ? 3
         : g_strcmp0 (strategy, "optim_grads") == 0      ? 2
         : g_strcmp0 (strategy, "optim") == 0            ? 1
                                                         : 0;
}

/* What overlaps with what, and by which kernels. */
static void add_kernels (Reader *reader, gboolean shares)
{
  const char *dispatcher = fact (reader, "moe-token-dispatcher-type"),
             *backend = fact (reader, "moe-token-dispatcher-type.backend");
  const char *graphs = fact (reader, "cuda-graphs.impl"), *scope = fact (reader, "cuda-graphs.scope");

  if (reader->command->framework != NULL && g_str_has_prefix (reader->command->framework, "megatron") && shares
      && !is (reader, "reduce.overlap"))
    add (reader, "reduce", "exposed");
  if (is (reader, "overlap-param-gather"))
    add (reader, "overlap-param-gather", "yes");
  if (is (reader, "tp-comm-overlap"))
    add (reader, "tp-comm-overlap", "yes");
  if (g_strcmp0 (dispatcher, "flex") == 0)
    add (reader, "moe-token-dispatcher-type", "%s", backend != NULL ? backend : "deepep");
  else if (dispatcher != NULL && g_str_equal (dispatcher, "allgather") && is (reader, "experts_of_layer")
           && fact (reader, "experts") != NULL)
    note (reader, "moe_token_dispatcher_type", "allgather is predicted as alltoall");
  if (graphs != NULL && scope != NULL)
    add (reader, "cuda-graphs", "%s", strstr (scope, "full_iteration") != NULL ? "full_iteration" : "attn");
  if (is (reader, "loss.fusion") && g_strcmp0 (fact (reader, "loss.impl"), "linear") == 0)
    add (reader, "loss", "fused");
}

/* What contexts exchange. Megatron-LM has one way for all layers, or a list of one for each. */
static void add_exchange (Reader *reader, gint64 context)
{
  const char *said = fact (reader, "cp-comm-type");
  gboolean megatron = g_str_has_prefix (reader->command->framework, "megatron");
  g_autofree char *joined = join_modules (said != NULL ? said : megatron ? "p2p" : "all_gather");
  g_auto (GStrv) ways = g_strsplit (joined, "+", -1);
  guint n = 0;

  while (ways[n] != NULL && g_str_equal (ways[n], ways[0]))
    n++;
  if (context > 1 && ways[n] != NULL)
    note (reader, "cp_comm_type", "several ways in turn are predicted as p2p");
  if ((context > 1 || reader->searches) && !g_str_equal (joined, "all_gather"))
    add (reader, "cp-comm-type", "%s", ways[n] != NULL ? "p2p" : ways[0]);
}

/* Whether the line asks for the number of GPUs. */
static gboolean asks_for_gpus (const Reader *reader)
{
  return find_given_for (reader, "target-step") != NULL || find_given_for (reader, "days") != NULL;
}

/* Replicas, by what is said of them or of all GPUs. */
static gint64 find_replicas (Reader *reader, gint64 shared, gint64 *gpus)
{
  gint64 nodes = count_known (reader, "nodes", 1), each = count_known (reader, "gpus-per-node", 0);
  gint64 replicated = count (reader, "replicas.replicated", 0);
  gint64 sharded = reader->titan ? ps_launch_count (reader->facts, "zero.sharded", -1, &reader->error) : 0;
  gint64 replicas = count (reader, "replicas", 0);

  gint64 batch = count (reader, "global-batch", 0), m = count (reader, "microbatches", 0);

  *gpus = count_known (reader, "gpus", each * nodes);
  if (replicas == 0 && *gpus == 0 && batch > 0 && m > 0)
    replicas = divide (reader, "the batch", batch, "microbatches", m * count (reader, "microbatch-size", 1));
  if (reader->titan && sharded > 0)
    replicas = replicas > 0 ? replicas : MAX (replicated, 1) * sharded;
  const PsOption *row = find_row (reader->rows, NULL, "replicas");
  if (find_given_for (reader, "replicas") != NULL) {
    reader->command->counted = *gpus == 0 && sharded < 1 && replicated < 2;
    *gpus = replicas * shared;
  } else if (*gpus > 0 && reader->searches && batch > 0)
    replicas = 1; /* the command finds them, for any number of GPUs */
  else if (*gpus > 0)
    replicas = divide (reader, "GPUs", *gpus, "the GPUs of a replica", shared);
  else if (replicas > 0)
    *gpus = replicas * shared;
  if (replicas == 0 && !asks_for_gpus (reader) && (row != NULL || find_row (reader->rows, NULL, "gpus") != NULL)) {
    const PsLaunchKey *key = g_hash_table_lookup (reader->facts->unknown, "nodes");

    key = key != NULL ? key : g_hash_table_lookup (reader->facts->unknown, "gpus-per-node");
    fail (reader, "the number of GPUs is not known (%s%s%s); give %s", key != NULL ? key->key : "--nnodes and ",
          key != NULL ? ": " : "", key != NULL ? key->unknown : "--nproc-per-node, world_size",
          find_row (reader->rows, NULL, "gpus") != NULL ? "-g N" : "--replicas D");
  }
  return MAX (replicas, 1);
}

/* torchtitan since August 2026 (config/configs.py): sequences of a microbatch and of a replica's share of a step from
 * their tokens and the microbatches of a pipeline. */
static void count_tokens (Reader *reader, gint64 p, gint64 *b, gint64 *local, gint64 *batch)
{
  const gint64 piped = count (reader, "microbatches.piped", 0), tokens = count (reader, "microbatch-size.tokens", 0);
  const gint64 step = count (reader, "global-batch.tokens", 0), sequence = count (reader, "sequence", TITAN_SEQUENCE);

  if (step > 0)
    *batch = divide (reader, "the tokens of a step", step, "a sequence", sequence);
  if (tokens > 0)
    *local = divide (reader, "the tokens of a microbatch", tokens, "a sequence", sequence);
  if (piped + tokens == 0 || find_given_for (reader, "microbatch-size") != NULL)
    return;
  *b = *local;
  *local *= p > 1 ? MAX (piped, 1) : 1;
}

static void add_sizes (Reader *reader)
{
  gint64 p = count (reader, "devices", 1), t = count (reader, "tensor", 1), c = count (reader, "context", 1);
  gint64 e = count (reader, "experts", 1), gpus, b = count (reader, "microbatch-size", 1);
  gint64 d = find_replicas (reader, p * t * c, &gpus);
  gint64 local = count (reader, "microbatches.local", reader->titan ? TITAN_BATCH : 0);
  gint64 batch = count (reader, "global-batch", 0), m = count (reader, "microbatches", 0);
  gboolean ordered = !reader->titan && !is (reader, "adjacent-replicas.mapping");

  if (reader->error != NULL)
    return;
  if (reader->titan)
    count_tokens (reader, p, &b, &local, &batch);
  if (reader->titan && p == 1 && find_given_for (reader, "microbatch-size") == NULL)
    b = local;
  if (reader->facts->form == PS_LAUNCH_JSON && fact (reader, "microbatch-size") == NULL && batch > 0) {
    m = MAX (m, 1); /* DeepSpeed's config.py: all of a batch at once, unless steps are said */
    b = divide (reader, "train_batch_size", batch, "replicas times gradient_accumulation_steps", d * m);
  }
  if (reader->titan && p > 1 && m > 0 && find_given_for (reader, "microbatches") == NULL) /* torchtitan 0.1 */
    b = divide (reader, "training.batch_size", local, "microbatches", m);
  if (reader->titan && batch == 0)
    batch = MAX (local, b) * d;
  if (reader->titan && p > 1 && batch > local * d)
    note (reader, "training.global_batch_size", "local batches run one after the other; they are predicted as one");
  if (m == 0)
    m = batch > 0 ? divide (reader, "the global batch", batch, "replicas times a microbatch", b * d) : 1;
  if (!asks_for_gpus (reader))
    add (reader, "gpus", "%" G_GINT64_FORMAT, gpus);
  add (reader, "global-batch", "%" G_GINT64_FORMAT, b * d * m);
  add_schedule (reader, p, m);
  add_layout (reader, "devices", "%" G_GINT64_FORMAT, p);
  add_layout (reader, "microbatches", "%" G_GINT64_FORMAT, m);
  add_layout (reader, "microbatch-size", "%" G_GINT64_FORMAT, b);
  const struct {
    const char *option;
    gint64 value;
  } degrees[] = { { "tensor", t }, { "context", c }, { "experts", e }, { "replicas", d } };
  for (guint i = 0; i < G_N_ELEMENTS (degrees); i++)
    if (degrees[i].value > 1)
      add_layout (reader, degrees[i].option, "%" G_GINT64_FORMAT, degrees[i].value);
  add_exchange (reader, c);
  if (d > 1 && p > 1 && (ordered || reader->titan))
    add_layout (reader, "adjacent-replicas", "yes");
  if (d * c > 1 || fact (reader, "zero") != NULL)
    add_layout (reader, "zero", "%" G_GINT64_FORMAT, find_zero (reader, p, d));
  add_kernels (reader, d * c > 1 || reader->searches);
}

/* --model: the file itself, a config.json in its folder, or the model that torchtitan calls so. */
static char *find_model (Reader *reader)
{
  const char *where = reader->facts->where, *module = fact (reader, "titan-module");
  const char *flavor = fact (reader, is_titan_toml (reader) ? "titan-flavor" : "titan-config");
  guint layers, hidden;

  if (ps_launch_has_model (reader->facts))
    return g_strdup (where);
  if (reader->facts->form == PS_LAUNCH_JSON) {
    g_autofree char *folder = g_path_get_dirname (where), *path = g_build_filename (folder, "config.json", NULL);

    return g_file_test (path, G_FILE_TEST_EXISTS) ? g_steal_pointer (&path) : NULL;
  }
  if (module == NULL || flavor == NULL || !ps_launch_titan_model (module, flavor, &layers, &hidden))
    return NULL;
  g_auto (GStrv) names = ps_shipped_names ("models");
  for (char **name = names; name != NULL && *name != NULL; name++) {
    g_autoptr (PsModel) model = ps_model_load (*name, NULL);

    if (model != NULL && model->layers == layers && model->hidden == hidden && model->mtp == 0)
      return g_strdup (*name);
  }
  return NULL;
}

/* The precision of torchtitan's converters, which change the products of linear layers and experts. */
static const char *convert_precision (Reader *reader, const char *otherwise)
{
  const char *converters = fact (reader, "precision.converters");
  const gboolean fp8 = strstr (converters, "float8") != NULL, mx = strstr (converters, "mx") != NULL;

  if (fp8 || mx)
    note (
        reader, "model.converters",
        "forwards keep inputs of linear layers in 8 bits here, in 16 bits there; layers outside the filter count, too");
  return fp8 ? "fp8" : mx ? "mxfp8" : otherwise;
}

static void add_model (Reader *reader)
{
  const PsOption *row = find_row (reader->rows, NULL, "model");
  const char *given = find_given_for (reader, "model");
  g_autofree char *path = given != NULL ? g_strdup (given) : find_model (reader);

  if (path == NULL) {
    const char *flavor = ps_launch_fact (reader->facts, is_titan_toml (reader) ? "titan-flavor" : "titan-config");

    if (reader->titan && flavor != NULL)
      fail (reader, "torchtitan's '%s' is no model that ships (pipesim models); give --model", flavor);
    else
      fail (reader, "defines no model; give --model");
    return;
  }
  if (row != NULL)
    reader->model = ps_model_load (path, &reader->error);
  add (reader, "model", "%s", path);
  if (reader->model == NULL || reader->error != NULL)
    return;
  guint sequence = (guint)count (reader, "sequence", reader->titan ? TITAN_SEQUENCE : 0);
  if (sequence > 0 && sequence != reader->model->sequence)
    add (reader, "sequence", "%u", sequence);
  fact (reader, "precision.fp8");
  fact (reader, "precision.bf16");
  const char *precision = ps_launch_precision (reader->facts);
  if (reader->titan && fact (reader, "precision.bf16") == NULL)
    precision = "bf16";
  if (fact (reader, "precision.converters") != NULL)
    precision = convert_precision (reader, precision);
  if (reader->facts->form == PS_LAUNCH_YAML && !ps_launch_has_model (reader->facts) && g_str_equal (precision, "fp32")
      && fact (reader, "precision") == NULL)
    return; /* it changes a recipe, which has its own */
  if (g_strcmp0 (precision, ps_precision_name (reader->model->precision)) != 0)
    add (reader, "precision", "%s", precision);
}

/* What matters and is not modelled, and keys of no row. */
static void note_rest (Reader *reader)
{
  const GPtrArray *matters = reader->facts->matters, *strange = reader->facts->strange;
  g_autoptr (GPtrArray) seen = g_ptr_array_new ();
  const GPtrArray *words = reader->facts->words;

  for (guint i = 0; i < matters->len; i++) {
    const PsLaunchKey *key = matters->pdata[i];
    g_autofree char *place = ps_launch_place (reader->facts, key);

    g_string_append_printf (reader->notes, "%s: not modelled: %s: %s\n", place, key->key,
                            ps_launch_key_reason (key->key));
  }
  for (guint i = 0; i < words->len; i++) {
    const PsLaunchKey *key = words->pdata[i];
    g_autofree char *place = ps_launch_place (reader->facts, key);
    g_autofree char *line = g_strdup_printf ("%s: not read, and options may be in it: %s\n", place, key->unknown);

    if (strstr (reader->notes->str, line) == NULL)
      g_string_append (reader->notes, line);
  }
  for (guint i = 0; i < strange->len; i++)
    if (!g_ptr_array_find_with_equal_func (seen, ((PsLaunchKey *)strange->pdata[i])->key, g_str_equal, NULL)) {
      g_ptr_array_add (seen, ((PsLaunchKey *)strange->pdata[i])->key);
      g_string_append_printf (reader->notes, "%s%s%s", i == 0 ? reader->facts->where : "",
                              i == 0 ? ": not known: " : ", ", ((PsLaunchKey *)strange->pdata[i])->key);
    }
  if (strange->len > 0)
    g_string_append_c (reader->notes, '\n');
  if (reader->unused->len > 0)
    g_string_append_printf (reader->notes, "%s: not looked at here, but by predict: %s\n", reader->facts->where,
                            reader->unused->str + 2);
}

static void read_facts (Reader *reader)
{
  const char *program = ps_launch_fact (reader->facts, "program");
  gboolean deepspeed = reader->facts->form == PS_LAUNCH_JSON || ps_launch_is (reader->facts, "deepspeed");

  reader->titan = is_titan_toml (reader) || ps_launch_fact (reader->facts, "zero.sharded") != NULL
                  || fact (reader, "schedule.torch") != NULL || fact (reader, "titan-config") != NULL;
  reader->hybrid = fact (reader, "pattern") != NULL;
  if (program != NULL && strstr (program, "torchtitan") != NULL)
    reader->titan = TRUE;
  if (reader->titan && find_given_for (reader, "cluster") != NULL && !has_costs (reader)
      && find_given_for (reader, "costs-from") == NULL && find_given_for (reader, "to") == NULL
      && !reader->command->print)
    note (reader, "interval", PS_TITAN_RUNS);
  reader->command->framework = is_titan_toml (reader) ? "torchtitan-0.2"
                               : reader->titan        ? "torchtitan"
                               : deepspeed            ? "deepspeed"
                               : reader->hybrid       ? "megatron"
                                                      : "megatron-gpt";
  add_model (reader);
  if (reader->error != NULL)
    return;
  const char *to = find_given_for (reader, "to"); /* another framework counts memory its own way */
  if (!reader->titan && (to == NULL || g_str_has_prefix (to, "megatron")))
    add (reader, "framework", "%s",
         deepspeed                                                          ? "deepspeed"
         : program != NULL && g_str_has_prefix (program, "megatron.bridge") ? "megatron-bridge"
                                                                            : "megatron");
  add_sizes (reader);
  add_recomputation (reader);
  add_state (reader);
  note_rest (reader);
}

void ps_launch_command_clear (PsLaunchCommand *command)
{
  g_strfreev (command->words);
  g_free (command->notes);
  g_free (command->schedule);
  g_free (command->file);
  *command = (PsLaunchCommand){ 0 };
}

/* The words of the line without --from and --print-command, after those of the file. */
static void take_words (GPtrArray *file, char *const *argv, PsLaunchCommand *command)
{
  GPtrArray *words = g_ptr_array_new ();

  g_ptr_array_add (words, g_strdup (argv[0]));
  g_ptr_array_extend_and_steal (words, file);
  for (char *const *word = argv + 1; *word != NULL; word++)
    if (g_str_equal (*word, "--from") && word[1] != NULL)
      word++;
    else if (!g_str_has_prefix (*word, "--from=") && !g_str_equal (*word, "--print-command"))
      g_ptr_array_add (words, g_strdup (*word));
  g_ptr_array_add (words, NULL);
  command->words = (char **)g_ptr_array_free (words, FALSE);
}

gboolean ps_launch_expand (const PsOption *rows, char *const *argv, PsLaunchCommand *command, GError **error)
{
  const PsOption *row = find_row (rows, NULL, "from");
  const char *from = row != NULL ? find_given (row, argv + 1) : NULL;
  g_autofree char *text = NULL;
  gsize length;
  guint n_given = 0;

  *command = (PsLaunchCommand){ 0 };
  for (char *const *word = argv; row != NULL && *word != NULL; word++) {
    command->print |= g_str_equal (*word, "--print-command");
    n_given += g_str_equal (*word, "--from") || g_str_has_prefix (*word, "--from=");
  }
  if (n_given > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "--from: given %u times; a command takes one launch", n_given);
  if (command->print && from == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--print-command: needs --from FILE");
  if (from == NULL || *from == '\0')
    return TRUE;
  command->file = g_strdup (from);
  command->argv = argv;
  return ps_launch_open (from, &text, &length, error) && ps_launch_read (rows, argv, from, text, command, error);
}

gboolean ps_launch_read (const PsOption *rows, char *const *argv, const char *where, const char *text,
                         PsLaunchCommand *command, GError **error)
{
  Reader reader = { .rows = rows, .argv = argv, .command = command };
  PsLaunchForm form = ps_launch_form (text);

  reader.searches = find_row (rows, NULL, "devices") == NULL || find_row (rows, NULL, "") != NULL;
  reader.words = g_ptr_array_new ();
  g_autoptr (GString) unused = reader.unused = g_string_new (NULL);
  reader.notes = g_string_new (NULL);
  g_autoptr (PsLaunchFacts) facts = form != PS_LAUNCH_NONE ? ps_launch_facts (where, text, form, &reader.error) : NULL;
  reader.facts = facts;
  if (facts != NULL)
    read_facts (&reader);
  else if (reader.error == NULL) {
    reader.model = ps_model_load (where, &reader.error);
    add (&reader, "model", "%s", where);
  }
  if (unused->len > 0) /* what is left is no run to refuse */
    g_clear_pointer (&command->schedule, g_free);
  ps_model_free (reader.model);
  command->notes = g_string_free (reader.notes, FALSE);
  take_words (reader.words, argv, command);
  if (reader.error == NULL)
    return TRUE;
  g_propagate_error (error, reader.error);
  return FALSE;
}

gboolean ps_launch_print (const PsLaunchCommand *command, GError **error)
{
  g_autoptr (GString) line = g_string_new ("pipesim");

  for (char **first = command->words, **word = first; *word != NULL; word++) {
    const char *text = word == first && g_str_has_prefix (*word, "pipesim-") ? *word + strlen ("pipesim-") : *word;
    g_autofree char *shown = ps_shell_word (text);

    g_string_append_printf (line, " %s", shown);
  }
  ps_launch_note (command, NULL);
  g_string_append_c (line, '\n');
  return ps_print (line->str, error);
}

void ps_launch_note (const PsLaunchCommand *command, const PsSetting *setting)
{
  g_autofree char *refusal
      = setting != NULL && command->framework != NULL && command->schedule != NULL && setting->n_devices > 0
            ? ps_launch_refusal (command->framework, setting, command->schedule)
            : NULL;

  if (command->notes != NULL && *command->notes != '\0')
    g_printerr ("%s", command->notes);
  if (refusal != NULL && *refusal != '\0')
    g_printerr ("%s: %s does not run that: %s\n", command->file, command->framework, refusal);
}
