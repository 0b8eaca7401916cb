/* blocks.c - orders that repeat a block of ops: periods of a cell, or the slots of ps_family_v_hops; and a local search
 * over these. A cell says when the ops of one or two microbatches run on each device; its path over the devices has the
 * shortest waits. */
#include "methods.h"

#include <pipesim/schedule.h>

#include <math.h>
#include <string.h>

/* A device runs N_TRACKS ops in a round, and their W. The results of the first N_FORTH ops go to the next device. The
 * inputs of the others come from the next device. */
#define N_TRACKS 4
#define N_FORTH 2

/* Ops of a kind, of the lanes of a direction. A lane is n_devices stages, one on each device. */
typedef struct {
  guint8 kind;
  guint8 back;
} Track;

/* Where in a round each device runs its ops. */
typedef struct {
  const PsProblem *problem;
  const Track *track; /* [N_TRACKS] */
  guint n;            /* units of a round */
  guint n_w;          /* W that have room in a round */
  double unit_ns;
  guint (*at)[N_TRACKS]; /* [n_devices] positions in the round, in units */
  PsSpend spend;
  gpointer data;
} CellPath;

typedef struct {
  const PsCell *cell;
  gint64 pace;   /* ns between microbatches of a copy, on average at least */
  guint burst;   /* microbatches that may enter ahead of the pace */
  PsSpend spend; /* a period counts as no moves */
  gpointer data;
} Entries;

static inline gboolean goes_back (const PsProblem *problem, guint lane)
{
  return problem->device[lane * problem->n_devices] != 0;
}

static inline guint stage_at (const PsProblem *problem, guint lane, guint device)
{
  guint p = problem->n_devices;

  return lane * p + (goes_back (problem, lane) ? p - 1 - device : device);
}

static inline guint lanes_of (const PsProblem *problem)
{
  return problem->n_stages / problem->n_devices;
}

static inline guint modulo (gint64 x, guint n)
{
  return (guint)((x % n + n) % n);
}

/* Whether lanes go both paths, where cells exist. */
static inline gboolean goes_both_ways (const PsProblem *problem)
{
  return problem->device[problem->n_stages - 1] == 0;
}

/* Shortest path over the devices: a node says where in the round a device runs its ops, an edge costs the
 * waits between two devices. */

/* A price that no path has. Any other is less than WAITS waits of a round: those of all tracks between two devices, and
 * two at the first and the last device, where microbatches go back. */
#define NO_PATH 0x7000
#define WAITS (N_TRACKS + 2)

/* The most states that all devices may have together. */
#define MAX_STATES (1U << 24)

/* Positions of a device that count as one move. */
#define POSITIONS_PER_MOVE 384

/* Positions of the tracks after that of the first one, in units. */
typedef struct {
  guint16 at[N_TRACKS];
} State;

typedef struct {
  const CellPath *path;
  const PsProblem *problem;
  const Track *track;
  guint n;
  guint weight[N_TRACKS];
  guint length[N_TRACKS]; /* of the device at hand */
  guint w_length;
  GArray **states;          /* [n_devices] of State, the same array where devices are alike */
  guint16 **price;          /* [n_devices][states] of the least path to each */
  guint32 *lowest;          /* [n_devices] price that was taken off all prices */
  guint (*shift)[N_TRACKS]; /* [n_devices] units to the next device, less whole rounds */
  guint16 *table;           /* [n * n * n] prices by positions */
  guint16 *other;
} Line;

static const Track one_way[N_TRACKS] = { { PS_OP_F, 0 }, { PS_OP_F, 0 }, { PS_OP_B, 0 }, { PS_OP_B, 0 } };
static const Track both_ways[N_TRACKS] = { { PS_OP_F, 0 }, { PS_OP_B, 1 }, { PS_OP_F, 1 }, { PS_OP_B, 0 } };

static const Track *cell_tracks (const PsProblem *problem)
{
  return goes_both_ways (problem) ? both_ways : one_way;
}

/* The mean over the track's lanes on a device. ns: [n_stages * N_KINDS] */
static double mean_of (const PsProblem *problem, Track track, const gint64 *ns, guint device)
{
  double sum = 0;
  guint n = 0;

  for (guint lane = 0; lane < lanes_of (problem); lane++)
    if (goes_back (problem, lane) == track.back) {
      sum += (double)ns[stage_at (problem, lane, device) * N_KINDS + track.kind];
      n++;
    }
  return sum / n;
}

/* The mean over the track's lanes of what an op of theirs takes on a device. */
static double cell_duration (const PsProblem *problem, Track track, guint device)
{
  return mean_of (problem, track, problem->duration, device);
}

/* The mean time from the start of an op on a device to the start of the next one on another device. */
static double cell_move (const PsProblem *problem, Track track, guint from, guint to)
{
  return mean_of (problem, track, problem->lag, to) + mean_of (problem, track, problem->duration, from);
}

/* Whether the ops of a state run one after the other and leave room for W. */
static gboolean fits (const Line *line, const State *state)
{
  guint order[N_TRACKS] = { 0, 1, 2, 3 }, n_w = 0;

  for (guint i = 2; i < N_TRACKS; i++)
    for (guint k = i; k > 1 && state->at[order[k]] < state->at[order[k - 1]]; k--) {
      guint swapped = order[k];

      order[k] = order[k - 1];
      order[k - 1] = swapped;
    }
  for (guint i = 0; i < N_TRACKS; i++) {
    guint end = state->at[order[i]] + line->length[order[i]];
    guint next = i + 1 < N_TRACKS ? state->at[order[i + 1]] : line->n;

    if (next < end)
      return FALSE;
    n_w += line->w_length > 0 ? (next - end) / line->w_length : line->path->n_w;
  }
  return n_w >= line->path->n_w;
}

