/* figures.cpp - what the kernels reach on a GPU, as TAP comments. Emulated kernels are never timed. */
#include <algorithm>
#include <stdio.h>
#include <stdlib.h>

#include "rig.h"

#ifdef PS_CUDA_EMULATED

void
print_figures ()
{
}

#else

/* Median of some runs in milliseconds, after a warm-up. The arrays are larger than the second-level cache. */
template <typename Run>
static double
median_ms (Run run)
{
  std::vector<float> samples (15);
  cudaEvent_t start, end;

  must (cudaEventCreateWithFlags (&start, 0), "event");
  must (cudaEventCreateWithFlags (&end, 0), "event");
  for (int i = 0; i < 3; i++)
    must (run (), "figure");
  for (float &sample : samples)
    {
      must (cudaEventRecord (start, 0), "event");
      must (run (), "figure");
      must (cudaEventRecord (end, 0), "event");
      must (cudaEventSynchronize (end), "figure");
      must (cudaEventElapsedTime (&sample, start, end), "event");
    }
  must (cudaEventDestroy (start), "event");
  must (cudaEventDestroy (end), "event");
  std::sort (samples.begin (), samples.end ());
  return samples[samples.size () / 2];
}

/* bytes: that must be read and written at least, each array once. */
template <typename Run>
static void
print_rate (const char *what, double bytes, Run run)
{
  const double ms = median_ms (run);

  printf ("# measured: %-36s %9.4f ms %8.1f GB/s\n", what, ms, bytes / ms * 1e-6);
}

static const int rows = 16384, hidden = 4096, wide = 16384, vocabulary = 50304, width = 2048;
static const size_t n = (size_t)rows * hidden;
static const PsCudaElement bf16 = PS_CUDA_BF16;

/* With numbers near 0.01: bytes 0x3c in both types. */
static void
fill (const Array &array)
{
  must (cudaMemset (array.at (), 0x3c, array.n * ps_cuda_element_bytes (array.element)), "fill");
}

static void
print_rows ()
{
  Array x (bf16, n), y (bf16, n), z (bf16, n), w (bf16, n), gain (bf16, hidden), mean (PS_CUDA_FP32, rows),
      scale (PS_CUDA_FP32, rows);
  Array gradient (PS_CUDA_FP32, hidden), other (PS_CUDA_FP32, hidden);
  Bytes workspace (ps_cuda_columns_workspace (rows, hidden));

  for (const Array *array : { &x, &y, &z, &w, &gain, &mean, &scale, &gradient, &other })
    fill (*array);
  print_rate ("layer norm", 4.0 * n, [&] () {
    return ps_cuda_norm_rows (bf16, y.at (), mean.at<float> (), scale.at<float> (), x.at (), gain.at (), gain.at (),
                              rows, hidden, 0);
  });
  print_rate ("RMS norm", 4.0 * n, [&] () {
    return ps_cuda_norm_rows (bf16, y.at (), NULL, scale.at<float> (), x.at (), gain.at (), NULL, rows, hidden, 0);
  });
  print_rate ("layer norm input", 8.0 * n, [&] () {
    return ps_cuda_norm_rows_input (bf16, y.at (), w.at (), z.at (), x.at (), mean.at<float> (), scale.at<float> (),
                                    gain.at (), rows, hidden, 0);
  });
  print_rate ("layer norm weights", 6.0 * n, [&] () {
    return ps_cuda_norm_rows_weights (bf16, gradient.at<float> (), other.at<float> (), y.at (), z.at (), x.at (),
                                      mean.at<float> (), scale.at<float> (), gain.at (), gain.at (), rows, hidden,
                                      workspace.memory, 0);
  });
  print_rate ("bias gradient", 2.0 * n, [&] () {
    return ps_cuda_bias_gradient (bf16, gradient.at<float> (), z.at (), rows, hidden, workspace.memory, 0);
  });
}

static void
print_elements ()
{
  const size_t n_wide = (size_t)rows * wide;
  Array z (bf16, n_wide), g (bf16, n_wide), bias (bf16, wide);
  Array w (PS_CUDA_FP32, n), gradient (PS_CUDA_FP32, n), m (PS_CUDA_FP32, n), v (PS_CUDA_FP32, n);
  Bytes table (ps_cuda_rotary_table_bytes (4096, 128));

  for (const Array *array : { &z, &g, &bias, &w, &gradient, &m, &v })
    fill (*array);
  must (ps_cuda_rotary_table ((float *)table.memory, 4096, 128, 10000, 0), "rotary table");
  print_rate ("GELU with bias", 6.0 * n_wide,
              [&] () { return ps_cuda_gelu (bf16, g.at (), z.at (), bias.at (), rows, wide, 0); });
  print_rate ("GELU input", 6.0 * n_wide,
              [&] () { return ps_cuda_gelu_input (bf16, g.at (), g.at (), z.at (), n_wide, 0); });
  print_rate ("SwiGLU", 3.0 * n_wide,
              [&] () { return ps_cuda_swiglu (bf16, g.at (), z.at (), z.at (wide / 2), rows, wide / 2, wide, 0); });
  print_rate ("SwiGLU input", 5.0 * n_wide, [&] () {
    return ps_cuda_swiglu_input (bf16, z.at (), z.at (wide / 2), g.at (), z.at (), z.at (wide / 2), rows, wide / 2,
                                 wide, 0);
  });
  print_rate ("rotary", 4.0 * n, [&] () {
    return ps_cuda_rotary (bf16, z.at (), (const float *)table.memory, rows, 4096, hidden / 128, 128, hidden, 0, 0);
  });
  print_rate ("Adam", 34.0 * n, [&] () {
    return ps_cuda_adam (z.at (), w.at<float> (), gradient.at<float> (), m.at<float> (), v.at<float> (), n, 1, 1e-3, 1,
                         0);
  });
  print_rate ("to bf16", 6.0 * n, [&] () { return ps_cuda_to_bf16 (z.at (), w.at<float> (), n, 0); });
}

