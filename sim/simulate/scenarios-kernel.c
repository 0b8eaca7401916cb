/* scenarios-kernel.c - one loop, compiled for three instruction sets and two widths; the processor decides at run time.
 * The compiler makes the vectors. */
#include "scenarios-kernel.h"

/* A step's own slot may be the slot of the step before. Each lane then depends on itself only, so the loop may be a
 * vector loop; unrolled first, it would never become one. */
#ifdef __clang__
/* Checks inserted by sanitizers keep a loop scalar, which is no fault. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define LANES_ARE_INDEPENDENT _Pragma ("clang loop vectorize(assume_safety) unroll(disable)")
#else
#define LANES_ARE_INDEPENDENT _Pragma ("GCC ivdep") _Pragma ("GCC unroll 1")
#endif

#define DEFINE_LOOP(name, type, n_lanes, op_row, transfer_row)                                                         \
  static inline G_ALWAYS_INLINE void name (const PsScenarioStep *steps, guint n, gpointer slots,                       \
                                           gconstpointer durations, gconstpointer transfers)                           \
  {                                                                                                                    \
    enum                                                                                                               \
    {                                                                                                                  \
      LANES = n_lanes                                                                                                  \
    };                                                                                                                 \
    for (guint i = 0; i < n; i++)                                                                                      \
      {                                                                                                                \
        PsScenarioStep step = steps[i];                                                                                \
        const type *previous = (const type *)slots + (gsize)step.previous * LANES;                                     \
        const type *input = (const type *)slots + (gsize)step.input * LANES;                                           \
        const type *duration = (const type *)durations + (gsize)(op_row)*LANES;                                        \
        const type *transfer = (const type *)transfers + (gsize)(transfer_row)*LANES;                                  \
        type *output = (type *)slots + (gsize)step.output * LANES;                                                     \
        LANES_ARE_INDEPENDENT                                                                                          \
        for (guint k = 0; k < LANES; k++)                                                                              \
          output[k] = MAX (previous[k], input[k] + transfer[k]) + duration[k];                                         \
      }                                                                                                                \
  }

DEFINE_LOOP (loop_32, guint32, 2 * PS_SCENARIO_LANES, step.op, step.transfer)
DEFINE_LOOP (loop_64, gint64, PS_SCENARIO_LANES, step.op, step.transfer)
DEFINE_LOOP (loop_steps_32, guint32, PS_SCENARIO_LANES, i, i)
DEFINE_LOOP (loop_steps_64, gint64, PS_SCENARIO_LANES, i, i)

#define DEFINE_WALK(name, loop, target)                                                                                \
  target static void name (const PsScenarioStep *steps, guint n, gpointer slots, gconstpointer durations,              \
                           gconstpointer transfers)                                                                    \
  {                                                                                                                    \
    loop (steps, n, slots, durations, transfers);                                                                      \
  }

#define DEFINE_KERNEL(name, target)                                                                                    \
  DEFINE_WALK (name##_32, loop_32, target)                                                                             \
  DEFINE_WALK (name##_64, loop_64, target)                                                                             \
  DEFINE_WALK (name##_steps_32, loop_steps_32, target)                                                                 \
  DEFINE_WALK (name##_steps_64, loop_steps_64, target)                                                                 \
  static const PsScenarioKernel name = { name##_32, name##_64, name##_steps_32, name##_steps_64 };

DEFINE_KERNEL (portable, )

#ifdef __x86_64__
DEFINE_KERNEL (avx2, __attribute__ ((target ("avx2"))))
DEFINE_KERNEL (avx512, __attribute__ ((target ("avx512f,avx512bw,avx512dq,avx512vl"))))
#endif

const PsScenarioKernel *
ps_scenario_kernel (PsKernel kernel)
{
#ifdef __x86_64__
  if (kernel == PS_KERNEL_AVX2)
    return __builtin_cpu_supports ("avx2") ? &avx2 : NULL;
  if (kernel == PS_KERNEL_AVX512)
    return __builtin_cpu_supports ("avx512bw") && __builtin_cpu_supports ("avx512cd")
                   && __builtin_cpu_supports ("avx512dq") && __builtin_cpu_supports ("avx512vl")
               ? &avx512
               : NULL;
#endif
  return kernel == PS_KERNEL_PORTABLE ? &portable : NULL;
}

const char *
ps_kernel_name (PsKernel kernel)
{
  static const char *const names[PS_N_KERNELS] = { "portable", "avx2", "avx512" };

  g_return_val_if_fail (kernel < PS_N_KERNELS, NULL);
  return names[kernel];
}

gboolean
ps_kernel_is_available (PsKernel kernel)
{
  return ps_scenario_kernel (kernel) != NULL;
}

PsKernel
ps_kernel_best (void)
{
  PsKernel best = PS_N_KERNELS - 1;

  while (!ps_kernel_is_available (best))
    best--;
  return best;
}
