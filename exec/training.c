/* training.c - what a run learns from: the options of a training, the text or the one that ships, which is made by a
 * rule, and the tokens of each microbatch. */
#include "training.h"

#include <pipesim/philox.h>

#define MAX_STEPS 1000000
#define N_SUMS 2000
#define N_TOKENS 256 /* values of a byte */

/* Texts */

/* Appends a number below 200 in words. */
static void append_number (GString *text, guint number)
{
  static const char *const ones[] = { "zero",     "one",     "two",     "three",     "four",     "five",    "six",
                                      "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
                                      "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen" };
  static const char *const tens[]
      = { "", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety" };
  guint rest = number % 100;

  if (number >= 100)
    g_string_append (text, rest > 0 ? "one hundred and " : "one hundred");
  if (rest >= 20)
    g_string_append_printf (text, "%s%s", tens[rest / 10], rest % 10 > 0 ? "-" : "");
  if (rest < 20 && (rest > 0 || number == 0))
    g_string_append (text, ones[rest]);
  else if (rest % 10 > 0)
    g_string_append (text, ones[rest % 10]);
}

static char *make_sums (gsize *length)
{
  GString *text = g_string_new (NULL);
  guint64 counter = 1;

  for (guint i = 0; i < N_SUMS; i++) {
    guint64 drawn = ps_splitmix_next (&counter);
    guint a = (guint)(drawn % 100), b = (guint)(drawn / 100 % 100);

    append_number (text, a);
    g_string_append (text, " and ");
    append_number (text, b);
    g_string_append (text, " make ");
    append_number (text, a + b);
    g_string_append (text, ".\n");
  }
  *length = text->len;
  return g_string_free (text, FALSE);
}

GBytes *ps_corpus_load (const char *option, const char *name, const PsModel *model, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (model->vocabulary < N_TOKENS)
    return ps_refuse_null (error, PS_ERROR_USAGE, "%s: the model has a vocabulary of %u; bytes need %d", option,
                           model->vocabulary, N_TOKENS);
  if (g_str_equal (name, PS_CORPUS_SUMS))
    text = make_sums (&length);
  else if (!ps_read_file (name, &text, &length, error))
    return NULL;
  if (length > model->sequence)
    return g_bytes_new_take (g_steal_pointer (&text), length);
  return ps_refuse_null (error, PS_ERROR_INPUT,
                         "%s: %s has %" G_GSIZE_FORMAT " bytes; a sequence of %u tokens needs %u", option, name, length,
                         model->sequence, model->sequence + 1);
}

/* Lengths of microbatches */

static gboolean check_lengths (const PsSetting *setting, const PsLengths *lengths, const PsSchedule *schedule,
                               const PsRunSetting *run, GError **error)
{
  if (!run->device->lengths)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "--lengths: device %s runs microbatches that are alike",
                      run->device->name);
  if (schedule->n_slices > 1)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "--lengths: sequences of different lengths cannot be sliced");
  if (lengths->n != schedule->n_microbatches)
    return ps_refuse (error, PS_ERROR_USAGE, "--lengths %s: has %u microbatches; the schedule has %u", setting->lengths,
                      lengths->n, schedule->n_microbatches);
  if (setting->microbatch_order != PS_ORDER_GIVEN && ps_setting_source (setting) == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--microbatch-order: needs costs, which say how long microbatches take");
  for (guint i = 0; i < lengths->n_lengths; i++)
    if (lengths->length[i].tokens == 0)
      return ps_refuse (error, PS_ERROR_USAGE, "--lengths %s: has factors; device %s needs tokens", setting->lengths,
                        run->device->name);
    else if (lengths->length[i].tokens > run->model->sequence)
      return ps_refuse (error, PS_ERROR_USAGE, "--lengths %s: %u tokens are more than the model's sequence of %u",
                        setting->lengths, lengths->length[i].tokens, run->model->sequence);
  return TRUE;
}

gboolean ps_run_lengths (const PsSetting *setting, const PsSchedule *schedule, PsRunSetting *run, GError **error)
{
  g_autoptr (PsLengths) lengths = NULL;
  guint *tokens;

  if (setting->lengths == NULL)
    return TRUE;
  lengths = ps_lengths_read (setting->lengths, error);
  if (lengths == NULL || !check_lengths (setting, lengths, schedule, run, error))
    return FALSE;
  run->n_tokens = lengths->n;
  run->tokens = tokens = g_new (guint, lengths->n);
  for (guint i = 0; i < lengths->n; i++)
    tokens[i] = lengths->length[schedule->length != NULL ? schedule->length[i] : lengths->of[i]].tokens;
  return TRUE;
}

/* The options of a training */