static void
print_ends ()
{
  const int batch = 2, sequence = 4096, tokens = batch * sequence;
  const size_t n_logits = (size_t)tokens * vocabulary, n_x = (size_t)tokens * hidden;
  Bytes words (random_words ((size_t)batch * (sequence + 1), vocabulary, 1));
  Bytes workspace (ps_cuda_embedding_workspace (batch, sequence));
  Array logits (bf16, n_logits), loss (PS_CUDA_FP32, tokens), x (bf16, n_x), token (bf16, (size_t)vocabulary * hidden);
  Array dtoken (PS_CUDA_FP32, (size_t)vocabulary * hidden), dposition (PS_CUDA_FP32, (size_t)sequence * hidden);
  const uint32_t *at = (const uint32_t *)words.memory;

  for (const Array *array : { &logits, &x, &token, &dtoken, &dposition })
    fill (*array);
  print_rate ("cross-entropy, 8192 x 50304", 4.0 * n_logits, [&] () {
    return ps_cuda_cross_entropy (bf16, logits.at (), loss.at<float> (), at, batch, sequence, vocabulary, vocabulary, 1,
                                  0);
  });
  print_rate ("embedding, 8192 x 4096", 4.0 * n_x,
              [&] () { return ps_cuda_embedding (bf16, x.at (), token.at (), NULL, at, batch, sequence, hidden, 0); });
  print_rate ("embedding weights, 8192 x 4096", (2 + 8 + 2 + 4) * (double)n_x, [&] () {
    return ps_cuda_embedding_weights (bf16, dtoken.at<float> (), dposition.at<float> (), x.at (), at, batch, sequence,
                                      hidden, workspace.memory, 0);
  });
}

/* FLOPs as PyTorch and the papers count them: two products of s^2 / 2 scores forward, 4 s^2 d heads / 2; backward 2.5
 * times that, though this backward makes seven products where five would do. */
static void
print_attention (const char *way, int head_size, int sequence, const Array &qkv, const Array &dout)
{
  const int batch = 16384 / sequence, heads = 2048 / head_size;
  const PsCudaAttention shape = { batch, sequence, heads, heads, head_size, 3 * width, width, 3 * width, 0, true };
  const size_t tokens = (size_t)batch * (size_t)sequence;
  Array dqkv (bf16, tokens * 3 * width), out (bf16, tokens * width), lse (PS_CUDA_FP32, tokens * (size_t)heads);
  Bytes workspace (ps_cuda_attention_workspace (&shape));
  const double flops = 2.0 * (double)tokens * sequence * width;
  const double forward_ms = median_ms ([&] () {
    return ps_cuda_attention (bf16, &shape, out.at (), lse.at<float> (), qkv.at (), qkv.at (width), qkv.at (2 * width),
                              0);
  });
  const double backward_ms = median_ms ([&] () {
    return ps_cuda_attention_backward (bf16, &shape, dqkv.at (), dqkv.at (width), dqkv.at (2 * width), dout.at (),
                                       out.at (), lse.at<float> (), qkv.at (), qkv.at (width), qkv.at (2 * width),
                                       workspace.memory, 0);
  });

  printf ("# measured: attention %s, heads of %3d, s = %5d: forward %8.4f ms %6.1f TFLOP/s, backward %8.4f ms %6.1f "
          "TFLOP/s\n",
          way, head_size, sequence, forward_ms, flops / forward_ms * 1e-9, backward_ms,
          2.5 * flops / backward_ms * 1e-9);
}

/* One set of random tensors for all: a host thread takes seconds to make one. */
static void
print_attentions ()
{
  const size_t tokens = 16384;
  const Array qkv (bf16, random_values (tokens * 3 * width, 1, 1)), dout (bf16, random_values (tokens * width, 1, 2));

  for (const int head_size : { 32, 64, 96, 128 })
    for (const int sequence : { 1024, 4096, 16384 })
      for (const bool hopper : { false, true })
        {
          setenv ("PIPESIM_CUDA_HOPPER", hopper ? "1" : "0", true);
          if (width % head_size == 0 && (!hopper || head_size >= 64))
            print_attention (hopper ? "by groups of warps" : "by warps", head_size, sequence, qkv, dout);
        }
}

void
print_figures ()
{
  cudaDeviceProp properties;

  must (cudaGetDeviceProperties (&properties, 0), "cudaGetDeviceProperties");
  printf ("# measured on %s, bf16, medians of 15 runs\n", properties.name);
  print_rows ();
  print_elements ();
  print_ends ();
  print_attentions ();
}

#endif
