/* timeline.h - start and end of every op and transfer, simulated or measured: one type. All that comes after the
 * simulator and the executor (report, compare, plots) sees only timelines and costs. */
#ifndef PIPESIM_TIMELINE_H
#define PIPESIM_TIMELINE_H

#include <pipesim/answer.h>
#include <pipesim/option.h>

G_BEGIN_DECLS

/* One op; or one transfer (op is then the producer, device the sender, peer the receiver; see program.h); or the time
 * for which posting one end of a transfer held the host of a device, or for which a device waited for a message (op is
 * then the producer). */
typedef struct {
  gint64 start_ns; /* since the iteration began */
  gint64 end_ns;
  PsOp op; /* both ops of a pair have a span of their own, with equal times */
  guint16 device;
  guint16 peer;  /* == device for ops, posts and waits */
  guint16 chunk; /* 0.. on the device (of the sender for transfers; 0 for posts and waits) */
  guint8 post;   /* PS_INSTRUCTION_SEND or PS_INSTRUCTION_RECEIVE; 0 for all but posts */
} PsSpan;

/* Memory of a device from time_ns on. */
typedef struct {
  gint64 time_ns;
  gint64 bytes;
  guint16 device;
  gint64 buffer_bytes; /* part of bytes: buffers of messages (simulate.h); executors measure none */
} PsMemoryPoint;

typedef struct {
  PsOrigin origin; /* PS_ORIGIN_SIMULATED or PS_ORIGIN_MEASURED */
  char *schedule;  /* its name */
  char *source;    /* one line: costs used, or device and transport that ran */
  char *remark;    /* one line for the user who reads the timeline, after the file's name; NULL. Not written to files */
  gboolean apart;  /* the devices ran one after another, or without messages: times within a device alone count. The
                      readers of traces alone say so, and such a timeline has no waits and transfers */
  guint n_devices;
  guint n_stages;
  guint n_microbatches;
  gint64 iteration_ns; /* time per training step */
  PsInterval interval; /* interval of a prediction from measured costs; files keep p10 and p90 */
  gint64 usual_ns;     /* a run: the iteration time on the machine as its profile found it, by the sentinel; 0: not
                          known */
  GArray *ops;         /* PsSpan, by device, then start */
  GArray *transfers;   /* PsSpan, by start */
  GArray *posts;       /* PsSpan, by device, then start; empty if they are not known (simulated timelines) */
  GArray *waits;       /* PsSpan, by device, then start; empty if they are not known */
  GArray *memory;      /* PsMemoryPoint, by device, then time; may be empty when not known */
} PsTimeline;

/* Empty, with iteration_ns 0; texts are copied. Free with ps_timeline_free. */
PsTimeline *ps_timeline_new (PsOrigin origin, const char *schedule, guint n_devices, guint n_stages,
                             guint n_microbatches);
void ps_timeline_free (PsTimeline *timeline);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsTimeline, ps_timeline_free)

/* Puts spans and points into the order described above. Call after appending. */
void ps_timeline_sort (PsTimeline *timeline);

/* The time of [start_ns, end_ns] that posts or waits of the device cover. *next, at first 0, is the first span that may
 * count: ask by device, then time. */
gint64 ps_spans_cover (const GArray *spans, guint *next, guint device, gint64 start_ns, gint64 end_ns);

/* One more than the last slice of its ops. */
guint ps_timeline_n_slices (const PsTimeline *timeline);

/* TRUE if tables by stage, microbatch and slice are of a possible size and have room for every op and message. Readers
 * of files ensure it. Errors: PS_ERROR_INPUT. */
gboolean ps_timeline_check (const char *where, const PsTimeline *timeline, GError **error);

/* The timeline of a simulation, memory curve included. Weights are part of the curve. Ops are without their host
 * times: so the first starts later than in the simulation, and the last ends earlier. */
PsTimeline *ps_timeline_from_simulation (const PsProgram *program, const PsCosts *costs,
                                         const PsSimulation *simulation);

/* The timeline of an order alone, as papers draw it: unit_ns for F, B and W each, two of them for a full backward, and
 * no time for transfers. */