static GArray *list_states (const Line *line)
{
  GArray *states = g_array_new (FALSE, FALSE, sizeof (State));
  guint begin = line->length[0], n = line->n;

  for (guint i = begin; i + line->length[1] <= n; i++)
    for (guint j = begin; j + line->length[2] <= n; j++)
      for (guint k = begin; k + line->length[3] <= n; k++) {
        State state = { { 0, (guint16)i, (guint16)j, (guint16)k } };

        if (fits (line, &state))
          g_array_append_val (states, state);
      }
  return states;
}

static gsize index_of (const Line *line, guint i, guint j, guint k)
{
  return ((gsize)i * line->n + j) * line->n + k;
}

static void spread (const Line *line, const guint16 *price, const GArray *states)
{
  for (gsize i = 0; i < (gsize)line->n * line->n * line->n; i++)
    line->table[i] = NO_PATH;
  for (guint i = 0; i < states->len; i++) {
    const State *state = &g_array_index (states, State, i);

    line->table[index_of (line, state->at[1], state->at[2], state->at[3])] = price[i];
  }
}

/* Lowers the prices of a row to those of another one, `by` places further, and the weight. */
static void lower_row (guint16 *restrict row, const guint16 *restrict from, guint n, guint by, guint weight)
{
  const guint16 *further = from + by;

  for (guint k = 0; k < n - by; k++) {
    guint16 price = (guint16)(further[k] + weight);

    row[k] = MIN (row[k], price);
  }
  if (by > 0)
    row[n - 1] = MIN (row[n - 1], from[0] + weight);
}

/* Lowers the prices of a row to that of the next place, the first one after the last, and the weight. */
static void lower_along (guint16 *row, guint n, guint weight)
{
  guint price = row[0];

  for (guint k = n; k-- > 0;) {
    price = MIN (row[k], price + weight);
    row[k] = (guint16)price;
  }
}

/* Lets a track wait for any time. A wait of one unit moves positions: of the first track all others back, of the second
 * one itself forth, of the others themselves back. */
static void let_wait (Line *line, guint track)
{
  guint n = line->n, by_i = track == 0 ? 1 : track == 1 ? n - 1 : 0, by_j = track == 0 || track == 2;
  guint by_k = track == 0 || track == 3;

  for (guint round = 0; round < 2; round++)
    for (guint a = n; a-- > 0;)
      for (guint j = n; j-- > 0;) {
        guint i = track == 1 ? n - 1 - a : a, next_j = j + by_j < n ? j + by_j : 0;
        guint16 *row = line->other + index_of (line, i, j, 0);
        const guint16 *from = line->other + index_of (line, (i + by_i) % n, next_j, 0);

        if (row == from)
          lower_along (row, n, line->weight[track]);
        else
          lower_row (row, from, n, by_k, line->weight[track]);
      }
}

/* Moves all positions to the next device's, as if no op waited. */
static void move_on (const Line *line, const guint shift[N_TRACKS])
{
  guint n = line->n, by_i = modulo ((gint64)shift[1] - shift[0], n), by_j = modulo (-(gint64)shift[2] - shift[0], n);
  guint by_k = modulo (-(gint64)shift[3] - shift[0], n);

  for (guint i = 0; i < n; i++)
    for (guint j = 0; j < n; j++) {
      guint16 *row = line->other + index_of (line, (i + by_i) % n, (j + by_j) % n, 0);
      const guint16 *from = line->table + index_of (line, i, j, 0);

      memcpy (row + by_k, from, (n - by_k) * sizeof *row);
      memcpy (row, from + n - by_k, by_k * sizeof *row);
    }
}

/* Sets the lengths of a device's ops; FALSE: they are those of the device before it. */
static gboolean set_lengths (Line *line, guint device)
{
  guint before[N_TRACKS + 1], n = lanes_of (line->problem);
  double w = 0;

  memcpy (before, line->length, sizeof line->length);
  before[N_TRACKS] = line->w_length;
  for (guint i = 0; i < N_TRACKS; i++)
    line->length[i] = (guint)lrint (cell_duration (line->problem, line->track[i], device) / line->path->unit_ns);
  for (guint lane = 0; lane < n; lane++)
    w += (double)line->problem->duration[stage_at (line->problem, lane, device) * N_KINDS + PS_OP_W];
  line->w_length = (guint)lrint (w / n / line->path->unit_ns);
  return device == 0 || memcmp (before, line->length, sizeof line->length) != 0 || before[N_TRACKS] != line->w_length;
}

/* Rounds times from the first device on, so that errors do not add up. Of tracks that come from the next device, the
 * sum with the first track is rounded: it decides where they meet. */
static void set_shifts (Line *line)
{
  const Track *track = line->track;
  double now[N_TRACKS] = { 0 };
  gint64 before[N_TRACKS] = { 0 };

  for (guint d = 0; d + 1 < line->problem->n_devices; d++)
    for (guint i = 0; i < N_TRACKS; i++) {
      gboolean forth = i < N_FORTH;
      gint64 after;

      now[i] += cell_move (line->problem, track[i], d + !forth, d + forth) / line->path->unit_ns;
      after = forth ? lrint (now[i]) : lrint (now[i] + now[0]) - lrint (now[0]);
      line->shift[d][i] = modulo (after - before[i], line->n);
      before[i] = after;
    }
}

static guint wait_at (const Line *line, const State *state, guint from, guint to)
{
  return line->weight[from] * modulo ((gint64)state->at[to] - state->at[from] - line->length[from], line->n);
}

