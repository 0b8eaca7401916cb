/* search-rows.c - the results of a search as a table. */
#include "search-rows.h"

#include "devices-detail.h"

#include <string.h>

static const PsColumn all_columns[SEARCH_N_COLUMNS] = {
  { "schedule", NULL, PS_COLUMN_TEXT },
  { "placement", "placement", PS_COLUMN_TEXT },
  { "devices", "p", PS_COLUMN_INTEGER },
  { "microbatches", "m", PS_COLUMN_INTEGER },
  { "chunks", "v", PS_COLUMN_INTEGER },
  { "slices", "slices", PS_COLUMN_INTEGER },
  { "microbatch_size", "b", PS_COLUMN_INTEGER },
  { "recompute", "recompute", PS_COLUMN_TEXT },
  { "offload", "offload", PS_COLUMN_TEXT },
  { "comm_order", "comm order", PS_COLUMN_TEXT },
  { "makespan_ns", "makespan", PS_COLUMN_TIME },
  { "max_span_ns", NULL, PS_COLUMN_TIME },
  { "iteration_ns", "iteration", PS_COLUMN_TIME },
  { "objective", NULL, PS_COLUMN_TEXT },
  { "objective_ns", NULL, PS_COLUMN_TIME },
  { "bubble_ratio", "bubble of iteration", PS_COLUMN_RATIO },
  { "bubble_ratio_span", NULL, PS_COLUMN_RATIO },
  { "lower_bound_ns", "lower bound", PS_COLUMN_TIME },
  { "gap", "gap", PS_COLUMN_PERCENT },
  { "proved_optimal", "optimal", PS_COLUMN_BOOLEAN },
  { "peak_memory_bytes", "peak memory", PS_COLUMN_SIZE },
  { "feasible", NULL, PS_COLUMN_BOOLEAN },
  { "moves", NULL, PS_COLUMN_INTEGER },
  { "found_by", "found by", PS_COLUMN_TEXT },
  { "layout", "layout", PS_COLUMN_TEXT },
  { "order", NULL, PS_COLUMN_LISTS },
  { "devices_detail", NULL, PS_COLUMN_TABLE },
};

/* The order of sends and receives is of no concern where nothing waits for them, nor is the layout of stages that are
 * given or measured as they are. */
void
search_columns (const PsSetting *setting, SearchObjective objective, PsColumn *columns)
{
  memcpy (columns, all_columns, sizeof all_columns);
  for (guint i = 0; i < SEARCH_N_COLUMNS; i++)
    if (g_str_equal (columns[i].key, "objective_ns") && objective != SEARCH_TIME)
      columns[i].title = search_objective_name (objective);
    else if ((g_str_equal (columns[i].key, "comm_order") && !ps_setting_transfers_wait (setting))
             || (g_str_equal (columns[i].key, "offload") && setting->offload == 0)
             || (g_str_equal (columns[i].key, "layout") && setting->cluster == NULL && setting->layout == NULL))
      columns[i].title = NULL;
}

static GPtrArray *
list_orders (const PsSchedule *schedule)
{
  GPtrArray *lists = g_ptr_array_new_with_free_func ((GDestroyNotify)g_strfreev);
  char name[48];

  for (guint d = 0; d < schedule->placement->n_devices; d++)
    {
      GStrvBuilder *builder = g_strv_builder_new ();

      for (guint i = schedule->first[d]; i < schedule->first[d + 1]; i++)
        {
          g_autofree char *first = g_strdup (ps_op_format (schedule->ops[i], name));
          g_autofree char *both = schedule->ops[i].paired
                                      ? g_strconcat (first, "+", ps_op_format (schedule->ops[++i], name), NULL)
                                      : NULL;

          g_strv_builder_add (builder, both != NULL ? both : first);
        }
      g_ptr_array_add (lists, g_strv_builder_end (builder));
      g_strv_builder_unref (builder);
    }
  return lists;
}

/* The value as a command line has it: "full", or "full:none" with one for each stage. */
static void
set_option (PsTable *table, const char *name, const PsSetting *setting)
{
  g_autofree char *typed = ps_option_typed (ps_option_find (ps_setting_options, name), setting);

  ps_table_set_text (table, name, strchr (typed, ' ') + 1);
}

/* Stages some of whose microbatches have an R are "some". */
static void
set_recompute (PsTable *table, const PsSetting *setting, const PsSchedule *schedule)
{
  g_autofree guint8 *recomputed = ps_schedule_recomputed (schedule);
  gsize n_stages = schedule->placement->n_stages, n = ps_schedule_n_cells (schedule) / n_stages;
  g_autoptr (GString) text = g_string_new (NULL);

  if (recomputed == NULL)
    {
      set_option (table, "recompute", setting);
      return;
    }
  for (guint stage = 0; stage < n_stages; stage++)
    g_string_append_printf (text, "%s%s", stage > 0 ? ":" : "",
                            memchr (&recomputed[stage * n], 1, n) != NULL
                                ? "some"
                                : ps_recompute_name (ps_setting_recompute (setting, stage)));
  ps_table_set_text (table, "recompute", text->str);
}

void
search_add_row (PsTable *table, SearchObjective objective, const PsSetting *setting, const SearchChoice *choice,
                const SearchFound *found)
{
  const PsSearchResult *result = found->result;
  const PsPrediction *prediction = found->prediction;
  const PsMetrics *metrics = &prediction->metrics;
  g_autofree char *layout = ps_prediction_layout (prediction);

  ps_table_add_row (table);
  ps_table_set_text (table, "schedule", result->schedule->name);
  if (layout != NULL)
    ps_table_set_text (table, "layout", layout);
  ps_table_set_text (table, "placement", ps_placement_name (result->schedule->placement->kind));
  ps_table_set_integer (table, "devices", result->schedule->placement->n_devices);
  ps_table_set_integer (table, "microbatches", choice->n_microbatches);
  ps_table_set_integer (table, "chunks", choice->n_chunks);
  ps_table_set_integer (table, "slices", choice->n_slices);
  if (choice->microbatch_size > 0)
    ps_table_set_integer (table, "microbatch_size", choice->microbatch_size);
  set_recompute (table, setting, result->schedule);
  set_option (table, "offload", setting);
  ps_table_set_text (table, "comm_order", ps_comm_order_name (found->comm_order));
  ps_table_set_integer (table, "makespan_ns", metrics->makespan_ns);
  ps_table_set_integer (table, "max_span_ns", metrics->max_span_ns);
  ps_table_set_integer (table, "iteration_ns", metrics->iteration_ns);
  ps_table_set_text (table, "objective", search_objective_name (objective));
  ps_table_set_integer (table, "objective_ns", found->figure_ns);
  ps_table_set_ratio (table, "bubble_ratio", metrics->bubble_ratio);
  ps_table_set_ratio (table, "bubble_ratio_span", metrics->bubble_ratio_span);
  ps_table_set_integer (table, "lower_bound_ns", result->lower_bound_ns);
  ps_table_set_ratio (table, "gap", (double)result->price_ns / (double)MAX (result->lower_bound_ns, 1) - 1);
  ps_table_set_boolean (table, "proved_optimal", result->proved_optimal);
  ps_table_set_integer (table, "peak_memory_bytes", metrics->peak_memory_bytes);
  ps_table_set_boolean (table, "feasible", prediction->feasible);
  ps_table_set_integer (table, "moves", (gint64)result->n_moves);
  ps_table_set_text (table, "found_by", result->found_by);
  ps_table_set_lists (table, "order", list_orders (result->schedule));
  ps_table_set_table (table, "devices_detail", ps_devices_detail (metrics));
}
