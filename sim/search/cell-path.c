/* cell-path.c - shortest path over the devices: a node says where in the turn a device runs its ops, an edge costs the
 * waits between two devices. */
#include "cell-path.h"

#include <math.h>
#include <string.h>

/* A price that no path has. Any other is less than WAITS waits of a turn: those of all tracks between two devices, and
 * two where microbatches turn around. */
#define NO_PATH 0x7000
#define WAITS (N_TRACKS + 2)

/* The most states that all devices may have together. */
#define MAX_STATES (1U << 24)

/* Positions of a device that count as one move. */
#define POSITIONS_PER_MOVE 384

/* Positions of the tracks after that of the first one, in units. */
typedef struct
{
  guint16 at[N_TRACKS];
} State;

typedef struct
{
  const PsCellPath *path;
  const PsProblem *problem;
  const Track *track;
  guint n;
  guint weight[N_TRACKS];
  guint length[N_TRACKS]; /* of the device at hand */
  guint w_length;
  GArray **states;          /* [n_devices] of State, the same array where devices are alike */
  guint16 **price;          /* [n_devices][states] of the least path to each */
  guint32 *lowest;          /* [n_devices] price that was taken off all prices */
  guint (*shift)[N_TRACKS]; /* [n_devices] units to the next device, less whole turns */
  guint16 *table;           /* [n * n * n] prices by positions */
  guint16 *other;
} Line;

static const Track one_way[N_TRACKS] = { { PS_OP_F, 0 }, { PS_OP_F, 0 }, { PS_OP_B, 0 }, { PS_OP_B, 0 } };
static const Track both_ways[N_TRACKS] = { { PS_OP_F, 0 }, { PS_OP_B, 1 }, { PS_OP_F, 1 }, { PS_OP_B, 0 } };

const Track *
ps_cell_tracks (const PsProblem *problem)
{
  return ps_cell_goes_both_ways (problem) ? both_ways : one_way;
}

/* The mean over the track's lanes on a device. ns: [n_stages * N_KINDS] */
static double
mean_of (const PsProblem *problem, Track track, const gint64 *ns, guint device)
{
  double sum = 0;
  guint n = 0;

  for (guint lane = 0; lane < lanes_of (problem); lane++)
    if (goes_back (problem, lane) == track.back)
      {
        sum += (double)ns[stage_at (problem, lane, device) * N_KINDS + track.kind];
        n++;
      }
  return sum / n;
}

double
ps_cell_duration (const PsProblem *problem, Track track, guint device)
{
  return mean_of (problem, track, problem->duration, device);
}

double
ps_cell_move (const PsProblem *problem, Track track, guint from, guint to)
{
  return mean_of (problem, track, problem->lag, to) + mean_of (problem, track, problem->duration, from);
}

/* Whether the ops of a state run one after the other and leave room for W. */
static gboolean
fits (const Line *line, const State *state)
{
  guint order[N_TRACKS] = { 0, 1, 2, 3 }, n_w = 0;

  for (guint i = 2; i < N_TRACKS; i++)
    for (guint k = i; k > 1 && state->at[order[k]] < state->at[order[k - 1]]; k--)
      {
        guint swapped = order[k];

        order[k] = order[k - 1];
        order[k - 1] = swapped;
      }
  for (guint i = 0; i < N_TRACKS; i++)
    {
      guint end = state->at[order[i]] + line->length[order[i]];
      guint next = i + 1 < N_TRACKS ? state->at[order[i + 1]] : line->n;

      if (next < end)
        return FALSE;
      n_w += line->w_length > 0 ? (next - end) / line->w_length : line->path->n_w;
    }
  return n_w >= line->path->n_w;
}

static GArray *
list_states (const Line *line)
{
  GArray *states = g_array_new (FALSE, FALSE, sizeof (State));
  guint begin = line->length[0], n = line->n;

  for (guint i = begin; i + line->length[1] <= n; i++)
    for (guint j = begin; j + line->length[2] <= n; j++)
      for (guint k = begin; k + line->length[3] <= n; k++)
        {
          State state = { { 0, (guint16)i, (guint16)j, (guint16)k } };

          if (fits (line, &state))
            g_array_append_val (states, state);
        }
  return states;
}

