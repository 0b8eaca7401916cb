/* fit.c - a continuous line in pieces through the times of messages, and rates through the times of ops, by least
 * squares over values that are not negative.
 *
 * With the pieces' beginnings fixed, the time is a sum: alpha and, per piece, beta times the bytes of the message in
 * that piece. It is linear in a few unknowns that must not be negative. The optimum is the least-squares solution over
 * some subset of the unknowns with the others at 0. There are at most 2^4 subsets, so all are tried.
 */
#include <pipesim/cluster.h>

#include <math.h>

#define MAX_UNKNOWNS (1 + PS_FIT_MAX_PIECES) /* PS_FIT_AMOUNTS is less */

/* The points and the unknowns: unknown 0 is alpha, unknown 1 + k the beta of piece k. Where there are amounts, unknown
 * k is the time of one of amount k. */
typedef struct {
  const gint64 *bytes;
  const gint64 *ns;
  guint n;
  gint64 from[PS_FIT_MAX_PIECES];
  guint n_pieces;
  const PsFitAmounts *amounts; /* [n]; NULL: the points are messages */
} Problem;

static guint count_unknowns (const Problem *problem)
{
  return problem->amounts != NULL ? PS_FIT_AMOUNTS : problem->n_pieces + 1;
}

/* The factor of unknown u in the time of point i. */
static double term (const Problem *problem, guint u, guint i)
{
  double from, to, bytes;

  if (problem->amounts != NULL)
    return problem->amounts[i].of[u];
  bytes = (double)problem->bytes[i];
  if (u == 0)
    return 1;
  from = (double)problem->from[u - 1];
  to = u < problem->n_pieces ? (double)problem->from[u] : INFINITY;
  return CLAMP (bytes, from, to) - from;
}

static double error_at (const Problem *problem, const double *unknown, guint i)
{
  double fitted = 0, ns = (double)problem->ns[i];

  for (guint u = 0; u < count_unknowns (problem); u++)
    fitted += unknown[u] * term (problem, u, i);
  return (fitted - ns) / ns;
}

static double largest_error (const Problem *problem, const double *unknown)
{
  double largest = 0;

  for (guint i = 0; i < problem->n; i++)
    largest = MAX (largest, fabs (error_at (problem, unknown, i)));
  return largest;
}

static double sum_of_squares (const Problem *problem, const double *unknown)
{
  double sum = 0;

  for (guint i = 0; i < problem->n; i++) {
    double e = error_at (problem, unknown, i);

    sum += e * e;
  }
  return sum;
}

/* Normal equations in columns of length 1: sizes and times differ by many orders of magnitude. */
typedef struct {
  double a[MAX_UNKNOWNS][MAX_UNKNOWNS];
  double b[MAX_UNKNOWNS];
  double length[MAX_UNKNOWNS];
  guint n;
} Equations;

static void equations_init (Equations *equations, const Problem *problem)
{
  *equations = (Equations){ .n = count_unknowns (problem) };
  for (guint i = 0; i < problem->n; i++) {
    double row[MAX_UNKNOWNS];

    for (guint u = 0; u < equations->n; u++)
      row[u] = term (problem, u, i) / (double)problem->ns[i];
    for (guint u = 0; u < equations->n; u++) {
      equations->b[u] += row[u];
      for (guint v = 0; v < equations->n; v++)
        equations->a[u][v] += row[u] * row[v];
    }
  }
  for (guint u = 0; u < equations->n; u++)
    equations->length[u] = sqrt (equations->a[u][u]);
  for (guint u = 0; u < equations->n; u++) {
    equations->b[u] /= equations->length[u] > 0 ? equations->length[u] : 1;
    for (guint v = 0; v < equations->n; v++)
      equations->a[u][v] /= equations->length[u] > 0 ? equations->length[u] * equations->length[v] : 1;
  }
}

/* Takes row `pivot` out of all others. FALSE where it is (nearly) a sum of the rows before it. */
static gboolean eliminate (Equations *equations, guint pivot, guint subset)
{
  double diagonal = equations->a[pivot][pivot];

  if (!(diagonal > 1e-12))
    return FALSE;
  for (guint u = 0; u < equations->n; u++) {
    double factor = equations->a[u][pivot] / diagonal;

    if (u == pivot || !(subset & 1U << u))
      continue;
    for (guint v = 0; v < equations->n; v++)
      equations->a[u][v] -= factor * equations->a[pivot][v];
    equations->b[u] -= factor * equations->b[pivot];
  }
  return TRUE;
}

/* The best values of the unknowns in the subset, the others 0. FALSE where there is no single solution or a negative
 * one. */
static gboolean solve (Equations equations, guint subset, double *unknown)
{
  for (guint u = 0; u < equations.n; u++)
    if (subset & 1U << u && !eliminate (&equations, u, subset))
      return FALSE;
  for (guint u = 0; u < equations.n; u++) {
    unknown[u] = subset & 1U << u ? equations.b[u] / equations.a[u][u] / equations.length[u] : 0;
    if (unknown[u] < 0)
      return FALSE;
  }
  return TRUE;
}

