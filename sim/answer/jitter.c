/* jitter.c - random words, and log-normal factors from them. */
#include "jitter.h"

#include <pipesim/philox.h>
#include <pipesim/simulate.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define CALLS (PS_SCENARIO_LANES / 4) /* calls of the generator, which makes four words */
#define DEGREE 4
#define N_CELLS 64 /* 32 octaves of two tails */

/* The counter of a call is { its number, a, b, stream }. The number reaches c2 and c3 in the first round. */
PsDrawStart
ps_draw_start (guint64 seed, PsPurpose purpose)
{
  guint32 k0 = (guint32)seed, k1 = (guint32)(seed >> 32);
  guint64 p1 = (guint64)PS_PHILOX_FACTOR_1 * purpose.b;
  guint64 p0 = (guint64)PS_PHILOX_FACTOR_0 * ((guint32)(p1 >> 32) ^ purpose.a ^ k0);

  return (PsDrawStart){ .c0 = (guint32)p1 ^ (k0 + PS_PHILOX_KEY_0),
                        .c2 = (guint32)(p0 >> 32) ^ (k1 + PS_PHILOX_KEY_1),
                        .c3 = (guint32)p0,
                        .stream = purpose.stream };
}

/* The lanes are computed side by side, so that the compiler makes vectors of them. */
static inline G_ALWAYS_INLINE void
draw (guint64 seed, guint first, PsDrawStart start, guint32 *words)
{
  guint32 c0[CALLS], c1[CALLS], c2[CALLS], c3[CALLS];
  guint32 k0 = (guint32)seed + 2 * PS_PHILOX_KEY_0, k1 = (guint32)(seed >> 32) + 2 * PS_PHILOX_KEY_1;

  for (guint i = 0; i < CALLS; i++)
    {
      guint64 p0 = (guint64)PS_PHILOX_FACTOR_0 * (first / 4 + i);
      guint64 p1 = (guint64)PS_PHILOX_FACTOR_1 * ((guint32)(p0 >> 32) ^ start.stream ^ (guint32)(seed >> 32));

      c0[i] = (guint32)(p1 >> 32) ^ start.c0;
      c1[i] = (guint32)p1;
      c2[i] = (guint32)p0 ^ start.c2;
      c3[i] = start.c3;
    }
  for (guint round = 2; round < PS_PHILOX_ROUNDS; round++)
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

void
ps_draw_from (guint64 seed, guint first, PsDrawStart start, guint32 *words)
{
  draw (seed, first, start, words);
}

void
ps_draw (guint64 seed, guint first, PsPurpose purpose, guint32 *words)
{
  draw (seed, first, ps_draw_start (seed, purpose), words);
}

/* Coefficients by power, then by cell_of. */
struct _PsJitter
{
  float coefficients[DEGREE + 1][N_CELLS];
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

/* Finds the polynomial that meets the factor at the octave's Chebyshev nodes: Newton's form, then powers of m. */
static void
fit_octave (PsJitter *jitter, guint cell, double sigma)
{
  int exponent = (int)((cell + 1) & 15) + (cell < N_CELLS / 2 ? 16 : 0);
  double node[DEGREE + 1], value[DEGREE + 1], power[DEGREE + 1] = { 0 }, tail = cell & 16 ? sigma : -sigma;

  for (int i = 0; i <= DEGREE; i++)
    {
      node[i] = 1.5 + 0.5 * cos (G_PI * (2 * i + 1) / (2 * DEGREE + 2));
      double z = normal_quantile (ldexp (node[i], exponent - 33));
      value[i] = exp (tail * z - sigma * sigma / 2);
    }
  for (int k = 1; k <= DEGREE; k++)
    for (int i = DEGREE; i >= k; i--)
      value[i] = (value[i] - value[i - 1]) / (node[i] - node[i - k]);
  for (int i = DEGREE; i >= 0; i--)
    {
      for (int k = DEGREE; k > 0; k--)
        power[k] = power[k - 1] - node[i] * power[k];
      power[0] = value[i] - node[i] * power[0];
    }
  for (int k = 0; k <= DEGREE; k++)
    jitter->coefficients[k][cell] = (float)power[k];
}

PsJitter *
ps_jitter_new (double relative_deviation)
{
  PsJitter *jitter = g_new (PsJitter, 1);

  for (guint cell = 0; cell < N_CELLS; cell++)
    fit_octave (jitter, cell, sqrt (log1p (relative_deviation * relative_deviation)));
  return jitter;
}

void
ps_jitter_free (PsJitter *jitter)
{
  g_free (jitter);
}

/* The 16 most probable octaves of both tails come first. */
static inline guint
cell_of (guint exponent, guint tail)
{
  return (exponent < 16) * N_CELLS / 2 + tail * 16 + ((exponent - 1) & 15);
}

/* The exponent of a word comes from that of a float, which vector registers convert. Next to its highest bit it has a
 * zero, and so is not rounded up to another exponent; the half is for a word of 1. */
static inline G_ALWAYS_INLINE float
factor_of (const PsJitter *jitter, guint32 word)
{
  union
  {
    guint32 bits;
    float value;
  } m, power;
  guint32 q = word | 1, half = q >> 1;
  guint exponent, cell;
  float factor;

  power.value = (float)(gint32)(half & ~(half >> 1)) + 0.5F;
  exponent = (power.bits >> 23) - 126;
  cell = cell_of (exponent, word & 1);
  m.bits = (q << (31 - exponent) >> 8 & 0x7fffff) | 0x3f800000; /* 1 <= m < 2 */
  factor = jitter->coefficients[DEGREE][cell];
  for (guint k = DEGREE; k-- > 0;)
    factor = factor * m.value + jitter->coefficients[k][cell];
  return factor;
}

double
ps_jitter_largest (const PsJitter *jitter)
{
  return factor_of (jitter, 1);
}

void
ps_jitter_factors (const PsJitter *jitter, const guint32 *words, double *factors)
{
  for (guint i = 0; i < PS_SCENARIO_LANES; i++)
    factors[i] = factor_of (jitter, words[i]);
}

static inline G_ALWAYS_INLINE void
round_each (const double *base_ns, const double *factors, guint bits, gpointer ns)
{
  for (guint i = 0; i < PS_SCENARIO_LANES; i++)
    if (bits == 32)
      ((guint32 *)ns)[i] = (guint32)(base_ns[i] * factors[i] + 0.5);
    else
      ((gint64 *)ns)[i] = (gint64)(base_ns[i] * factors[i] + 0.5);
}

void
ps_jitter_round (const double *base_ns, const double *factors, guint bits, gpointer ns)
{
  round_each (base_ns, factors, bits, ns);
}

static inline G_ALWAYS_INLINE void
find_each (const PsJitter *jitter, guint64 seed, guint first, guint bits, const PsJitterTime *times, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      guint32 words[PS_SCENARIO_LANES];
      double factors[PS_SCENARIO_LANES];

      draw (seed, first, times[i].start, words);
      for (guint lane = 0; lane < PS_SCENARIO_LANES; lane++)
        factors[lane] = factor_of (jitter, words[lane]);
      round_each (times[i].base_ns, factors, bits, times[i].ns);
    }
}

static void
find_portable (const PsJitter *jitter, guint64 seed, guint first, guint bits, const PsJitterTime *times, guint n)
{
  find_each (jitter, seed, first, bits, times, n);
}

#ifdef __x86_64__
__attribute__ ((target ("avx2"))) static void
find_avx2 (const PsJitter *jitter, guint64 seed, guint first, guint bits, const PsJitterTime *times, guint n)
{
  find_each (jitter, seed, first, bits, times, n);
}

#define XOR 0x96 /* of three */
#define PAIRS 4
#define AVX512 __attribute__ ((target ("avx512f,avx512bw,avx512cd,avx512dq,avx512vl")))

/* The words of two purposes: four calls of the generator for each. The upper halves of the lanes hold anything. */
typedef struct
{
  __m512i c0, c1, c2, c3;
} Calls;

AVX512 static inline __m512i
both (const guint32 *a, const guint32 *b)
{
  return _mm512_mask_blend_epi64 (0xf0, _mm512_set1_epi32 ((int)*a), _mm512_set1_epi32 ((int)*b));
}

/* A shift would wait for the unit that multiplies. */
AVX512 static inline __m512i
upper_halves (__m512i products)
{
  return _mm512_shuffle_epi32 (products, _MM_PERM_DDBB);
}

/* As draw; a product reads the lower halves of its factors only. Pairs of purposes side by side: the rounds of others
 * fill the time in which one waits for its products. `keys` are those of the rounds from the third on. */
AVX512 static inline G_ALWAYS_INLINE void
draw_pairs (guint64 seed, guint first, guint64 (*keys)[2], const PsJitterTime *const *times, Calls *calls)
{
  const __m512i m0 = _mm512_set1_epi64 (PS_PHILOX_FACTOR_0), m1 = _mm512_set1_epi64 (PS_PHILOX_FACTOR_1);
  const __m512i call = _mm512_add_epi64 (_mm512_set1_epi64 (first / 4), _mm512_setr_epi64 (0, 1, 2, 3, 0, 1, 2, 3));
  const __m512i numbers = _mm512_mul_epu32 (call, m0);
  const __m512i upper = _mm512_xor_si512 (upper_halves (numbers), _mm512_set1_epi64 ((guint32)(seed >> 32)));

  for (guint i = 0; i < PAIRS; i++)
    {
      const PsDrawStart *a = &times[2 * i]->start, *b = &times[2 * i + 1]->start;
      __m512i p1 = _mm512_mul_epu32 (_mm512_xor_si512 (upper, both (&a->stream, &b->stream)), m1);

      calls[i] = (Calls){ _mm512_xor_si512 (upper_halves (p1), both (&a->c0, &b->c0)), p1,
                          _mm512_xor_si512 (numbers, both (&a->c2, &b->c2)), both (&a->c3, &b->c3) };
    }
  for (guint round = 0; round < PS_PHILOX_ROUNDS - 2; round++)
    for (guint i = 0; i < PAIRS; i++)
      {
        __m512i k0 = _mm512_set1_epi64 ((gint64)keys[round][0]), k1 = _mm512_set1_epi64 ((gint64)keys[round][1]);
        __m512i p0 = _mm512_mul_epu32 (calls[i].c0, m0), p1 = _mm512_mul_epu32 (calls[i].c2, m1);
        __m512i h0 = upper_halves (p0), h1 = upper_halves (p1);

        calls[i] = (Calls){ _mm512_ternarylogic_epi64 (h1, calls[i].c1, k0, XOR), p1,
                            _mm512_ternarylogic_epi64 (h0, calls[i].c3, k1, XOR), p0 };
      }
}

#define RARE (1 << 16) /* the coefficients of words below are not in registers */

/* Inlined into code for AVX-512, products would be summed unrounded. */
static G_GNUC_NO_INLINE void
find_rare (const PsJitter *jitter, const guint32 *words, float *factors)
{
  for (guint i = 0; i < 2 * PAIRS * 16; i++)
    if (words[i] < RARE)
      factors[i] = factor_of (jitter, words[i]);
}

/* factor_of for sixteen lanes of each register, step by step for all of them: a step of others fills the time in which
 * one waits for the last step. Each product and each sum is rounded, as in the portable code. The 16 most probable
 * octaves have their coefficients in registers; one lane in 65536 has another. */
AVX512 static inline G_ALWAYS_INLINE void
find_factors (const PsJitter *jitter, const __m512i *words, float (*factors)[16])
{
  __m512i least = _mm512_set1_epi32 (-1), cell[2 * PAIRS];
  __m512 m[2 * PAIRS], sum[2 * PAIRS];

  for (guint i = 0; i < 2 * PAIRS; i++)
    {
      __m512i q = _mm512_or_si512 (words[i], _mm512_set1_epi32 (1));
      __m512i bits = _mm512_castps_si512 (_mm512_cvt_roundepu32_ps (q, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));

      /* (bits & 0x7fffff) | 0x3f800000; the permutation reads five bits: four of the exponent, one of the tail. */
      m[i] = _mm512_castsi512_ps (
          _mm512_ternarylogic_epi32 (bits, _mm512_set1_epi32 (0x7fffff), _mm512_set1_epi32 (0x3f800000), 0xea));
      cell[i] = _mm512_ternarylogic_epi32 (_mm512_set1_epi32 (15), _mm512_srli_epi32 (bits, 23),
                                           _mm512_slli_epi32 (words[i], 4), 0xca);
      least = _mm512_min_epu32 (least, q);
    }
  for (int k = DEGREE; k >= 0; k--)
    {
      __m512 lower = _mm512_loadu_ps (jitter->coefficients[k]), upper = _mm512_loadu_ps (jitter->coefficients[k] + 16);

      for (guint i = 0; i < 2 * PAIRS; i++)
        {
          __m512 coefficient = _mm512_permutex2var_ps (lower, cell[i], upper);

          sum[i] = k == DEGREE
                       ? coefficient
                       : _mm512_add_ps (_mm512_mul_round_ps (sum[i], m[i], _MM_FROUND_CUR_DIRECTION), coefficient);
        }
    }
  for (guint i = 0; i < 2 * PAIRS; i++)
    _mm512_storeu_ps (factors[i], sum[i]);
  if (G_UNLIKELY (_mm512_cmplt_epu32_mask (least, _mm512_set1_epi32 (RARE)) != 0))
    find_rare (jitter, (const guint32 *)words, factors[0]);
}

/* ps_jitter_round for eight lanes before rounding down */
AVX512 static inline __m512d
rounded_up (const double *base_ns, const float *factors)
{
  __m512d product = _mm512_mul_round_pd (_mm512_loadu_pd (base_ns), _mm512_cvtps_pd (_mm256_loadu_ps (factors)),
                                         _MM_FROUND_CUR_DIRECTION);

  return _mm512_add_pd (product, _mm512_set1_pd (0.5));
}

/* ps_jitter_round, the factors of the lower and the upper lanes apart */
AVX512 static inline G_ALWAYS_INLINE void
round_times (const float *low, const float *high, guint bits, const PsJitterTime *time)
{
  __m512d lower = rounded_up (time->base_ns, low), upper = rounded_up (time->base_ns + 8, high);

  if (bits == 32)
    {
      _mm256_storeu_si256 (time->ns, _mm512_cvttpd_epu32 (lower));
      _mm256_storeu_si256 ((__m256i *)time->ns + 1, _mm512_cvttpd_epu32 (upper));
    }
  else
    {
      _mm512_storeu_si512 (time->ns, _mm512_cvttpd_epi64 (lower));
      _mm512_storeu_si512 ((__m512i *)time->ns + 1, _mm512_cvttpd_epi64 (upper));
    }
}

/* The factors are read back by halves: that is cheaper than to take registers apart. */
AVX512 static inline G_ALWAYS_INLINE void
make_times (const PsJitter *jitter, const Calls *calls, guint bits, const PsJitterTime *const *times)
{
  const __m512i by_purpose = _mm512_setr_epi32 (0, 2, 4, 6, 16, 18, 20, 22, 8, 10, 12, 14, 24, 26, 28, 30);
  __m512i words[2 * PAIRS];
  float factors[2 * PAIRS][16];

  for (guint i = 0; i < PAIRS; i++)
    {
      words[2 * i] = _mm512_permutex2var_epi32 (calls[i].c0, by_purpose, calls[i].c1);
      words[2 * i + 1] = _mm512_permutex2var_epi32 (calls[i].c2, by_purpose, calls[i].c3);
    }
  find_factors (jitter, words, factors);
  for (guint i = 0; i < PAIRS; i++)
    {
      round_times (factors[2 * i], factors[2 * i + 1], bits, times[2 * i]);
      round_times (factors[2 * i] + 8, factors[2 * i + 1] + 8, bits, times[2 * i + 1]);
    }
}

/* The last one may be found several times. */
AVX512 static void
find_avx512 (const PsJitter *jitter, guint64 seed, guint first, guint bits, const PsJitterTime *times, guint n)
{
  guint64 keys[PS_PHILOX_ROUNDS - 2][2];

  for (guint i = 0; i < PS_PHILOX_ROUNDS - 2; i++)
    {
      keys[i][0] = (guint32)seed + (i + 2) * PS_PHILOX_KEY_0;
      keys[i][1] = (guint32)(seed >> 32) + (i + 2) * PS_PHILOX_KEY_1;
    }
  for (guint i = 0; i < n; i += 2 * PAIRS)
    {
      const PsJitterTime *now[2 * PAIRS];
      Calls calls[PAIRS];

      for (guint k = 0; k < 2 * PAIRS; k++)
        now[k] = &times[MIN (i + k, n - 1)];
      draw_pairs (seed, first, keys, now, calls);
      make_times (jitter, calls, bits, now);
    }
}
#endif

void
ps_jitter_times (const PsJitter *jitter, PsKernel kernel, guint64 seed, guint first, guint bits,
                 const PsJitterTime *times, guint n)
{
#ifdef __x86_64__
  if (kernel == PS_KERNEL_AVX512)
    find_avx512 (jitter, seed, first, bits, times, n);
  else if (kernel == PS_KERNEL_AVX2)
    find_avx2 (jitter, seed, first, bits, times, n);
  else
#endif
    find_portable (jitter, seed, first, bits, times, n);
}
