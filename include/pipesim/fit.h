/* fit.h - the cost of a message as a function of its size: alpha + beta n, in pieces.
 *
 * Messages of different sizes go different ways (copied at once, in chunks, through caches or past them), so one beta
 * holds for a range of sizes only. Hockney (The communication challenge for MPP, Parallel Computing 20, 1994) is the
 * fit of one piece. The function is continuous, starts at alpha >= 0 and never falls.
 */
#ifndef PIPESIM_FIT_H
#define PIPESIM_FIT_H

#include <pipesim/base.h>

G_BEGIN_DECLS

#define PS_FIT_MAX_PIECES 3

/* From from_bytes on, up to the next piece, each further byte takes ns_per_byte. */
typedef struct
{
  gint64 from_bytes; /* of the first piece 0 */
  double ns_per_byte;
} PsFitPiece;

typedef struct
{
  double alpha_ns; /* of an empty message */
  PsFitPiece piece[PS_FIT_MAX_PIECES];
  guint n_pieces;
  double r_squared; /* 1 - sum of e^2 / that of the best constant; e relative as below; 1 where a constant is exact */
  double largest_error; /* over the points: |e|, e = (fitted - measured) / measured */
} PsTransferFit;

/* Fits n points (bytes ascending without repetition and >= 0, ns > 0; n >= 2). Minimises the sum of squared relative
 * errors, so that small messages count as much as large ones, over alpha, betas >= 0 and pieces that begin at measured
 * sizes. Another piece is taken where it at least halves that sum and there are more points than 2 per piece. */
void ps_transfer_fit (const gint64 *bytes, const gint64 *ns, guint n, PsTransferFit *fit);

/* The fitted time of a message, in ns. bytes >= 0. */
double ps_transfer_fit_at (const PsTransferFit *fit, double bytes);

/* The fit, a line each: "alpha 8.01 us", per piece "to 64 KiB: 0.0279 ns/B (35.8 GB/s)" or "beyond: no slope", and "R²
 * 0.999, within 3.2 %". Free with g_free. */
char *ps_transfer_fit_to_text (const PsTransferFit *fit);

/* How well sizes are interpolated: each but the outermost two is left out in turn, and taken from the line through its
 * neighbours. Returns the median of |error| relative to the measured time; NaN for n < 3. Points as above. */
double ps_interpolation_error (const gint64 *bytes, const gint64 *ns, guint n);

G_END_DECLS

#endif
