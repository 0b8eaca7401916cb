/* jitter.c - random words, and log-normal factors from them. */
#include "jitter.h"

#include <pipesim/philox.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define CALLS (PS_SCENARIO_LANES / 4) /* calls of the generator, which makes four words */
#define CELL_BITS 6
#define CELLS (1U << CELL_BITS) /* cells of an octave */
#define N_CELLS ((31 - CELL_BITS) * CELLS + CELLS)

/* The lanes are computed side by side, so that the compiler makes vectors of them. */
void
ps_draw (guint64 seed, guint first, PsPurpose purpose, guint32 *words)
{
  guint32 c0[CALLS], c1[CALLS], c2[CALLS], c3[CALLS];
  guint32 k0 = (guint32)seed, k1 = (guint32)(seed >> 32);

  for (guint i = 0; i < CALLS; i++)
    {
      c0[i] = first / 4 + i;
      c1[i] = purpose.a;
      c2[i] = purpose.b;
      c3[i] = purpose.stream;
    }
  for (guint round = 0; round < PS_PHILOX_ROUNDS; round++)
    {
      for (guint i = 0; i < CALLS; i++)
        ps_philox_round (&c0[i], &c1[i], &c2[i], &c3[i], k0, k1);
      k0 += PS_PHILOX_KEY_0;
      k1 += PS_PHILOX_KEY_1;
    }
  for (guint i = 0; i < CALLS; i++)
    {
      words[i] = c0[i];
      words[CALLS + i] = c1[i];
      words[2 * CALLS + i] = c2[i];
      words[3 * CALLS + i] = c3[i];
    }
}

/* [0] lower tail, [1] upper; entry i is the factor at the lower end of cell i. */
struct _PsJitter
{
  gint64 factor[2][N_CELLS + 1];
  gboolean narrow; /* no two neighbours differ by 2^31, but for words that have a cell of their own */
};

/* z >= 0 with P (normal > z) = p, by halving an interval; erfc falls. */
static double
normal_quantile (double p)
{
  double low = 0, high = 40;

  for (guint i = 0; i < 64; i++)
    {
      double middle = (low + high) / 2;

      if (erfc (middle * M_SQRT1_2) / 2 > p)
        low = middle;
      else
        high = middle;
    }
  return low;
}

/* The smallest word of a cell. */
static double
cell_begin (guint cell)
{
  guint octave = cell / CELLS;

  return octave == 0 ? cell : ldexp (CELLS + cell % CELLS, (int)octave - 1);
}

PsJitter *
ps_jitter_new (double relative_deviation)
{
  PsJitter *jitter = g_new (PsJitter, 1);
  double variance = log1p (relative_deviation * relative_deviation), sigma = sqrt (variance);

  for (guint cell = 0; cell <= N_CELLS; cell++)
    {
      double z = normal_quantile ((cell_begin (cell) + 0.5) / 4294967296.0);

      jitter->factor[0][cell] = llrint (ldexp (exp (-sigma * z - variance / 2), 32));
      jitter->factor[1][cell] = llrint (ldexp (exp (sigma * z - variance / 2), 32));
    }
  jitter->narrow = TRUE;
  for (guint cell = 2 * CELLS; cell < N_CELLS; cell++)
    for (guint tail = 0; tail < 2; tail++)
      jitter->narrow &= ABS (jitter->factor[tail][cell + 1] - jitter->factor[tail][cell]) < G_MAXINT32;
  return jitter;
}

void
ps_jitter_free (PsJitter *jitter)
{
  g_free (jitter);
}

double
ps_jitter_largest (const PsJitter *jitter)
{
  return ldexp ((double)jitter->factor[1][0], -32);
}

static inline double
factor_of (const PsJitter *jitter, guint32 word)
{
  const gint64 *table = jitter->factor[word >> 31];
  guint32 rest = word & 0x7fffffff;
  guint shift = rest < CELLS ? 0 : 31 - CELL_BITS - (guint)__builtin_clz (rest);
  guint cell = rest < CELLS ? rest : (shift << CELL_BITS) + (rest >> shift);
  gint64 within = rest & ((1U << shift) - 1);

  return (double)(table[cell] + (((table[cell + 1] - table[cell]) * within) >> shift)) * (1 / 4294967296.0);
}

void
ps_jitter_factors (const PsJitter *jitter, const guint32 *words, double *factors)
{
  for (guint i = 0; i < PS_SCENARIO_LANES; i++)
    factors[i] = factor_of (jitter, words[i]);
}

void
ps_jitter_round (const double *base_ns, const double *factors, gint64 *ns)
{
  for (guint i = 0; i < PS_SCENARIO_LANES; i++)
    ns[i] = (gint64)(base_ns[i] * factors[i] + 0.5);
}

#ifdef __x86_64__
#define AVX512 __attribute__ ((target ("avx512f,avx512bw,avx512cd,avx512dq,avx512vl")))

/* The words of two purposes: four calls of the generator for each. The upper halves of the lanes hold anything. */
typedef struct
{
  __m512i c0, c1, c2, c3;
} Calls;

AVX512 static inline __m512i
both (guint32 a, guint32 b)
{
  return _mm512_mask_set1_epi64 (_mm512_set1_epi64 (a), 0xf0, b);
}