/* The price of waits at the first and the last device, where microbatches go back. */
static guint price_reversal (const Line *line, guint device, const State *state)
{
  const PsProblem *problem = line->problem;
  guint straight = wait_at (line, state, 0, 2) + wait_at (line, state, 1, 3);
  guint crossed = wait_at (line, state, 0, 3) + wait_at (line, state, 1, 2);

  if (line->track == both_ways && device == 0)
    return wait_at (line, state, 2, 1);
  if (device + 1 < problem->n_devices)
    return 0;
  if (line->track == one_way)
    return MIN (straight, crossed);
  return problem->n_copies > 1 ? wait_at (line, state, 0, 3) : straight;
}

static gboolean set_prices (Line *line, guint device)
{
  GArray *states = line->states[device];
  guint16 *price = line->price[device] = g_new0 (guint16, states->len), lowest = NO_PATH;

  if (states->len == 0)
    return FALSE;
  for (guint i = 0; i < states->len; i++)
    price[i] = (guint16)price_reversal (line, device, &g_array_index (states, State, i));
  if (device == 0)
    return TRUE;
  spread (line, line->price[device - 1], line->states[device - 1]);
  move_on (line, line->shift[device - 1]);
  for (guint track = 0; track < N_TRACKS; track++)
    let_wait (line, track);
  for (guint i = 0; i < states->len; i++) {
    const State *state = &g_array_index (states, State, i);

    price[i] += line->other[index_of (line, state->at[1], state->at[2], state->at[3])];
    lowest = MIN (lowest, price[i]);
  }
  for (guint i = 0; i < states->len; i++)
    price[i] -= lowest;
  line->lowest[device] = lowest;
  return TRUE;
}

/* The price of going from one state to another of the next device, or any above `most`. *wait is that of the first
 * track. */
static guint price_between (const Line *line, const State *from, const State *to, const guint shift[N_TRACKS],
                            guint most, guint *wait)
{
  guint best = most + 1;

  for (guint first = 0; first < line->n && line->weight[0] * first < best; first++) {
    guint price = line->weight[0] * first;

    for (guint i = 1; i < N_TRACKS && price < best; i++) {
      gint64 later = (gint64)shift[0] + first + to->at[i] - from->at[i];

      price += line->weight[i] * modulo (i < N_FORTH ? later - shift[i] : -later - shift[i], line->n);
    }
    if (price >= best)
      continue;
    best = price;
    *wait = first;
  }
  return best;
}

static guint cheapest (const Line *line, guint device)
{
  for (guint i = 0; i < line->states[device]->len; i++)
    if (line->price[device][i] == 0)
      return i;
  return 0;
}

/* The state of the device before that the path to a state comes from. */
static guint find_before (const Line *line, guint device, guint i, guint *wait)
{
  const GArray *states = line->states[device - 1];
  const State *state = &g_array_index (line->states[device], State, i);
  guint price = line->price[device][i] + line->lowest[device] - price_reversal (line, device, state);

  for (guint k = 0; k < states->len; k++) {
    guint before = line->price[device - 1][k];

    if (before <= price
        && before
                   + price_between (line, &g_array_index (states, State, k), state, line->shift[device - 1],
                                    price - before, wait)
               == price)
      return k;
  }
  g_return_val_if_reached (0);
}

/* Goes back along the best path, then sets the positions. */
static void trace (Line *line)
{
  guint p = line->problem->n_devices, i = cheapest (line, p - 1);
  g_autofree guint *wait = g_new0 (guint, p);

  for (guint d = p; d-- > 0;) {
    for (guint track = 0; track < N_TRACKS; track++)
      line->path->at[d][track] = g_array_index (line->states[d], State, i).at[track];
    if (d > 0)
      i = find_before (line, d, i, &wait[d]);
  }
  for (guint d = 1; d < p; d++) {
    guint first = line->path->at[d - 1][0] + line->shift[d - 1][0] + wait[d];

    for (guint track = 0; track < N_TRACKS; track++)
      line->path->at[d][track] = (line->path->at[d][track] + first) % line->n;
  }
}

static gboolean find_path (Line *line)
{
  const CellPath *path = line->path;
  guint64 n_moves = (guint64)line->n * line->n * line->n / POSITIONS_PER_MOVE + 1;
  guint n_states = 0;

  set_shifts (line);
  for (guint d = 0; d < line->problem->n_devices; d++) {
    line->states[d] = set_lengths (line, d) ? list_states (line) : g_array_ref (line->states[d - 1]);
    n_states += line->states[d]->len;
    if (n_states > MAX_STATES || !path->spend (n_moves, path->data) || !set_prices (line, d))
      return FALSE;
  }
  trace (line);
  return TRUE;
}

static void line_clear (Line *line)
{
  for (guint d = 0; d < line->problem->n_devices; d++) {
    if (line->states[d] != NULL)
      g_array_unref (line->states[d]);
    g_free (line->price[d]);
  }
  g_free (line->states);
  g_free (line->price);
  g_free (line->lowest);
  g_free (line->shift);
  g_free (line->table);
  g_free (line->other);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Line, line_clear)

/* A wait of a later lane keeps memory of all lanes before it. The weight is the mean over the lanes of a track, as far
 * as no price comes to NO_PATH. */
static void set_weights (Line *line)
{
  guint n_lanes = lanes_of (line->problem), n = line->problem->n_copy_stages / line->problem->n_devices;

  for (guint track = 0; track < N_TRACKS; track++) {
    guint sum = 0, n_track = 0;

    for (guint lane = 0; lane < n_lanes; lane++)
      if (goes_back (line->problem, lane) == line->track[track].back) {
        sum += 2 * (lane % n) + 1;
        n_track++;
      }
    line->weight[track] = MIN (sum / n_track, NO_PATH / (WAITS * line->n));
  }
}