/* Returns the sum of squares. */
static double solve_best (const Problem *problem, double *best)
{
  Equations equations;
  double least = INFINITY;

  equations_init (&equations, problem);
  for (guint subset = 1; subset < 1U << count_unknowns (problem); subset++) {
    double unknown[MAX_UNKNOWNS] = { 0 }, sum;

    if (!solve (equations, subset, unknown))
      continue;
    sum = sum_of_squares (problem, unknown);
    if (sum >= least)
      continue;
    least = sum;
    for (guint u = 0; u < count_unknowns (problem); u++)
      best[u] = unknown[u];
  }
  return least;
}

typedef struct {
  Problem problem;
  double unknown[MAX_UNKNOWNS];
  double sum;
} Candidate;

/* Tries all beginnings of the last pieces, from point `first` on; each piece has at least two points from its beginning
 * on. */
static void try_beginnings (Problem *problem, guint piece, guint first, Candidate *best)
{
  Candidate candidate = { .problem = *problem };

  if (piece >= MIN (problem->n_pieces, PS_FIT_MAX_PIECES)) {
    candidate.sum = solve_best (problem, candidate.unknown);
    if (candidate.sum < best->sum)
      *best = candidate;
    return;
  }
  for (guint i = first; i + 2 * (problem->n_pieces - piece) < problem->n; i++) {
    problem->from[piece] = problem->bytes[i];
    try_beginnings (problem, piece + 1, i + 2, best);
  }
}

static void fill (const Candidate *best, PsTransferFit *fit)
{
  const Problem *problem = &best->problem;
  const Problem constant = { problem->bytes, problem->ns, problem->n, { 0 }, 0, NULL };
  double level = 0, spread;

  *fit = (PsTransferFit){ .alpha_ns = best->unknown[0], .n_pieces = problem->n_pieces };
  for (guint k = 0; k < problem->n_pieces; k++)
    fit->piece[k] = (PsFitPiece){ problem->from[k], best->unknown[k + 1] };
  fit->largest_error = largest_error (problem, best->unknown);
  spread = solve_best (&constant, &level);
  fit->r_squared = spread > 0 ? 1 - best->sum / spread : 1;
}

void ps_transfer_fit (const gint64 *bytes, const gint64 *ns, guint n, PsTransferFit *fit)
{
  Candidate best = { .sum = INFINITY };

  g_return_if_fail (n >= 2);
  for (guint n_pieces = 1; n_pieces <= PS_FIT_MAX_PIECES && (n_pieces == 1 || n > 2 * n_pieces); n_pieces++) {
    Problem problem = { bytes, ns, n, { 0 }, n_pieces, NULL };
    Candidate with = { .sum = INFINITY };

    try_beginnings (&problem, 1, 1, &with);
    if (n_pieces == 1 || (best.sum > 1e-12 && with.sum <= best.sum / 2))
      best = with;
  }
  fill (&best, fit);
}

double ps_fit_amounts (const PsFitAmounts *amounts, const gint64 *ns, guint n, PsFitAmounts *ns_of_one)
{
  const Problem problem = { .ns = ns, .n = n, .amounts = amounts };

  *ns_of_one = (PsFitAmounts){ { 0 } };
  solve_best (&problem, ns_of_one->of);
  return largest_error (&problem, ns_of_one->of);
}

double ps_transfer_fit_at (const PsTransferFit *fit, double bytes)
{
  double ns = fit->alpha_ns;

  for (guint k = 0; k < fit->n_pieces; k++) {
    double from = (double)fit->piece[k].from_bytes,
           to = k + 1 < fit->n_pieces ? (double)fit->piece[k + 1].from_bytes : INFINITY;

    ns += fit->piece[k].ns_per_byte * (CLAMP (bytes, from, to) - from);
  }
  return ns;
}

/* 1 ns per byte is 1 GB/s. */
static void append_piece (GString *text, const PsTransferFit *fit, guint k)
{
  double beta = fit->piece[k].ns_per_byte;

  if (k + 1 < fit->n_pieces) {
    g_autofree char *to = ps_format_size (fit->piece[k + 1].from_bytes);

    g_string_append_printf (text, "to %s: ", to);
  } else if (k > 0)
    g_string_append (text, "beyond: ");
  if (beta > 0)
    g_string_append_printf (text, "%.3g ns/B (%.3g GB/s)\n", beta, 1 / beta);
  else
    g_string_append (text, "no slope\n");
}

char *ps_transfer_fit_to_text (const PsTransferFit *fit)
{
  g_autofree char *alpha = ps_format_time (llround (fit->alpha_ns));
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "alpha %s\n", alpha);
  for (guint k = 0; k < fit->n_pieces; k++)
    append_piece (text, fit, k);
  g_string_append_printf (text, "R² %.3f, within %.1f %%", fit->r_squared, fit->largest_error * 100);
  return g_string_free (text, FALSE);
}

double ps_interpolation_error (const gint64 *bytes, const gint64 *ns, guint n)
{
  g_autoptr (GArray) errors = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint i = 1; i + 1 < n; i++) {
    double part = (double)(bytes[i] - bytes[i - 1]) / (double)(bytes[i + 1] - bytes[i - 1]);
    double error = fabs ((1 - part) * (double)ns[i - 1] + part * (double)ns[i + 1] - (double)ns[i]) / (double)ns[i];

    g_array_append_val (errors, error);
  }
  g_array_sort (errors, ps_compare_double);
  return errors->len > 0 ? g_array_index (errors, double, (errors->len - 1) / 2) : NAN;
}