/* ps_philox_round; a product reads the lower halves of its factors only. */
AVX512 static inline void
draw_two (guint64 seed, guint first, const PsPurpose *a, const PsPurpose *b, Calls *calls)
{
  const __m512i m0 = _mm512_set1_epi64 (PS_PHILOX_FACTOR_0), m1 = _mm512_set1_epi64 (PS_PHILOX_FACTOR_1);
  __m512i c0 = _mm512_add_epi64 (_mm512_set1_epi64 (first / 4), _mm512_setr_epi64 (0, 1, 2, 3, 0, 1, 2, 3));
  __m512i c1 = both (a->a, b->a), c2 = both (a->b, b->b), c3 = both (a->stream, b->stream);
  guint32 k0 = (guint32)seed, k1 = (guint32)(seed >> 32);

  for (guint round = 0; round < PS_PHILOX_ROUNDS; round++, k0 += PS_PHILOX_KEY_0, k1 += PS_PHILOX_KEY_1)
    {
      __m512i p0 = _mm512_mul_epu32 (c0, m0), p1 = _mm512_mul_epu32 (c2, m1);

      c0 = _mm512_xor_si512 (_mm512_xor_si512 (_mm512_srli_epi64 (p1, 32), c1), _mm512_set1_epi64 (k0));
      c2 = _mm512_xor_si512 (_mm512_xor_si512 (_mm512_srli_epi64 (p0, 32), c3), _mm512_set1_epi64 (k1));
      c1 = p1;
      c3 = p0;
    }
  *calls = (Calls){ c0, c1, c2, c3 };
}

/* factor_of and ps_jitter_round for eight lanes. */
AVX512 static inline G_ALWAYS_INLINE void
make_times (const PsJitter *jitter, __m512i words, const double *base_ns, gint64 *ns, gboolean narrow)
{
  const gint64 *table = jitter->factor[0];
  __mmask8 upper = _mm512_test_epi64_mask (words, _mm512_set1_epi64 (G_GINT64_CONSTANT (1) << 31));
  __m512i rest = _mm512_and_si512 (words, _mm512_set1_epi64 (0x7fffffff));
  __m512i shift = _mm512_sub_epi64 (_mm512_set1_epi64 (63 - CELL_BITS), _mm512_lzcnt_epi64 (rest));
  __m512i cell, within, low, high;
  __m512d product;

  shift = _mm512_max_epi64 (shift, _mm512_setzero_si512 ());
  cell = _mm512_add_epi64 (_mm512_slli_epi64 (shift, CELL_BITS), _mm512_srlv_epi64 (rest, shift));
  cell = _mm512_mask_add_epi64 (cell, upper, cell, _mm512_set1_epi64 (N_CELLS + 1));
  within = _mm512_andnot_si512 (_mm512_sllv_epi64 (_mm512_set1_epi64 (-1), shift), rest);
  low = _mm512_i64gather_epi64 (cell, table, sizeof *table);
  high = _mm512_i64gather_epi64 (cell, table + 1, sizeof *table);
  high = _mm512_sub_epi64 (high, low);
  high = narrow ? _mm512_mul_epi32 (high, within) : _mm512_mullo_epi64 (high, within);
  low = _mm512_add_epi64 (low, _mm512_srav_epi64 (high, shift));
  /* Rounded after the product and after the sum, as the portable code does: the factor 2^-32 rounds nothing. */
  product = _mm512_mul_round_pd (_mm512_loadu_pd (base_ns), _mm512_cvtepi64_pd (low), _MM_FROUND_CUR_DIRECTION);
  product = _mm512_fmadd_pd (product, _mm512_set1_pd (1 / 4294967296.0), _mm512_set1_pd (0.5));
  _mm512_storeu_si512 (ns, _mm512_cvttpd_epi64 (product));
}

AVX512 static inline G_ALWAYS_INLINE void
find_two (const PsJitter *jitter, guint64 seed, guint first, const PsJitterTime *a, const PsJitterTime *b,
          gboolean narrow)
{
  Calls calls;

  draw_two (seed, first, &a->purpose, &b->purpose, &calls);
  make_times (jitter, _mm512_inserti64x4 (calls.c0, _mm512_castsi512_si256 (calls.c1), 1), a->base_ns, a->ns, narrow);
  make_times (jitter, _mm512_inserti64x4 (calls.c2, _mm512_castsi512_si256 (calls.c3), 1), a->base_ns + 8, a->ns + 8,
              narrow);
  make_times (jitter, _mm512_shuffle_i64x2 (calls.c0, calls.c1, 0xee), b->base_ns, b->ns, narrow);
  make_times (jitter, _mm512_shuffle_i64x2 (calls.c2, calls.c3, 0xee), b->base_ns + 8, b->ns + 8, narrow);
}

/* An odd one is found twice. */
AVX512 static void
find_all (const PsJitter *jitter, guint64 seed, guint first, const PsJitterTime *times, guint n)
{
  for (guint i = 0; i < n && jitter->narrow; i += 2)
    find_two (jitter, seed, first, &times[i], &times[MIN (i + 1, n - 1)], TRUE);
  for (guint i = 0; i < n && !jitter->narrow; i += 2)
    find_two (jitter, seed, first, &times[i], &times[MIN (i + 1, n - 1)], FALSE);
}
#endif

void
ps_jitter_times (const PsJitter *jitter, PsKernel kernel, guint64 seed, guint first, const PsJitterTime *times, guint n)
{
  guint32 words[PS_SCENARIO_LANES];
  double factors[PS_SCENARIO_LANES];

#ifdef __x86_64__
  if (kernel == PS_KERNEL_AVX512)
    {
      find_all (jitter, seed, first, times, n);
      return;
    }
#endif
  for (guint i = 0; i < n; i++)
    {
      ps_draw (seed, first, times[i].purpose, words);
      ps_jitter_factors (jitter, words, factors);
      ps_jitter_round (times[i].base_ns, factors, times[i].ns);
    }
}