static gboolean find_cell_path (const CellPath *path)
{
  gsize p = path->problem->n_devices, n = (gsize)path->n * path->n * path->n;
  g_auto (Line) line = { .path = path,
                         .problem = path->problem,
                         .track = path->track,
                         .n = path->n,
                         .states = g_new0 (GArray *, p),
                         .price = g_new0 (guint16 *, p),
                         .lowest = g_new0 (guint32, p),
                         .shift = g_malloc0_n (p, sizeof *line.shift),
                         .table = g_new (guint16, n),
                         .other = g_new (guint16, n) };

  set_weights (&line);
  return find_path (&line);
}

/* Ways of microbatches over the positions that a path has found. */

static guint count_back (const PsProblem *problem)
{
  guint n = 0;

  for (guint lane = 0; lane < lanes_of (problem); lane++)
    n += goes_back (problem, lane);
  return n;
}

static gboolean has_cells (const PsProblem *problem)
{
  guint p = problem->n_devices, n = lanes_of (problem), n_back = count_back (problem);

  if (p < 2 || problem->n_stages % p != 0 || (n_back != 0 && 2 * n_back != n))
    return FALSE;
  for (guint lane = 0; lane < n; lane++)
    for (guint d = 0; d < p; d++)
      if (problem->device[stage_at (problem, lane, d)] != d)
        return FALSE;
  return TRUE;
}

static guint cell_n_waves (const PsProblem *problem)
{
  return 1 + lanes_of (problem) % 2;
}

/* Rounds of a period: each has two lanes. */
static guint count_rounds (const PsProblem *problem)
{
  return cell_n_waves (problem) * lanes_of (problem) / 2;
}

/* ns that the ops that a round has room for take at the busiest device. */
static double round_work (const PsProblem *problem, guint n_w)
{
  double most = 1;

  for (guint d = 0; d < problem->n_devices; d++) {
    double work = 0;

    for (guint i = problem->first_stage[d]; i < problem->first_stage[d + 1]; i++) {
      const gint64 *duration = problem->duration + (gsize)problem->stages[i] * N_KINDS;

      work += (double)(duration[PS_OP_F] + duration[PS_OP_B]) + (double)(n_w * duration[PS_OP_W]) / 2;
    }
    most = MAX (most, work);
  }
  return most * 2 / lanes_of (problem);
}

/* A cell leaves room for n_w of every two W, which is 2 at most; others have to run where microbatches are left out.
 * Returns the least factor of its period at which no op has to wait: going to the next device and back takes a part of
 * it. 1 where lanes go both ways: no factor does that. */
static double cell_no_wait (const PsProblem *problem, guint n_w)
{
  const Track *track = cell_tracks (problem);
  double hop = 1, round = round_work (problem, n_w);

  if (goes_both_ways (problem))
    return 1;
  for (guint d = 0; d + 1 < problem->n_devices; d++)
    hop = MAX (hop, cell_move (problem, track[0], d, d + 1) + cell_move (problem, track[N_TRACKS - 1], d + 1, d));
  return ceil (round / hop) * hop / round;
}

/* Units by which the ops of a round are too long or too short, as a part of the round, if times are rounded as in
 * plan_cell. It is that of the first device's first stage. */
static double cell_rounding (const PsProblem *problem, guint n_w, double factor, guint n_units)
{
  double unit_ns = round_work (problem, n_w) * factor / n_units, sum = 0;

  for (guint kind = 0; kind < N_KINDS; kind++) {
    double length = (double)problem->duration[kind] / unit_ns;

    sum += fabs (length - rint (length));
  }
  return sum / n_units;
}

/* Where a microbatch is while its ops are placed. */
typedef struct {
  guint track;
  double now; /* units: when its next op could start */
} Walk;

/* Chooses the first slot of a lane's tracks that no other wave has taken. */
static void take_slot (const CellPath *line, Walk *walk, Track wanted, guint device, guint8 *taken)
{
  guint n_rounds = count_rounds (line->problem), best = 0;
  gint64 best_at = G_MAXINT64, now = (gint64)ceil (walk->now);

  for (guint i = 0; i < N_TRACKS * n_rounds; i++) {
    guint track = i / n_rounds;
    gint64 at = now + modulo (line->at[device][track] + (gint64)(i % n_rounds) * line->n - now, line->n * n_rounds);

    if (taken[i] || memcmp (&line->track[track], &wanted, sizeof wanted) != 0 || at >= best_at)
      continue;
    best = i;
    best_at = at;
  }
  taken[best] = TRUE;
  walk->track = best / n_rounds;
  walk->now = (double)best_at;
}

/* Places the ops of a lane. Positions are rounded: an op may seem to start a unit too early. */
static void walk_lane (const CellPath *line, Walk *walk, guint lane, guint kind, guint8 *taken, gint64 *start)
{
  const PsProblem *problem = line->problem;
  const Track wanted = { (guint8)kind, (guint8)goes_back (problem, lane) };
  guint p = problem->n_devices;

  for (guint i = 0; i < p; i++) {
    guint device = wanted.back == (kind == PS_OP_B) ? i : p - 1 - i, stage = stage_at (problem, lane, device);
    gint64 earliest;

    walk->now += (double)problem->lag[stage * N_KINDS + kind] / line->unit_ns;
    earliest = (gint64)ceil (walk->now) - 1;
    if (i == 0)
      take_slot (line, walk, wanted, device, taken);
    else
      walk->now = (double)(earliest + modulo (line->at[device][walk->track] - earliest, line->n));
    start[(kind == PS_OP_B) * problem->n_stages + stage] = (gint64)(walk->now * line->unit_ns);
    walk->now += (double)problem->duration[stage * N_KINDS + kind] / line->unit_ns;
  }
}