static gsize
index_of (const Line *line, guint i, guint j, guint k)
{
  return ((gsize)i * line->n + j) * line->n + k;
}

static void
spread (const Line *line, const guint16 *price, const GArray *states)
{
  for (gsize i = 0; i < (gsize)line->n * line->n * line->n; i++)
    line->table[i] = NO_PATH;
  for (guint i = 0; i < states->len; i++)
    {
      const State *state = &g_array_index (states, State, i);

      line->table[index_of (line, state->at[1], state->at[2], state->at[3])] = price[i];
    }
}

/* Lowers the prices of a row to those of another one, `by` places further, and the weight. */
static void
lower_row (guint16 *restrict row, const guint16 *restrict from, guint n, guint by, guint weight)
{
  const guint16 *further = from + by;

  for (guint k = 0; k < n - by; k++)
    {
      guint16 price = (guint16)(further[k] + weight);

      row[k] = MIN (row[k], price);
    }
  if (by > 0)
    row[n - 1] = MIN (row[n - 1], from[0] + weight);
}

/* Lowers the prices of a row to that of the next place, the first one after the last, and the weight. */
static void
lower_along (guint16 *row, guint n, guint weight)
{
  guint price = row[0];

  for (guint k = n; k-- > 0;)
    {
      price = MIN (row[k], price + weight);
      row[k] = (guint16)price;
    }
}

/* Lets a track wait for any time. A wait of one unit moves positions: of the first track all others back, of the second
 * one itself forth, of the others themselves back. */
