/* number-formats.c - in which formats products multiply, and weights, gradients and optimizer state are kept. */
#include "model-private.h"

const PsNumberFormat ps_number_formats[PS_N_PRECISIONS] = {
  [PS_PRECISION_FP32] = { 4, 32, 32, 32, FALSE, 0 },
  [PS_PRECISION_FP16] = { 2, 16, 16, 16, FALSE, 0 },
  [PS_PRECISION_BF16] = { 2, 16, 16, 16, FALSE, 0 },
  [PS_PRECISION_FP8] = { 2, 8, 8, 8, FALSE, 2 + 2 + 1 },
  [PS_PRECISION_FP8_BLOCK] = { 2, 8, 8 + 32 / 128.0, 8 + 32 / (128.0 * 128), TRUE, 2 + 2 * (1 + 4 / 128.0) },
  [PS_PRECISION_MXFP8] = { 2, 8, 8 + 8 / 32.0, 8 + 8 / 32.0, TRUE, 2 + 2 * (1 + 1 / 32.0) },
  [PS_PRECISION_NVFP4] = { 2, 4, 4 + 8 / 16.0, 4 + 8 / 16.0, TRUE, 2 + 2 + 2 + 2 * (1 / 2.0 + 1 / 16.0) },
};

/* What frameworks keep, unless PsStateFormats says otherwise. */
static const struct {
  PsDtype main_grads, fp16_main_grads; /* auto: as the weights */
  guint gathers;                       /* bits 1 << PsPrecision: fp8_param_gather */
} frameworks[] = {
  [PS_FRAMEWORK_NONE] = { .main_grads = PS_DTYPE_AUTO },
  [PS_FRAMEWORK_MEGATRON] = { .main_grads = PS_DTYPE_FP32, .fp16_main_grads = PS_DTYPE_FP32 },
  [PS_FRAMEWORK_DEEPSPEED] = { .main_grads = PS_DTYPE_FP32 },
  [PS_FRAMEWORK_BRIDGE] = { .main_grads = PS_DTYPE_BF16,
                            .fp16_main_grads = PS_DTYPE_FP16,
                            .gathers = 1U << PS_PRECISION_FP8 | 1U << PS_PRECISION_MXFP8 },
};

void ps_model_set_state (PsModel *model, const PsStateFormats *said)
{
  const guint *from = (const guint *)said;
  guint *to = (guint *)&model->state;

  for (guint i = 0; i < sizeof *said / sizeof *from; i++)
    to[i] = from[i] != 0 ? from[i] : to[i];
}

PsStateFormats ps_model_formats (const PsModel *model)
{
  PsStateFormats formats = model->state;
  gboolean fp16 = model->precision == PS_PRECISION_FP16, fp32 = model->precision == PS_PRECISION_FP32;
  PsDtype own = fp32 ? PS_DTYPE_FP32 : fp16 ? PS_DTYPE_FP16 : PS_DTYPE_BF16;
  PsDtype grads = fp16 ? frameworks[model->framework].fp16_main_grads : frameworks[model->framework].main_grads;

  if (formats.main_grads == PS_DTYPE_AUTO)
    formats.main_grads = fp32 || grads == PS_DTYPE_AUTO ? own : grads;
  formats.main_params = formats.main_params == PS_DTYPE_AUTO ? PS_DTYPE_FP32 : formats.main_params;
  formats.exp_avg = formats.exp_avg == PS_DTYPE_AUTO ? PS_DTYPE_FP32 : formats.exp_avg;
  formats.exp_avg_sq = formats.exp_avg_sq == PS_DTYPE_AUTO ? PS_DTYPE_FP32 : formats.exp_avg_sq;
  formats.fp8_param_gather |= (frameworks[model->framework].gathers >> model->precision) & 1;
  return formats;
}