static void walk_all (const CellPath *line, PsCell *cell)
{
  const PsProblem *problem = line->problem;
  guint n = problem->n_copy_stages / problem->n_devices, n_rounds = count_rounds (problem);
  /* a slot of each lane of a round: lanes of a direction share the tracks, F and B have their own */
  g_autofree guint8 *taken = g_new0 (guint8, (gsize)N_TRACKS * n_rounds);

  for (guint wave = 0; wave < cell->n_waves; wave++)
    for (guint copy = 0; copy < problem->n_copies; copy++) {
      gint64 *start = cell->start + (gsize)wave * 2 * problem->n_stages;
      Walk walk = { 0 };

      for (guint i = 0; i < 2 * n; i++)
        walk_lane (line, &walk, copy * n + (i < n ? i : 2 * n - 1 - i), i < n ? PS_OP_F : PS_OP_B, taken, start);
    }
}

static gboolean plan_cell (PsCell *cell, const PsProblem *problem, guint n_w, double factor, guint n_units,
                           PsSpend spend, gpointer data)
{
  double round = round_work (problem, n_w) * factor;
  g_autofree guint (*at)[N_TRACKS] = g_malloc0_n (problem->n_devices, sizeof *at);
  const CellPath path = { problem, cell_tracks (problem), n_units, n_w, round / n_units, at, spend, data };

  cell->n_waves = cell_n_waves (problem);
  cell->period = (gint64)(round * count_rounds (problem));
  if (!find_cell_path (&path))
    return FALSE;
  walk_all (&path, cell);
  return TRUE;
}

/* Plans microbatches one by one: each takes the first path of the cell on which its devices have room. */

/* Periods in a row without an entry, after which a plan is given up. */
#define MAX_PERIODS 1024

/* The part of a W that may be missing where a plan has room for it. */
#define W_SLACK 4

typedef struct {
  gint64 start;
  guint32 op;
} Planned;

/* Bytes that a device takes, or gives back if negative. */
typedef struct {
  gint64 time;
  gint64 bytes;
} Change;

/* What is planned on a device, in order of time. Changes before change_begin are over for all microbatches to come. */
typedef struct {
  Planned *planned; /* points into those of all devices */
  guint n_planned;
  Change *change;
  guint change_begin;
  guint n_changes;
  gint64 level; /* bytes after all changes */
} DeviceLine;

typedef struct {
  const PsProblem *problem;
  DeviceLine *line; /* [n_devices] */
  gint64 *bytes;    /* [n_stages] that a microbatch's F takes with those of its earlier stages on the same device */
} Plan;

/* The ops of one microbatch in the cell. */
typedef struct {
  const gint64 *start; /* of its wave */
  guint copy;
  gint64 entry;
} Path;

/* Whether a device has the bytes from a time on for good. */
static gboolean has_room (const DeviceLine *line, gint64 at, gint64 bytes, gint64 limit)
{
  gint64 level = line->level;

  if (level + bytes > limit)
    return FALSE;
  for (guint i = line->n_changes; i > line->change_begin && line->change[i - 1].time > at; i--) {
    level -= line->change[i - 1].bytes;
    if (level + bytes > limit)
      return FALSE;
  }
  return TRUE;
}

static void add_planned (DeviceLine *line, Planned planned)
{
  guint i = line->n_planned++;

  for (; i > 0 && line->planned[i - 1].start > planned.start; i--)
    line->planned[i] = line->planned[i - 1];
  line->planned[i] = planned;
}

static void add_change (DeviceLine *line, Change change)
{
  guint i = line->n_changes++;

  for (; i > line->change_begin && line->change[i - 1].time > change.time; i--)
    line->change[i] = line->change[i - 1];
  line->change[i] = change;
  line->level += change.bytes;
}

static gboolean path_fits (const Plan *plan, const Path *path, gint64 shift)
{
  const PsProblem *problem = plan->problem;
  guint begin = path->copy * problem->n_copy_stages;

  for (guint s = begin; s < begin + problem->n_copy_stages; s++) {
    guint d = problem->device[s];

    if (problem->limit[d] != G_MAXINT64
        && !has_room (&plan->line[d], path->start[s] + shift, plan->bytes[s], problem->limit[d]))
      return FALSE;
  }
  return TRUE;
}

/* Takes and gives the bytes of an op; returns its end. */
static gint64 run (DeviceLine *line, const PsProblem *problem, guint chain, gint64 start)
{
  gint64 end = start + problem->duration[chain];

  add_change (line, (Change){ start, problem->take[chain] });
  add_change (line, (Change){ end, -problem->give[chain] });
  return end;
}

static void enter (Plan *plan, const Path *path, gint64 shift, guint microbatch)
{
  const PsProblem *problem = plan->problem;
  guint begin = path->copy * problem->n_copy_stages;

  for (guint s = begin; s < begin + problem->n_copy_stages; s++) {
    DeviceLine *line = &plan->line[problem->device[s]];
    gint64 f = path->start[s] + shift, b = path->start[problem->n_stages + s] + shift;
    guint chain = s * N_KINDS;

    add_planned (line, (Planned){ f, op_at (problem, s, PS_OP_F, microbatch) });
    add_planned (line, (Planned){ b, op_at (problem, s, PS_OP_B, microbatch) });
    run (line, problem, chain + PS_OP_F, f);
    run (line, problem, chain + PS_OP_W, run (line, problem, chain + PS_OP_B, b));
  }
}

/* Passes what is over at a moment. */
static void pass (Plan *plan, gint64 moment)
{
  for (guint d = 0; d < plan->problem->n_devices; d++) {
    DeviceLine *line = &plan->line[d];

    while (line->change_begin < line->n_changes && line->change[line->change_begin].time <= moment)
      line->change_begin++;
  }
}

