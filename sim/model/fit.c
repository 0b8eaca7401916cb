/* fit.c - a continuous line in pieces through the times of messages, by least squares over values that are not
 * negative.
 *
 * With the pieces' beginnings fixed, the time is a sum: alpha and, per piece, beta times the bytes of the message in
 * that piece. It is linear in a few unknowns that must not be negative. The optimum is the least-squares solution over
 * some subset of the unknowns with the others at 0. There are at most 2^4 subsets, so all are tried.
 */
#include <pipesim/cluster.h>

#include <math.h>

#define MAX_UNKNOWNS (1 + PS_FIT_MAX_PIECES)

typedef struct {
  const gint64 *bytes;
  const gint64 *ns;
  guint n;
} Points;

/* The factor of unknown u in the time of a message: unknown 0 is alpha, unknown 1 + k the beta of piece k. */
static double term (const PsTransferFit *fit, guint u, double bytes)
{
  double from, to;

  if (u == 0)
    return 1;
  from = (double)fit->piece[u - 1].from_bytes;
  to = u < fit->n_pieces ? (double)fit->piece[u].from_bytes : INFINITY;
  return CLAMP (bytes, from, to) - from;
}

double ps_transfer_fit_at (const PsTransferFit *fit, double bytes)
{
  double ns = fit->alpha_ns;

  for (guint u = 1; u <= fit->n_pieces; u++)
    ns += fit->piece[u - 1].ns_per_byte * term (fit, u, bytes);
  return ns;
}

static double error_at (const Points *points, const PsTransferFit *fit, guint i)
{
  double ns = (double)points->ns[i];

  return (ps_transfer_fit_at (fit, (double)points->bytes[i]) - ns) / ns;
}

static double sum_of_squares (const Points *points, const PsTransferFit *fit)
{
  double sum = 0;

  for (guint i = 0; i < points->n; i++) {
    double e = error_at (points, fit, i);

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

static void equations_init (Equations *equations, const Points *points, const PsTransferFit *fit)
{
  *equations = (Equations){ .n = fit->n_pieces + 1 };
  for (guint i = 0; i < points->n; i++) {
    double row[MAX_UNKNOWNS];

    for (guint u = 0; u < equations->n; u++)
      row[u] = term (fit, u, (double)points->bytes[i]) / (double)points->ns[i];
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

/* Sets the unknowns where the pieces begin as they do. Returns the sum of squares. */
static double solve_best (const Points *points, PsTransferFit *best)
{
  PsTransferFit fit = *best;
  Equations equations;
  double least = INFINITY;

  equations_init (&equations, points, &fit);
  for (guint subset = 1; subset < 1U << (fit.n_pieces + 1); subset++) {
    double unknown[MAX_UNKNOWNS] = { 0 }, sum;

    if (!solve (equations, subset, unknown))
      continue;
    fit.alpha_ns = unknown[0];
    for (guint k = 0; k < fit.n_pieces; k++)
      fit.piece[k].ns_per_byte = unknown[k + 1];
    sum = sum_of_squares (points, &fit);
    if (sum < least) {
      least = sum;
      *best = fit;
    }
  }
  return least;
}

/* Tries all beginnings of the last pieces, from point `first` on; each piece has at least two points from its beginning
 * on. */
static void try_beginnings (const Points *points, PsTransferFit fit, guint piece, guint first, PsTransferFit *best,
                            double *least)
{
  if (piece >= MIN (fit.n_pieces, PS_FIT_MAX_PIECES)) {
    double sum = solve_best (points, &fit);

    if (sum < *least) {
      *least = sum;
      *best = fit;
    }
    return;
  }
  for (guint i = first; i + 2 * (fit.n_pieces - piece) < points->n; i++) {
    fit.piece[piece].from_bytes = points->bytes[i];
    try_beginnings (points, fit, piece + 1, i + 2, best, least);
  }
}

void ps_transfer_fit (const gint64 *bytes, const gint64 *ns, guint n, PsTransferFit *fit)
{
  const Points points = { bytes, ns, n };
  PsTransferFit constant = { .n_pieces = 0 };
  double least = INFINITY;

  g_return_if_fail (n >= 2);
  for (guint n_pieces = 1; n_pieces <= PS_FIT_MAX_PIECES && (n_pieces == 1 || n > 2 * n_pieces); n_pieces++) {
    PsTransferFit with = { .n_pieces = n_pieces };
    double sum = INFINITY;

    try_beginnings (&points, with, 1, 1, &with, &sum);
    if (n_pieces == 1 || (least > 1e-12 && sum <= least / 2)) {
      least = sum;
      *fit = with;
    }
  }
  for (guint i = 0; i < n; i++)
    fit->largest_error = MAX (fit->largest_error, fabs (error_at (&points, fit, i)));
  double spread = solve_best (&points, &constant);
  fit->r_squared = spread > 0 ? 1 - least / spread : 1;
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