const PsOption ps_training_options[] = {
  PS_OPTION ("text", 0, PS_FILE (PsTrainingOptions, text_name), "FILE|" PS_CORPUS_SUMS,
             "Text to learn, byte by byte; " PS_CORPUS_SUMS " ships",
             .otherwise = "tokens drawn by --seed, the same in every step", .group = PS_GROUP_TRAINING),
  PS_OPTION ("learning-rate", 0, PS_NUMBER (PsTrainingOptions, setting.learning_rate, 0, 1), "RATE",
             "Learning rate of Adam", .initial = 1e-3, .group = PS_GROUP_TRAINING),
  PS_OPTION ("warm-up", 0, PS_COUNT (PsTrainingOptions, setting.warm_up, 0, MAX_STEPS), "N",
             "Steps in which the learning rate rises to it", .group = PS_GROUP_TRAINING),
  PS_OPTION ("decay", 0, PS_COUNT (PsTrainingOptions, setting.decay, 0, MAX_STEPS), "N",
             "Let the learning rate fall as a cosine until step N", .otherwise = "it stays",
             .group = PS_GROUP_TRAINING),
  PS_OPTION ("least-rate", 0, PS_NUMBER (PsTrainingOptions, setting.least_rate, 0, 1), "RATE",
             "Learning rate at the end of --decay", .group = PS_GROUP_TRAINING),
  PS_OPTION ("load", 0, PS_FILE (PsTrainingOptions, load), "FILE", "Checkpoint to go on from, up to step --steps",
             .group = PS_GROUP_TRAINING),
  PS_OPTION ("save", 0, PS_FILE (PsTrainingOptions, save), "FILE",
             "Write a checkpoint at the end (safetensors); Ctrl-C ends there, too", .group = PS_GROUP_TRAINING),
  PS_OPTION ("save-every", 0, PS_COUNT (PsTrainingOptions, save_every, 1, MAX_STEPS), "N", "And after every N steps",
             .otherwise = "only at the end", .group = PS_GROUP_TRAINING),
  PS_OPTION_END,
};

const char *ps_training_given (const PsTrainingOptions *options)
{
  for (const PsOption *row = ps_training_options; row->name != NULL; row++)
    if (!ps_option_is_initial (row, options))
      return row->name;
  return NULL;
}

static gboolean check_rates (const PsTraining *setting, GError **error)
{
  if (setting->decay > 0 && setting->decay <= setting->warm_up)
    return ps_refuse (error, PS_ERROR_USAGE, "--decay: %u is not after the warm-up of %u steps", setting->decay,
                      setting->warm_up);
  if (setting->decay == 0 && setting->least_rate > 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--least-rate: needs --decay, at whose end it is reached");
  if (setting->least_rate > setting->learning_rate)
    return ps_refuse (error, PS_ERROR_USAGE, "--least-rate: %g is above --learning-rate, %g", setting->least_rate,
                      setting->learning_rate);
  return TRUE;
}

static gboolean check_checkpoints (const PsTrainingOptions *options, const PsSchedule *schedule, GError **error)
{
  const char *option = options->load != NULL ? "--load" : "--save";

  if (options->save_every > 0 && options->save == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--save-every: needs --save, the file to write");
  if (options->load == NULL && options->save == NULL)
    return TRUE;
  if (schedule->asynchronous)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: schedule '%s' is asynchronous: its devices never agree on one state",
                      option, schedule->name);
  return ps_output_check ("--save", options->save, error);
}

/* Says which data a step goes through: steps of the same number read the same where this is the same. */
static char *describe_data (const PsTraining *setting, const PsSchedule *schedule, const PsRunSetting *run)
{
  const guint n_copies = ps_run_n_replicas (run, schedule->placement->n_devices);
  g_autofree char *sum = setting->text != NULL ? g_compute_checksum_for_bytes (G_CHECKSUM_SHA256, setting->text) : NULL;

  return g_strdup_printf ("%s%.16s, seed %" G_GUINT64_FORMAT ", %u microbatches of %u x %u tokens",
                          sum != NULL ? "text " : "drawn tokens", sum != NULL ? sum : "", run->seed,
                          schedule->n_microbatches * n_copies, run->model->microbatch_size, run->model->sequence);
}

static gboolean load (PsTrainingOptions *options, PsRunSetting *run, GError **error)
{
  options->start = ps_checkpoint_load (options->load, run->model, error);
  if (options->start == NULL)
    return FALSE;
  guint step = ps_checkpoint_step (options->start);
  if (step >= run->n_steps)
    return ps_refuse (error, PS_ERROR_USAGE, "--steps: %u, but %s has done %u steps already", run->n_steps,
                      options->load, step);
  run->n_steps -= step;
  const char *data = ps_checkpoint_data (options->start);
  if (g_strcmp0 (data, options->data) != 0 && ps_processes_rank (run->processes) == 0)
    g_printerr ("warning: %s went through %s; this run goes through %s\n", options->load,
                data != NULL ? data : "other data", options->data);
  return TRUE;
}

gboolean ps_training_prepare (PsTrainingOptions *options, const PsSchedule *schedule, PsRunSetting *run, GError **error)
{
  if (!check_rates (&options->setting, error) || !check_checkpoints (options, schedule, error))
    return FALSE;
  if (options->text_name != NULL) {
    options->setting.text = ps_corpus_load ("--text", options->text_name, run->model, error);
    if (options->setting.text == NULL)
      return FALSE;
  }
  options->data = describe_data (&options->setting, schedule, run);
  if (options->load != NULL && !load (options, run, error))
    return FALSE;
  run->training = &options->setting;
  run->start = options->start;
  run->save = options->save;
  run->save_every = options->save_every;
  run->data = options->data;
  return TRUE;
}

void ps_training_options_clear (PsTrainingOptions *options)
{
  g_clear_pointer (&options->setting.text, g_bytes_unref);
  g_clear_pointer (&options->start, ps_checkpoint_free);
  g_clear_pointer (&options->data, g_free);
}