/* Lists the paths of a period by their entries. */
static guint list_paths (const PsProblem *problem, const PsCell *cell, Path *paths)
{
  guint n = 0;

  for (guint wave = 0; wave < cell->n_waves; wave++)
    for (guint copy = 0; copy < problem->n_copies; copy++) {
      const gint64 *start = cell->start + (gsize)wave * 2 * problem->n_stages;
      Path path = { start, copy, start[copy * problem->n_copy_stages] };
      guint i = n++;

      for (; i > 0 && paths[i - 1].entry > path.entry; i--)
        paths[i] = paths[i - 1];
      paths[i] = path;
    }
  return n;
}

static gboolean enter_all (Plan *plan, const Entries *entries)
{
  const PsProblem *problem = plan->problem;
  const PsCell *cell = entries->cell;
  g_autofree Path *paths = g_new (Path, (gsize)cell->n_waves * problem->n_copies);
  g_autofree guint *next = g_new0 (guint, problem->n_copies);
  guint n = list_paths (problem, cell, paths), n_left = problem->m * problem->n_copies, n_refused = 0;

  for (guint i = 0; n_left > 0 && n_refused < MAX_PERIODS * n; i++) {
    const Path *path = &paths[i % n];
    gint64 shift = (gint64)(i / n) * cell->period;
    guint k = next[path->copy];

    if (i % n == 0 && !entries->spend (0, entries->data))
      return FALSE;
    n_refused++;
    if (k == problem->m || (k > entries->burst && path->entry + shift < (k - entries->burst) * entries->pace)
        || !path_fits (plan, path, shift))
      continue;
    enter (plan, path, shift, k);
    pass (plan, path->entry + shift);
    next[path->copy]++;
    n_left--;
    n_refused = 0;
  }
  return n_left == 0;
}

static void add_up_bytes (const PsProblem *problem, gint64 *bytes)
{
  for (guint i = 0; i < problem->n_stages; i++) {
    guint s = problem->stages[i], before = i > 0 ? problem->stages[i - 1] : 0;
    gint64 *take = problem->take + (gsize)s * N_KINDS;
    gboolean is_next = i > 0 && problem->device[before] == problem->device[s]
                       && before / problem->n_copy_stages == s / problem->n_copy_stages;

    bytes[s] = take[PS_OP_F];
    if (is_next)
      bytes[s] += bytes[before] - problem->give[before * N_KINDS + PS_OP_F];
  }
}

/* The W that have room between two planned ops. Positions in a cell are rounded, so a little less is room enough. */
static guint8 count_w (const PsProblem *problem, const Planned *planned)
{
  guint chain = chain_of (problem, planned->op);
  gint64 w = problem->duration[chain - chain % N_KINDS + PS_OP_W];
  gint64 gap = planned[1].start - planned->start - problem->duration[chain];

  return w > 0 ? (guint8)CLAMP ((gap + w / W_SLACK) / w, 0, G_MAXUINT8) : G_MAXUINT8;
}

static void write_plan (const PsProblem *problem, const DeviceLine *line, guint first, PsPlan *plan)
{
  for (guint i = 0; i < line->n_planned; i++) {
    plan->list[first + i] = line->planned[i].op;
    if (plan->n_w != NULL)
      plan->n_w[first + i] = i + 1 < line->n_planned ? count_w (problem, &line->planned[i]) : G_MAXUINT8;
  }
}

static gboolean plan_microbatches (const PsProblem *problem, const Entries *entries, PsPlan *into)
{
  g_autofree DeviceLine *line = g_new0 (DeviceLine, problem->n_devices);
  g_autofree Planned *planned = g_new (Planned, problem->n_ops);
  g_autofree Change *change = g_new (Change, 2 * (gsize)problem->n_ops);
  g_autofree gint64 *bytes = g_new (gint64, problem->n_stages);
  Plan plan = { problem, line, bytes };

  add_up_bytes (problem, bytes);
  for (guint d = 0; d < problem->n_devices; d++)
    line[d] = (DeviceLine){ .planned = planned + problem->first[d],
                            .change = change + 2 * (gsize)problem->first[d],
                            .level = problem->held[d] };
  if (!enter_all (&plan, entries))
    return FALSE;
  for (guint d = 0; d < problem->n_devices; d++)
    write_plan (problem, &line[d], problem->first[d], into);
  return TRUE;
}

/* One search in FRESH_SEARCHES begins with a new block. On a V, one wait in LONG_WAITS is of two slots. */
#define FRESH_SEARCHES 3
#define LONG_WAITS 8

/* Smaller problems have no cells: local search does better. */
#define LEAST_OPS 2048

/* PACE_SPREAD is how much faster than memory allows microbatches may come, MAX_BURST how many of them may be ahead, and
 * FACTOR_SPREAD how much longer than the work in it a period may be. */
#define PACE_SPREAD 0.1
#define MAX_BURST 3
#define FACTOR_SPREAD 0.25

/* Shapes of cells that a fresh search tries first: where lanes go both paths, and else. */
#define N_SHAPES 4
#define N_SHAPES_ONE_WAY 2

/* At its end, one in LAST_PART of the microbatches in a pipeline go as soon as they can, for a fresh search. */
#define LAST_PART 8

/* Units of time in a round of a cell. */
#define MIN_UNITS 24
#define MAX_UNITS 60
#define UNITS_STEP 6
#define UNITS_DRAWS 3

/* Runs of stages that a change of waits concerns, at most. */
#define MAX_CHANGES 3

/* Whether the placement is a V of two chunks. */
static gboolean is_v (const PsProblem *problem)
{
  guint p = problem->n_devices;

  if (problem->n_copies > 1 || problem->n_stages != 2 * p)
    return FALSE;
  for (guint d = 0; d < p; d++)
    if (problem->device[d] != d || problem->device[2 * p - 1 - d] != d)
      return FALSE;
  return TRUE;
}

