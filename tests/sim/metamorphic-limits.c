/* metamorphic-limits.c - more memory is never slower, and a search never worse than a family that it can be compared
 * with. */
#include "metamorphic.h"
#include "program-rig.h"

#include <json-glib/json-glib.h>

#define MOVES "1000"
#define MOST_MISSED 5 /* percent */

static gboolean keeps_to_limits (const PsFamily *family)
{
  return family->uses_costs;
}

/* A limit from a little, in half microbatches; the largest is none. */
static gint64 draw_limit (MetaProperty *property, const MetaDraw *draw)
{
  guint half = (guint)(draw->costs.value[PS_COST_ACT][0] / 2);

  return (gint64)half * (2 + (gint64)meta_below (property, 2 * draw->m + 4));
}

static char *limit_option (gint64 limit)
{
  return g_strdup_printf ("--memory-limit %" G_GINT64_FORMAT "B", limit);
}

/* Two limits, the second larger or none. */
static void draw_limits (MetaProperty *property, const MetaDraw *draw, char *options[2])
{
  gint64 a = draw_limit (property, draw), b = draw_limit (property, draw);

  options[0] = limit_option (MIN (a, b));
  options[1] = meta_one_in (property, 4) ? NULL : limit_option (MAX (a, b));
}

static void families_in_memory (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  char *options[2];
  g_autoptr (MetaRun) tight = NULL, loose = NULL;

  if (!meta_draw_family (property, &draw, keeps_to_limits))
    return;
  meta_draw_plain (property, &draw);
  draw_limits (property, &draw, options);
  tight = meta_run_draw (&draw, options[0]);
  loose = meta_run_draw (&draw, options[1]);
  g_free (options[0]);
  g_free (options[1]);
  if (tight->prediction == NULL)
    return;
  meta_expect_true (property, "fits the tighter limit", tight->prediction->feasible, tight, NULL);
  meta_expect_true (property, "fits the looser limit", loose->prediction != NULL && loose->prediction->feasible, loose,
                    NULL);
  if (loose->prediction != NULL)
    meta_expect (property, "makespan, more memory", loose->prediction->metrics.makespan_ns,
                 "<=", tight->prediction->metrics.makespan_ns, loose, tight);
}

/* The rows of pipesim search. */
typedef struct {
  char *line; /* the whole command */
  JsonParser *parser;
  JsonArray *rows; /* NULL: nothing was found */
} Search;

static void search_clear (Search *search)
{
  g_free (search->line);
  g_clear_object (&search->parser);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Search, search_clear)

static void search_run (Search *search, const MetaDraw *draw, const char *extra)
{
  g_autofree char *setting = meta_line (draw, extra), *printed = NULL, *talk = NULL;
  g_autofree char *arguments = g_strdup_printf ("search %s --moves " MOVES " --jobs 1 --json", setting);

  search->line = g_strdup_printf ("pipesim search %s --moves " MOVES " --jobs 1", setting);
  search->parser = json_parser_new ();
  if (run_program (NULL, "pipesim", arguments, NULL, &printed, &talk) != 0)
    return;
  g_assert_true (json_parser_load_from_data (search->parser, printed, -1, NULL));
  search->rows = json_object_get_array_member (json_node_get_object (json_parser_get_root (search->parser)), "results");
}

static PsPlacement *row_placement (JsonObject *row)
{
  PsPlacementKind kind;

  g_assert_true (ps_placement_parse ("row", json_object_get_string_member (row, "placement"), &kind, NULL));
  return ps_placement_new (kind, (guint)json_object_get_int_member (row, "devices"),
                           (guint)json_object_get_int_member (row, "chunks"));
}

static gboolean is_placed_so (const PsPlacement *a, const PsPlacement *b)
{
  return a->n_devices == b->n_devices && a->n_stages == b->n_stages && a->n_copies == b->n_copies
         && memcmp (a->device, b->device, sizeof *a->device * a->n_stages * a->n_copies) == 0;
}

/* The row of that placement; NULL: it was skipped. */
static JsonObject *find_row (const Search *search, const PsPlacement *placement)
{
  for (guint i = 0; search->rows != NULL && i < json_array_get_length (search->rows); i++) {
    JsonObject *row = json_array_get_object_element (search->rows, i);
    g_autoptr (PsPlacement) placed = row_placement (row);

    if (is_placed_so (placed, placement))
      return row;
  }
  return NULL;
}

