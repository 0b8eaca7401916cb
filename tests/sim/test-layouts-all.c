/* test-layouts-all.c - layouts against predicting everything. */
#include "cases.h"
#include "layouts-rig.h"

#include <pipesim/setting.h>

#include <string.h>

/* Against everything, one at a time */

typedef struct
{
  guint p, t, b, v; /* v 0: the family's own */
  PsRecompute recompute;
} Choice;

static void
try_one (const PsLayoutQuestion *question, const PsFamily *family, const Choice *choice, GArray *times)
{
  g_autoptr (PsSetting) setting = ps_setting_new ();
  guint d = question->n_gpus / (choice->p * choice->t);

  if (question->global_batch % (choice->b * d) != 0 || (choice->p > 1 && choice->v == family->default_chunks)
      || (choice->p == 1 && family->default_chunks > 1))
    return;
  setting->model = g_strdup (question->model);
  setting->cluster = g_strdup (question->cluster);
  setting->n_devices = choice->p;
  setting->n_tensor = choice->t;
  setting->n_chunks = choice->v;
  setting->n_replicas = d;
  setting->zero = question->zero && d > 1;
  setting->microbatch_size = choice->b;
  setting->n_microbatches = (guint)question->global_batch / (choice->b * d);
  setting->recompute = choice->recompute;
  setting->memory_limit = g_memdup2 (&question->memory_limit, sizeof question->memory_limit);
  setting->n_memory_limits = 1;
  g_autoptr (PsPrediction) prediction = ps_predict (setting, family->name, NULL);
  if (prediction != NULL && prediction->feasible && !prediction->program->schedule->asynchronous)
    g_array_append_val (times, prediction->metrics.iteration_ns);
}

static void
try_families (const PsLayoutQuestion *question, Choice choice, GArray *times)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (choice.b = 1; choice.b <= 16; choice.b *= 2)
    for (choice.recompute = PS_RECOMPUTE_NONE; choice.recompute <= PS_RECOMPUTE_FULL; choice.recompute++)
      for (guint i = 0; i < n; i++)
        try_one (question, families[i], &choice, times);
}

/* A single device runs schedules of one chunk. tiny-gpt has 8 layers, so that no other number of chunks than 1, 2, 4
 * and 8 cuts them evenly; 5 chunks of 2 devices cut these with embedding and loss. It has 6 heads: 4 GPUs cannot share
 * them. */
static GArray *
try_all (const PsLayoutQuestion *question)
{
  static const guint chunks[] = { 0, 1, 2, 4, 5, 8 };
  GArray *times = g_array_new (FALSE, FALSE, sizeof (gint64));

  for (guint p = 1; p <= question->n_gpus; p++)
    for (guint t = 1; p * t <= question->n_gpus; t *= 2)
      for (guint i = 0; i < G_N_ELEMENTS (chunks) && question->n_gpus % (p * t) == 0; i++)
        if (p * chunks[i] <= 10 && (p == 1) == (chunks[i] == 1) && (chunks[i] != 5 || p <= 2)
            && (question->tensor == 0 || t == question->tensor))
          try_families (question, (Choice){ .p = p, .t = t, .v = chunks[i] }, times);
  g_array_sort (times, ps_compare_int64);
  return times;
}

static void
check_against_all (const PsLayoutQuestion *question)
{
  g_autoptr (PsLayouts) layouts = find (question);
  g_autoptr (GArray) times = try_all (question);

  g_assert_cmpuint (layouts->best->len, ==, MIN (times->len, question->top));
  for (guint i = 0; i < layouts->best->len; i++)
    {
      g_assert_cmpint (at (layouts, i)->step_ns, ==, g_array_index (times, gint64, i));
      g_assert_cmpint (at (layouts, i)->peak_memory_bytes, <=, question->memory_limit);
      g_assert_cmpuint (at (layouts, i)->n_devices * at (layouts, i)->n_tensor * at (layouts, i)->n_replicas, ==,
                        question->n_gpus);
    }
  g_assert_cmpuint (layouts->n_settings, ==,
                    layouts->n_fit + layouts->n_too_large + layouts->n_hopeless + layouts->n_outrun
                        + layouts->n_impossible);
  g_assert_cmpuint (layouts->n_fit, <=, times->len);
}