gboolean ps_blocks_suit (const PsProblem *problem, gboolean have_slots)
{
  return !problem->joins && problem->n_slices == 1
         && (have_slots ? is_v (problem) : problem->n_ops >= LEAST_OPS && has_cells (problem));
}

static guint8 draw_wait (PsRandom *random)
{
  return (guint8)(1 + (ps_random_below (random, LONG_WAITS) == 0));
}

/* Forwards and backwards wait at a part of their hops down and up the V. */
static void draw_waits (const PsProblem *problem, guint8 *wait, PsRandom *random)
{
  guint n = problem->n_devices;

  for (guint direction = 0; direction < 2 * problem->n_stages / n; direction++) {
    double part = ps_random_below (random, 2) ? ps_random_unit (random) : 0;

    for (guint i = 0; i < n; i++)
      wait[direction * n + i] = ps_random_unit (random) < part ? draw_wait (random) : 0;
  }
}

static void change_waits (const PsProblem *problem, guint8 *wait, PsRandom *random)
{
  guint n = problem->n_devices, n_paths = 2 * problem->n_stages / n;

  for (guint i = 1 + ps_random_below (random, MAX_CHANGES); i > 0; i--) {
    guint first = ps_random_below (random, n), length = 1 + ps_random_below (random, MIN (n - first, MAX_CHANGES));
    guint8 value = ps_random_below (random, 2) ? draw_wait (random) : 0;

    memset (wait + ps_random_below (random, n_paths) * n + first, value, length);
  }
}

/* The shortest time between microbatches of a copy in which the device can have the bytes that its ops take; a W runs
 * right after its B. */
static gint64 pace_for (const PsProblem *problem, const PsCell *cell, guint device)
{
  double bytes = 0, room = (double)(problem->limit[device] - problem->held[device]);

  if (problem->limit[device] == G_MAXINT64)
    return 0;
  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++) {
    guint s = problem->stages[i];
    const gint64 *duration = problem->duration + (gsize)s * N_KINDS;
    double kept = (double)ps_problem_kept (problem, s, PS_OP_F), left = (double)ps_problem_kept (problem, s, PS_OP_B);

    for (guint wave = 0; wave < cell->n_waves; wave++) {
      const gint64 *start = cell->start + (gsize)wave * 2 * problem->n_stages;

      bytes += kept * (double)(start[problem->n_stages + s] + duration[PS_OP_B] - start[s])
               + left * (double)duration[PS_OP_W];
    }
  }
  return (gint64)(bytes / MAX (room, 1)) / cell->n_waves;
}

/* The shortest time between microbatches of a copy for which all devices have the time and the bytes. */
static gint64 least_pace (const PsProblem *problem, const PsCell *cell)
{
  gint64 least = cell->period / cell->n_waves;

  for (guint d = 0; d < problem->n_devices; d++)
    least = MAX (least, pace_for (problem, cell, d));
  return least;
}

/* The first tries are of the cells that are best most often: those without waits, with room for all W and for none;
 * then a slightly longer one with room for all W, which waits much less where lanes go both paths; then one like that
 * whose plan says where W run. */
static void set_shape (const PsProblem *problem, PsBlock *block, guint64 n_tries)
{
  static const double longer[N_SHAPES] = { 0, 0, 0.02, 0.02 };

  block->n_w = n_tries == 1 ? 0 : 2;
  block->factor = longer[n_tries] > 0 ? 1 + longer[n_tries] : cell_no_wait (problem, block->n_w);
  block->has_w = n_tries == N_SHAPES - 1;
  block->n_last = block->has_w ? MIN (problem->n_devices, problem->m) / LAST_PART : 0;
}

static void draw_shape (const PsProblem *problem, PsBlock *block, PsRandom *random)
{
  double part = ps_random_unit (random);

  block->n_w = ps_random_below (random, 3);
  block->factor = 1;
  if (ps_random_below (random, 2))
    block->factor = cell_no_wait (problem, block->n_w);
  else if (ps_random_below (random, 2))
    block->factor += FACTOR_SPREAD * part * part;
}

/* Makes a plan; FALSE: there is none, it takes `enough` or longer, or the search ends. */
static gboolean make_plan (const PsBlocks *blocks, const PsProblem *problem, const PsBlock *block, gint64 enough,
                           PsPlan *plan)
{
  gint64 least = least_pace (problem, &block->cell);
  const Entries entries
      = { &block->cell, (gint64)((double)least * block->pace), block->burst, blocks->spend, blocks->data };

  return least * problem->m < enough && plan_microbatches (problem, &entries, plan);
}

static gboolean fill_v (PsOrder *order, const guint8 *wait, PsRandom *random)
{
  const PsProblem *problem = order->problem;
  const PsFamilySetting setting
      = { .n_devices = problem->n_devices, .n_microbatches = problem->m, .n_chunks = 2, .n_slices = 1 };
  g_autoptr (PsSchedule) schedule = ps_family_v_hops (&setting, wait, ps_random_below (random, 2));

  return ps_order_from_schedule (order, schedule);
}

/* Fills the order by the plan. */
static gboolean fill_planned (PsBlocks *blocks, PsOrder *order, const PsBlock *block, gint64 enough)
{
  g_autofree guint32 *list = g_new (guint32, order->problem->n_ops);
  g_autofree guint8 *n_w = block->has_w ? g_new (guint8, order->problem->n_ops) : NULL;
  PsPlan plan = { list, n_w, block->n_last };
  const PsPolicy policy = { .bias[PS_OP_W] = { .base = 1 - ps_random_unit (blocks->random) / 2 }, .plan = &plan };

  return make_plan (blocks, order->problem, block, enough, &plan) && ps_list_schedule (order, &policy);
}

/* Fills and evaluates the order; returns its objective, G_MAXINT64 where it is no solution or its plan takes `enough`
 * or longer. */