static void
let_wait (Line *line, guint track)
{
  guint n = line->n, by_i = track == 0 ? 1 : track == 1 ? n - 1 : 0, by_j = track == 0 || track == 2;
  guint by_k = track == 0 || track == 3;

  for (guint turn = 0; turn < 2; turn++)
    for (guint a = n; a-- > 0;)
      for (guint j = n; j-- > 0;)
        {
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
static void
move_on (const Line *line, const guint shift[N_TRACKS])
{
  guint n = line->n, by_i = modulo ((gint64)shift[1] - shift[0], n), by_j = modulo (-(gint64)shift[2] - shift[0], n);
  guint by_k = modulo (-(gint64)shift[3] - shift[0], n);

  for (guint i = 0; i < n; i++)
    for (guint j = 0; j < n; j++)
      {
        guint16 *row = line->other + index_of (line, (i + by_i) % n, (j + by_j) % n, 0);
        const guint16 *from = line->table + index_of (line, i, j, 0);

        memcpy (row + by_k, from, (n - by_k) * sizeof *row);
        memcpy (row, from + n - by_k, by_k * sizeof *row);
      }
}

/* Sets the lengths of a device's ops; FALSE: they are those of the device before it. */
static gboolean
set_lengths (Line *line, guint device)
{
  guint before[N_TRACKS + 1], n = lanes_of (line->problem);
  double w = 0;

  memcpy (before, line->length, sizeof line->length);
  before[N_TRACKS] = line->w_length;
  for (guint i = 0; i < N_TRACKS; i++)
    line->length[i] = (guint)lrint (ps_cell_duration (line->problem, line->track[i], device) / line->path->unit_ns);
  for (guint lane = 0; lane < n; lane++)
    w += (double)line->problem->duration[stage_at (line->problem, lane, device) * N_KINDS + PS_OP_W];
  line->w_length = (guint)lrint (w / n / line->path->unit_ns);
  return device == 0 || memcmp (before, line->length, sizeof line->length) != 0 || before[N_TRACKS] != line->w_length;
}

/* Rounds times from the first device on, so that errors do not add up. Of tracks that come from the next device, the
 * sum with the first track is rounded: it decides where they meet. */
static void
set_shifts (Line *line)
{
  const Track *track = line->track;
  double now[N_TRACKS] = { 0 };
  gint64 before[N_TRACKS] = { 0 };

  for (guint d = 0; d + 1 < line->problem->n_devices; d++)
    for (guint i = 0; i < N_TRACKS; i++)
      {
        gboolean forth = i < N_FORTH;
        gint64 after;

        now[i] += ps_cell_move (line->problem, track[i], d + !forth, d + forth) / line->path->unit_ns;
        after = forth ? lrint (now[i]) : lrint (now[i] + now[0]) - lrint (now[0]);
        line->shift[d][i] = modulo (after - before[i], line->n);
        before[i] = after;
      }
}

static guint
wait_at (const Line *line, const State *state, guint from, guint to)
{
  return line->weight[from] * modulo ((gint64)state->at[to] - state->at[from] - line->length[from], line->n);
}

/* The price of waits where microbatches turn around, at the first and the last device. */
static guint
price_turn (const Line *line, guint device, const State *state)
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

static gboolean
set_prices (Line *line, guint device)
{
  GArray *states = line->states[device];
  guint16 *price = line->price[device] = g_new0 (guint16, states->len), lowest = NO_PATH;

  if (states->len == 0)
    return FALSE;
  for (guint i = 0; i < states->len; i++)
    price[i] = (guint16)price_turn (line, device, &g_array_index (states, State, i));
  if (device == 0)
    return TRUE;
  spread (line, line->price[device - 1], line->states[device - 1]);
  move_on (line, line->shift[device - 1]);
  for (guint track = 0; track < N_TRACKS; track++)
    let_wait (line, track);
  for (guint i = 0; i < states->len; i++)
    {
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
static guint
price_between (const Line *line, const State *from, const State *to, const guint shift[N_TRACKS], guint most,
               guint *wait)
{
  guint best = most + 1;

  for (guint first = 0; first < line->n && line->weight[0] * first < best; first++)
    {
      guint price = line->weight[0] * first;

      for (guint i = 1; i < N_TRACKS && price < best; i++)
        {
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

static guint
cheapest (const Line *line, guint device)
{
  for (guint i = 0; i < line->states[device]->len; i++)
    if (line->price[device][i] == 0)
      return i;
  return 0;
}

/* The state of the device before that the path to a state comes from. */
static guint
find_before (const Line *line, guint device, guint i, guint *wait)
{
  const GArray *states = line->states[device - 1];
  const State *state = &g_array_index (line->states[device], State, i);
  guint price = line->price[device][i] + line->lowest[device] - price_turn (line, device, state);

  for (guint k = 0; k < states->len; k++)
    {
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
static void
trace (Line *line)
{
  guint p = line->problem->n_devices, i = cheapest (line, p - 1);
  g_autofree guint *wait = g_new0 (guint, p);

  for (guint d = p; d-- > 0;)
    {
      for (guint track = 0; track < N_TRACKS; track++)
        line->path->at[d][track] = g_array_index (line->states[d], State, i).at[track];
      if (d > 0)
        i = find_before (line, d, i, &wait[d]);
    }
  for (guint d = 1; d < p; d++)
    {
      guint first = line->path->at[d - 1][0] + line->shift[d - 1][0] + wait[d];

      for (guint track = 0; track < N_TRACKS; track++)
        line->path->at[d][track] = (line->path->at[d][track] + first) % line->n;
    }
}

static gboolean
find_path (Line *line)
{
  const PsCellPath *path = line->path;
  guint64 n_moves = (guint64)line->n * line->n * line->n / POSITIONS_PER_MOVE + 1;
  guint n_states = 0;

  set_shifts (line);
  for (guint d = 0; d < line->problem->n_devices; d++)
    {
      line->states[d] = set_lengths (line, d) ? list_states (line) : g_array_ref (line->states[d - 1]);
      n_states += line->states[d]->len;
      if (n_states > MAX_STATES || !path->spend (n_moves, path->data) || !set_prices (line, d))
        return FALSE;
    }
  trace (line);
  return TRUE;
}

static void
line_clear (Line *line)
{
  for (guint d = 0; d < line->problem->n_devices; d++)
    {
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
static void
set_weights (Line *line)
{
  guint n_lanes = lanes_of (line->problem), n = line->problem->n_copy_stages / line->problem->n_devices;

  for (guint track = 0; track < N_TRACKS; track++)
    {
      guint sum = 0, n_track = 0;

      for (guint lane = 0; lane < n_lanes; lane++)
        if (goes_back (line->problem, lane) == line->track[track].back)
          {
            sum += 2 * (lane % n) + 1;
            n_track++;
          }
      line->weight[track] = MIN (sum / n_track, NO_PATH / (WAITS * line->n));
    }
}

gboolean
ps_cell_path_find (const PsCellPath *path)
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