PsTimeline *ps_timeline_of_order (const PsProgram *program, gint64 unit_ns);

/* Simulates the program with the durations that every op and transfer has in a timeline of the same schedule. A
 * transfer that it has only a wait for takes the costs' time, but at least the wait, and at most until the wait ends.
 * With a measured timeline the prediction's remaining error comes from the order and the machine's gaps, not from the
 * costs. A measured timeline of an asynchronous schedule is one of its steady state, and so is what comes out
 * (ps_iteration_times). costs give memory and O. Fails with PS_ERROR_INPUT naming the first op that the timeline does
 * not have in its place.
 */
gboolean ps_timeline_replay (const PsProgram *program, const PsCosts *costs, const PsTimeline *timeline,
                             PsSimulation *simulation, GError **error);

/* The order in which the devices of a timeline ran their ops, under the timeline's name. A stage that some microbatches
 * run on another device has two weight copies. Errors: PS_ERROR_INPUT where a stage has no op for a microbatch,
 * PS_ERROR_SCHEDULE where the order is no schedule (schedule.h). Free with ps_schedule_free. */
PsSchedule *ps_timeline_schedule (const PsTimeline *timeline, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The times of a timeline at the steps of a program of the same schedule, as if an engine had found them, for
 * ps_explain_measured. A transfer that the timeline does not have starts when its op ends. It ends with the wait for it
 * or, where that is not known either, after the costs' time, but before its consumer starts. Peaks are the timeline's,
 * and so is O; where it has none, costs give it. Errors as above. Free with ps_simulation_free. */
PsSimulation *ps_timeline_simulation (const PsProgram *program, const PsCosts *costs, const PsTimeline *timeline,
                                      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Host times before the steps of that simulation, [n_steps]: the time that posts took from the moment when the step's
 * device was free and its input had come. Free with g_free. */
gint64 *ps_timeline_host_times (const PsProgram *program, const PsTimeline *timeline, const PsSimulation *simulation);

/* Figures of one timeline; DESIGN's names. All but iteration_ns follow from the spans of all ops but O, which counts in
 * the iteration time only: recorded or not, the figures stay comparable with the simulator's. */
typedef struct {
  gint64 makespan_ns;
  gint64 max_span_ns;
  gint64 iteration_ns;
  double bubble_ratio;      /* 1 - sum of busy / (p * iteration) */
  double bubble_ratio_span; /* 1 - (sum of busy / p) / max span: as the zero-bubble papers count */
  gint64 peak_memory_bytes; /* largest over devices; 0 when memory is not known */
  guint n_devices;
  struct PsDeviceMetrics {
    gint64 busy_ns; /* sum of op durations */
    gint64 span_ns; /* first op's start to last op's end */
    gint64 peak_memory_bytes;
    guint peak_activations; /* most (stage, microbatch) pairs alive at once, see PsProgram */
  } * device;               /* [n_devices] */
} PsMetrics;

void ps_metrics_clear (PsMetrics *metrics);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsMetrics, ps_metrics_clear)

/* The two sources of the same figures; a test holds them equal on simulated timelines. Clear with ps_metrics_clear. */
void ps_metrics_from_timeline (const PsTimeline *timeline, PsMetrics *metrics);
void ps_metrics_from_simulation (const PsProgram *program, const PsSimulation *simulation, PsMetrics *metrics);

/* Another iteration time than that of one iteration alone, makespan + O; the bubble ratio follows. */
void ps_metrics_set_iteration (PsMetrics *metrics, gint64 iteration_ns);

/* The figures of one schedule, predicted or run. Texts and metrics are not owned; what is not known is 0. */
typedef struct {
  const char *schedule;
  guint n_devices;
  guint n_stages;
  guint n_microbatches;
  guint n_chunks;
  gboolean asynchronous;
  PsMetrics metrics;
  gint64 first_token_ns; /* of prefill: mean time from the start until a prompt is in */
  double prompts_per_s;  /* these two: of prefill, of an iteration */
  double tokens_per_s;
  gint64 lower_bound_ns;
  gboolean feasible;
  const char *fits;
  const char *layout;
} PsFigures;

/* Key, heading and type of each of these figures, the same for all commands; the last key is NULL. Tables name them by
 * PS_FIGURE, and their rows are structs that begin with a PsFigures. */
extern const PsCellColumn ps_figures[];

/* The figure of that key. */
const PsColumn *ps_figure (const char *key);

/* The column of a figure, with its heading; without one, for JSON only; or of another member of a row's struct. */
#define PS_FIGURE(key) PS_CELL_ROW (key, NULL, TEXT, .of = ps_figures)
#define PS_FIGURE_JSON(key) PS_CELL_ROW (key, "", TEXT, .of = ps_figures)
#define PS_FIGURE_AT(Struct, member, key) PS_CELL_ROW (key, NULL, TEXT, PS_CELL_AT (Struct, member), .of = ps_figures)

/* The native file, JSON {"format": "pipesim-timeline/1", "origin", "schedule", "source", "devices", "stages",
 * "microbatches", "iteration_ns", "ops": [[device, "F0.1", start, end, chunk], ...], "transfers": [[from, to, "F0.1",
 * start, end], ...], "memory": [[device, time, bytes], ...]}, where a fourth value is buffer_bytes. Paired ops end in
 * '+' ("F0.1+"). Where the interval is known: "iteration_p10_ns", "iteration_p90_ns"; where usual_ns is:
 * "usual_iteration_ns". Where there are posts: "posts":
 * [[device, "SEND F0.1" or "RECEIVE F0.1", start, end], ...]; where there are waits: "waits": [[device, "F0.1", start,
 * end], ...]. Files are read by ps_timeline_load. Free the text with g_free. */
char *ps_timeline_to_json (const PsTimeline *timeline);

/* length -1: text ends with NUL. Errors: PS_ERROR_INPUT "where: ops[2]: ...". Free with ps_timeline_free. */
PsTimeline *ps_timeline_parse_json (const char *where, const char *text, gssize length,
                                    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* "forward", "backward for input", ... */
const char *ps_op_kind_title (PsOpKind kind);

/* "simulated 1f1b: iteration 33 ms, bubble 27.3 % of iteration, peak memory 8 MiB". Free with g_free. */
char *ps_timeline_caption (const PsTimeline *timeline);

/* How a drawing in letters looks. */
typedef struct {
  guint columns;     /* a window that the drawing fills, with captions, time axis and key; 0: a drawing in cells */
  guint max_columns; /* longest row in cells; a longer one has as many columns in true proportion in place of cells */
  guint fold;        /* cells: characters of a line, after which all rows go on in a block below; 0: never */
  gboolean colour;   /* escape sequences of terminals, a colour for each op kind */
} PsTimelineText;

/* Draws timelines below each other, one row per device, on one time axis.
 *
 * In cells an op's name (kind, microbatch, and the stage where devices hold several) stands where it starts, '=' after
 * it while it goes on, '.' while the device waits. A cell is the longest time that divides every start and end of the
 * first timeline, and has room for a name; *cell_ns (NULL: not asked for) gets its time. In true proportion a column
 * shows an op that lies there, or '.' where the device is idle for more than half of it; names are cut, and very short
 * ops may be missing. Free with g_free. */
char *ps_timelines_to_text (PsTimeline *const *timelines, guint n, const PsTimelineText *style, gint64 *cell_ns);

/* Chrome trace events ("traceEvents" of phase X, times in microseconds with at most three decimals, flow arrows s/f for
 * transfers, counters C for memory): opens in Perfetto and chrome://tracing. pid 0 predicted, 1 measured; tid = device,
 * and PS_MAX_DEVICES + device for its posts and waits, which have categories "post" and "wait".
 * "otherData" has source, devices, stages, microbatches and iteration_ns, so that ps_timeline_load gives back the same
 * timeline as from the native file. Free with g_free. */
char *ps_timeline_to_chrome_trace (const PsTimeline *timeline);

G_END_DECLS

#endif