static gint64 build (PsBlocks *blocks, PsOrder *order, const PsBlock *block, gint64 enough)
{
  gboolean fills
      = blocks->have_slots ? fill_v (order, block->wait, blocks->random) : fill_planned (blocks, order, block, enough);

  return fills && ps_order_evaluate (order) && order->excess == 0 ? order->objective : G_MAXINT64;
}

/* Where all lanes go in one direction, two or three hops to the next device and back fit a round: they have whole
 * units. A plan that says where W run takes the number whose units fit the ops best, of several. */
static guint draw_units (const PsProblem *problem, const PsBlock *block, PsRandom *random)
{
  gboolean both_ways = goes_both_ways (problem);
  guint step = both_ways ? 1 : UNITS_STEP, best = 0;
  double least = G_MAXDOUBLE;

  for (guint i = block->has_w ? UNITS_DRAWS : 1; i > 0; i--) {
    guint n = step * (MIN_UNITS / step + ps_random_below (random, (MAX_UNITS - MIN_UNITS) / step + 1));
    double rounding = cell_rounding (problem, block->n_w, block->factor, n);

    best = rounding < least ? n : best;
    least = MIN (least, rounding);
  }
  return best;
}

/* Draws whether a plan says where W run; then a part of the last microbatches in the pipeline goes as soon as it can.
 */
static void draw_w (const PsProblem *problem, PsBlock *block, PsRandom *random)
{
  block->has_w = ps_random_below (random, 2);
  block->n_last = block->has_w ? ps_random_below (random, MIN (problem->n_devices, problem->m)) : 0;
}

/* Changes a block, or makes a new one for the first tries. FALSE: it has no plan. */
static gboolean change_cell (PsBlocks *blocks, const PsProblem *problem, PsBlock *block, guint64 n_tries)
{
  PsRandom *random = blocks->random;
  guint which = ps_random_below (random, 10);
  gboolean given = n_tries < (goes_both_ways (problem) ? N_SHAPES : N_SHAPES_ONE_WAY);

  if (given)
    set_shape (problem, block, n_tries);
  else if (which == 0 || block->cell.n_waves == 0)
    draw_shape (problem, block, random);
  if (which < 5 || given || block->cell.n_waves == 0)
    return plan_cell (&block->cell, problem, block->n_w, block->factor, draw_units (problem, block, random),
                      blocks->spend, blocks->data);
  if (which < 7)
    block->pace = 1 - PACE_SPREAD * ps_random_unit (random);
  else if (which < 8)
    block->burst = ps_random_below (random, MAX_BURST + 1);
  else
    draw_w (problem, block, random);
  return TRUE;
}

/* A search that has found none yet draws waits anew: changes of a block that is over the limit rarely hold it. */
static gboolean change_block (PsBlocks *blocks, const PsProblem *problem, PsBlock *block, gboolean anew,
                              gboolean has_found, guint64 n_tries)
{
  if (!blocks->have_slots)
    return change_cell (blocks, problem, block, anew ? n_tries : N_SHAPES);
  if (!has_found)
    draw_waits (problem, block->wait, blocks->random);
  else
    change_waits (problem, block->wait, blocks->random);
  return TRUE;
}

static gsize count_starts (const PsProblem *problem)
{
  return 2 * (gsize)problem->n_stages * cell_n_waves (problem);
}

static PsBlock block_new (const PsProblem *problem)
{
  return (PsBlock){ .wait = g_new0 (guint8, 2 * (gsize)problem->n_stages),
                    .cell.start = g_new0 (gint64, count_starts (problem)),
                    .pace = 1 };
}

static void block_clear (PsBlock *block)
{
  g_free (block->wait);
  g_free (block->cell.start);
}

static void block_assign (PsBlock *block, const PsBlock *from, const PsProblem *problem)
{
  guint8 *wait = memcpy (block->wait, from->wait, 2 * (gsize)problem->n_stages);
  gint64 *start = memcpy (block->cell.start, from->cell.start, count_starts (problem) * sizeof *start);

  *block = *from;
  block->wait = wait;
  block->cell.start = start;
}

void ps_blocks_search (PsBlocks *blocks, PsOrder *scratch)
{
  const PsProblem *problem = scratch->problem;
  PsRandom *random = blocks->random;
  PsBlock block = block_new (problem), current = block_new (problem);
  gint64 current_ns = ps_random_below (random, FRESH_SEARCHES) == 0 ? G_MAXINT64 : blocks->best_ns;
  gboolean anew = current_ns == G_MAXINT64;

  block_assign (&current, &blocks->best, problem);
  block_assign (&block, &current, problem);
  for (guint64 i = 0; i < blocks->n_tries && blocks->spend (blocks->n_moves, blocks->data); i++) {
    gboolean has_plan = change_block (blocks, problem, &block, anew, current_ns < G_MAXINT64, i);
    gint64 objective = has_plan ? build (blocks, scratch, &block, current_ns) : G_MAXINT64;
    gboolean takes = objective <= current_ns && objective < G_MAXINT64;

    if (takes) {
      current_ns = objective;
      blocks->offer (scratch, "a repeated block", blocks->data);
    }
    block_assign (takes ? &current : &block, takes ? &block : &current, problem);
  }
  if (current_ns < blocks->best_ns) {
    blocks->best_ns = current_ns;
    block_assign (&blocks->best, &current, problem);
  }
  block_clear (&block);
  block_clear (&current);
}

void ps_blocks_init (PsBlocks *blocks, const PsProblem *problem)
{
  blocks->best = block_new (problem);
  blocks->best_ns = G_MAXINT64;
}

void ps_blocks_clear (PsBlocks *blocks)
{
  block_clear (&blocks->best);
}