/* A draw for a search: no family, and chunks for one in two. */
static void draw_problem (MetaProperty *property, MetaDraw *draw)
{
  draw->p = 1 + meta_below (property, 4);
  draw->m = 1 + meta_below (property, 7);
  draw->v = meta_one_in (property, 2) ? 1 + meta_below (property, 4) : 0;
  draw->n_stages = MAX (1, draw->p * draw->v);
  draw->options = g_string_new (NULL);
}

/* What was found with less memory is there with more, so no bound lies above it. A search that ends early may miss it
 * by a few percent. */
static void expect_looser_below (MetaProperty *property, const Search *tight, const Search *loose, JsonObject *row)
{
  g_autoptr (PsPlacement) placement = row_placement (row);
  JsonObject *other = find_row (loose, placement);
  gint64 found = json_object_get_int_member (row, "makespan_ns");

  meta_expect_lines (property, "found with more memory, too", other != NULL, "==", TRUE, loose->line, tight->line);
  if (other == NULL)
    return;
  meta_expect_lines (property, "lower bound, more memory", json_object_get_int_member (other, "lower_bound_ns"),
                     "<=", found, loose->line, tight->line);
  meta_expect_lines (property, "makespan, more memory", json_object_get_int_member (other, "makespan_ns"),
                     "<=", found + found * MOST_MISSED / 100, loose->line, tight->line);
}

static void search_in_memory (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_auto (Search) tight = { 0 }, loose = { 0 };
  char *options[2];

  draw_problem (property, &draw);
  meta_draw_plain (property, &draw);
  draw_limits (property, &draw, options);
  search_run (&tight, &draw, options[0]);
  search_run (&loose, &draw, options[1]);
  g_free (options[0]);
  g_free (options[1]);
  for (guint i = 0; tight.rows != NULL && i < json_array_get_length (tight.rows); i++)
    expect_looser_below (property, &tight, &loose, json_array_get_object_element (tight.rows, i));
}

/* A search knows no slices and no schedules without a flush. */
static gboolean is_comparable (const PsPrediction *prediction)
{
  const PsSchedule *schedule = prediction->program->schedule;

  return prediction->feasible && !schedule->asynchronous && schedule->n_slices == 1;
}

static void expect_family_above (MetaProperty *property, const Search *search, const MetaRun *run)
{
  const PsPrediction *prediction = run->prediction;
  const PsMetrics *metrics = &prediction->metrics;
  JsonObject *row = find_row (search, prediction->program->schedule->placement);
  g_autofree char *family = g_strdup_printf ("pipesim predict -s %s %s", run->schedule, run->line);

  meta_expect_lines (property, "found where a family fits", row != NULL, "==", TRUE, search->line, family);
  if (row == NULL)
    return;
  meta_expect_lines (property, "iteration of search and family", json_object_get_int_member (row, "iteration_ns"),
                     "<=", metrics->iteration_ns, search->line, family);
  meta_expect_lines (property, "lower bound of search and family", json_object_get_int_member (row, "lower_bound_ns"),
                     "<=", run->setting->sync == PS_SYNC_BYPASS ? metrics->max_span_ns : metrics->makespan_ns,
                     search->line, family);
}

static void expect_families_above (MetaProperty *property, const Search *search, const MetaDraw *draw,
                                   const char *limit)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);
  MetaDraw chunks = *draw;

  for (guint i = 0; i < n; i++)
    for (chunks.v = draw->v ? draw->v : 1; chunks.v <= (draw->v ? draw->v : 2); chunks.v++) {
      g_autofree char *line = meta_line (&chunks, limit);
      g_autoptr (MetaRun) run = meta_run (families[i]->name, line);

      if (run->prediction != NULL && is_comparable (run->prediction))
        expect_family_above (property, search, run);
    }
}

static void search_and_families (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_auto (Search) search = { 0 };
  g_autofree char *limit = NULL;

  draw_problem (property, &draw);
  meta_draw_costs (property, &draw);
  meta_draw_memory (property, &draw);
  if (meta_one_in (property, 2))
    meta_draw_messages (property, &draw);
  meta_draw_options (property, &draw,
                     META_CHANNEL | META_BLOCKING | META_EAGER | META_ORDER | META_PLANNED | META_SPEED | META_SLOWDOWN
                         | META_BANDWIDTH | META_BYPASS | META_WINDOW | META_EXPOSED | META_RECOMPUTE);
  if (meta_one_in (property, 3))
    limit = limit_option (draw_limit (property, &draw));
  search_run (&search, &draw, limit);
  expect_families_above (property, &search, &draw, limit);
}

const MetaRow meta_limits[] = { { "memory-limit", 1200, families_in_memory },
                                { "memory-limit-search", 300, search_in_memory },
                                { "search", 1200, search_and_families },
                                { 0 } };
