/* lengths.h - microbatches of different lengths: their file, and costs that hold an entry for each length. */
#ifndef PIPESIM_LENGTHS_H
#define PIPESIM_LENGTHS_H

#include <pipesim/costs.h>

G_BEGIN_DECLS

/* Most microbatches of a file, and the range of a factor in it. */
#define PS_MAX_LENGTHS 65535
#define PS_MIN_LENGTH_FACTOR 0.0001
#define PS_MAX_LENGTH_FACTOR 10000

/* What multiplies the costs of a microbatch. */
typedef struct
{
  double f;   /* F and R */
  double b;   /* B; a BW grows as the sum of its B and W does, and a pair as the sum of its F and BW */
  double w;   /* W */
  double c;   /* time of a transfer */
  double act; /* all bytes that ops take and give, and the time to move them to the host */
  double msg; /* bytes of a transfer */
} PsLengthFactors;

typedef struct
{
  guint tokens;            /* of each sequence; 0: the factors say all */
  PsLengthFactors factors; /* 1 where tokens are known */
} PsLength;

typedef struct
{
  guint n;          /* microbatches */
  guint16 *of;      /* [n] index into length */
  guint n_lengths;  /* different ones */
  PsLength *length; /* [n_lengths] in the order of their first microbatch */
} PsLengths;

/* Which microbatch of the file is the first to enter the pipeline, the second, and so on. */
typedef enum
{
  PS_ORDER_GIVEN,      /* as in the file */
  PS_ORDER_ASCENDING,  /* by the work of F, B and W, the shortest first */
  PS_ORDER_DESCENDING, /* the longest first */
  PS_ORDER_BEST,       /* the one that takes the least time; see sim/setting/setting-lengths.h */
} PsMicrobatchOrder;

/* Names and back; errors as those of ps_parse_name. */
const char *ps_microbatch_order_name (PsMicrobatchOrder order); /* "given", "ascending", "descending", "best" */
gboolean ps_microbatch_order_parse (const char *where, const char *text, PsMicrobatchOrder *order, GError **error);

/* Reads a CSV with one line for each microbatch. Its first line names the columns: either "tokens", or some of factor,
 * f, b, w, c, act and msg. A column of factors that is left out is as `factor`, or 1. Empty lines and those that begin
 * with
 * '#' do not count. Errors: PS_ERROR_IO, PS_ERROR_INPUT "FILE:LINE: ...". */
PsLengths *ps_lengths_read (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;
PsLengths *ps_lengths_parse (const char *where, const char *text, gsize length,
                             GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_lengths_free (PsLengths *lengths);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsLengths, ps_lengths_free)

/* The factors that lead from the costs of a stage to other costs of it; 1 where the first are 0. */
PsLengthFactors ps_length_factors (const PsCosts *from, const PsCosts *to, guint stage);

/* Costs of microbatches that are alike, times the factors [n_stages]. Weights, all-reduce, O and host times stay. */
PsCosts *ps_costs_scale (const PsCosts *costs, const PsLengthFactors *factors);

/* One table of the costs of n lengths, each of microbatches that are alike, without host times. */
PsCosts *ps_costs_join (PsCosts *const *costs, guint n);

/* The times of one length, of microbatches that are alike. They have no bytes. */
PsCosts *ps_costs_of_length (const PsCosts *costs, guint length);

/* The average times of the microbatches, and for each stage the bytes of the length that keeps most: costs of
 * microbatches that are alike. costs have lengths->n_lengths. */
PsCosts *ps_costs_average (const PsCosts *costs, const PsLengths *lengths);

/* The least of every time over all lengths, and of pairs over all that two of them make: costs of microbatches that are
 * alike, for bounds. They have no bytes. */
PsCosts *ps_costs_least (const PsCosts *costs);

G_END_DECLS

#endif