static void
test_everything (void)
{
  g_autofree char *cluster = cluster_file ();
  PsLayoutQuestion question = { .model = "tiny-gpt", .cluster = cluster, .n_gpus = 4, .global_batch = 8, .top = 12 };
  const struct
  {
    gint64 memory_limit;
    gboolean zero;
    guint tensor;
  } cases[] = { { 22 << 20, TRUE, 2 },  { 22 << 20, TRUE, 0 }, { (gint64)4 << 30, TRUE, 0 },
                { 40 << 20, FALSE, 0 }, { 40 << 20, TRUE, 0 }, { 1 << 20, TRUE, 0 } /* nothing fits */ };

  for (guint i = 0; i < n_cases (G_N_ELEMENTS (cases)); i++)
    {
      question.memory_limit = cases[i].memory_limit;
      question.zero = cases[i].zero;
      question.tensor = cases[i].tensor;
      check_against_all (&question);
    }
}

/* Folded by hand from all settings in their order: the first of each layout, and the schedules near it. */
static void
check_folded (const PsLayouts *every, const PsLayouts *folded)
{
  g_autoptr (GPtrArray) rows = g_ptr_array_new (), near = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; i < every->best->len; i++)
    {
      const PsLayout *one = at (every, i), *row = NULL;
      guint k = 0;

      for (; k < rows->len && row == NULL; k++)
        {
          const PsLayout *other = rows->pdata[k];

          if (one->n_devices == other->n_devices && one->n_tensor == other->n_tensor
              && one->n_replicas == other->n_replicas)
            row = other;
        }
      if (row == NULL)
        {
          g_ptr_array_add (rows, (gpointer)one);
          g_ptr_array_add (near, g_strconcat (one->schedule, ", ", NULL));
        }
      else if ((one->n_devices > 1 || g_str_equal (one->schedule, "1f1b"))
               && one->step_ns <= row->step_ns + row->step_ns / 100)
        {
          g_autofree char *before = near->pdata[k - 1], *name = g_strconcat (one->schedule, ", ", NULL);
          g_autofree char *padded = g_strconcat (", ", before, NULL), *wanted = g_strconcat (", ", name, NULL);

          near->pdata[k - 1] = g_strconcat (before, strstr (padded, wanted) == NULL ? name : "", NULL);
        }
    }
  for (guint i = 0; i < folded->best->len; i++)
    {
      const PsLayout *row = at (folded, i), *wanted = rows->pdata[i];
      g_autofree char *names = g_strjoin (", ", row->schedule, row->near, NULL);
      g_autofree char *all = g_strconcat (names, ", ", NULL);

      g_assert_cmpint (row->step_ns, ==, wanted->step_ns);
      g_assert_cmpuint (row->n_devices, ==, wanted->n_devices);
      g_assert_cmpstr (all, ==, near->pdata[i]);
    }
  g_assert_cmpuint (folded->best->len, ==, MIN (rows->len, 3));
}

static void
test_fold (void)
{
  g_autofree char *cluster = cluster_file ();
  PsLayoutQuestion question = { .model = "tiny-gpt", .cluster = cluster, .n_gpus = 4, .global_batch = 16 };
  const gint64 limits[] = { (gint64)4 << 30, 40 << 20, 22 << 20 };

  for (guint i = 0; i < G_N_ELEMENTS (limits); i++)
    {
      g_autoptr (PsLayouts) every = NULL, folded = NULL;

      question.memory_limit = limits[i];
      question.top = 5000;
      question.fold = FALSE;
      every = find (&question);
      question.top = 3;
      question.fold = TRUE;
      folded = find (&question);
      check_folded (every, folded);
    }
}

/* Where bytes take time O does, too, and less of it in more replicas with --zero 1. */
static void
test_memory_bandwidth (void)
{
  g_autofree char *cluster = write_cluster ("memory.ini", CLUSTER "memory_bandwidth = 10GB/s\n");
  PsLayoutQuestion question = { .model = "tiny-gpt", .cluster = cluster, .n_gpus = 4, .global_batch = 8, .top = 12 };

  for (guint i = 0; i < n_cases (2); i++)
    {
      question.memory_limit = i == 0 ? 40 << 20 : (gint64)4 << 30;
      question.zero = i == 0;
      check_against_all (&question);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/layouts/fold", test_fold);
  g_test_add_func ("/layouts/everything", test_everything);
  g_test_add_func ("/layouts/memory-bandwidth", test_memory_bandwidth);
  return run_in_folder ();
}
