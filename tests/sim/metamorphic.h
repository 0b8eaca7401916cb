/* metamorphic.h - for the metamorphic tests: cases drawn at random as command lines, runs of them in this process, and
 * properties that count what they check and say how to repeat what fails. */
#pragma once

#include <pipesim/setting.h>

/* What times and sizes are multiples of (ns, bytes): chunks, slices, speeds and factors that are drawn divide it, so
 * that nothing is rounded. */
#define META_UNIT 8640
#define META_MOST_STAGES 32

/* --costs, key by key. n: 0 not given, 1 a device's whole share, else one value per stage (c and msg: per boundary). */
typedef struct {
  guint n[PS_N_COST_KEYS];
  gint64 value[PS_N_COST_KEYS][META_MOST_STAGES];
} MetaCosts;

/* A property under test. */
typedef struct {
  const char *name;
  GRand *rand;
  guint n_cases;
  guint n_checks;
  guint n_failed;
  GPtrArray *files; /* paths written for the present case; kept where it fails */
} MetaProperty;

/* One case of a property, with any number of checks. */
typedef void (*MetaFunction) (MetaProperty *property);

typedef struct {
  const char *name;
  guint n_checks; /* unless PIPESIM_CHECKS asks for more or fewer of all */
  MetaFunction draw_case;
} MetaRow;

extern const MetaRow meta_times[], meta_engines[], meta_figures[], meta_formats[], meta_limits[], meta_settings[];

/* A schedule and its setting. */
typedef struct {
  char *schedule; /* a family or a file */
  gboolean asynchronous;
  gboolean uses_costs;
  guint p, m, v;
  guint n_stages;
  guint slices, group; /* 0: not given */
  MetaCosts costs;
  GString *options;
} MetaDraw;

void meta_draw_clear (MetaDraw *draw);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (MetaDraw, meta_draw_clear)

guint meta_below (MetaProperty *property, guint n);
gboolean meta_one_in (MetaProperty *property, guint n);

/* Draws a family that does as wanted, and sizes that it takes; FALSE: none was found. */
typedef gboolean (*MetaWanted) (const PsFamily *family);
gboolean meta_draw_family (MetaProperty *property, MetaDraw *draw, MetaWanted wanted);
gboolean meta_any_family (const PsFamily *family);
gboolean meta_fixed_order (const PsFamily *family); /* whatever the costs are */

/* Draws a schedule at random and writes it to a file. */
void meta_draw_schedule (MetaProperty *property, MetaDraw *draw);

/* A schedule's file of the present case. Free with g_free. */
char *meta_write_file (MetaProperty *property, const char *suffix, const char *text);

/* Costs, sometimes of every stage, sometimes with what is rarely given: BW, pairs, O, all-reduces, R. */
void meta_draw_costs (MetaProperty *property, MetaDraw *draw);
void meta_draw_memory (MetaProperty *property, MetaDraw *draw);
void meta_draw_messages (MetaProperty *property, MetaDraw *draw);

/* F, B, W and c alone, and act and wact. */
void meta_draw_plain (MetaProperty *property, MetaDraw *draw);

/* Options, each drawn for one case in three. */
typedef enum {
  META_CHANNEL = 1 << 0,
  META_BLOCKING = 1 << 1,
  META_EAGER = 1 << 2,
  META_ORDER = 1 << 3, /* asap or deferred */
  META_SPEED = 1 << 4,
  META_SLOWDOWN = 1 << 5,
  META_BANDWIDTH = 1 << 6,
  META_BYPASS = 1 << 7,
  META_WINDOW = 1 << 8, /* not with META_BLOCKING */
  META_EXPOSED = 1 << 9,
  META_RECOMPUTE = 1 << 10,
  META_PLANNED = 1 << 11,
} MetaOptions;
void meta_draw_options (MetaProperty *property, MetaDraw *draw, MetaOptions options);

/* The setting as options, followed by extra. Free with g_free. */
char *meta_line (const MetaDraw *draw, const char *extra);

/* What pipesim predict does with a command line. */
typedef struct {
  char *schedule;
  char *line;
  PsSetting *setting;
  PsPrediction *prediction; /* NULL: refused, with error */
  GError *error;
} MetaRun;

MetaRun *meta_run (const char *schedule, const char *line);
MetaRun *meta_run_draw (const MetaDraw *draw, const char *extra);
void meta_run_free (MetaRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (MetaRun, meta_run_free)

/* The setting of a command line's options; it must be right. */
PsSetting *meta_setting (const char *line);

/* Counts a check of left against right; relation is "==" or "<=". Where it does not hold the test fails, with what was
 * compared and the command lines of both sides (b may be NULL). */
void meta_expect (MetaProperty *property, const char *what, gint64 left, const char *relation, gint64 right,
                  const MetaRun *a, const MetaRun *b);

/* Counts a check that has no two numbers. */
void meta_expect_true (MetaProperty *property, const char *what, gboolean holds, const MetaRun *a, const MetaRun *b);

/* The same for command lines as they are; b may be NULL. */
void meta_expect_lines (MetaProperty *property, const char *what, gint64 left, const char *relation, gint64 right,
                        const char *a, const char *b);

/* Every figure of b is k times that of a: times those of time_factor, peaks those of size_factor. */
void meta_expect_scaled (MetaProperty *property, const MetaRun *a, const MetaRun *b, gint64 time_factor,
                         gint64 size_factor);
