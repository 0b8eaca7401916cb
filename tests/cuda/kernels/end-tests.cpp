/* end-tests.cpp - what stands at both ends of a model: embedding and cross-entropy. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"
#include "kernels-reference.h"

struct Ends {
  PsCudaElement element;
  int batch, sequence, hidden;
  uint32_t vocabulary; /* few words: each comes often */
};

static const Ends ends[] = {
  { PS_CUDA_FP32, 1, 1, 8, 1 },    { PS_CUDA_FP32, 2, 33, 24, 11 },  { PS_CUDA_FP32, 1, 130, 13, 3 },
  { PS_CUDA_BF16, 2, 65, 64, 50 }, { PS_CUDA_BF16, 1, 7, 1100, 20 }, { PS_CUDA_BF16, 3, 50, 10, 1000 },
};

static void check_embedding (const Ends &e, bool positions)
{
  const size_t tokens = (size_t)(e.batch * e.sequence), hidden = (size_t)e.hidden;
  const auto words = random_words ((size_t)e.batch * (size_t)(e.sequence + 1), e.vocabulary, 1);
  const Tolerance allowed = tolerance (e.element);
  Bytes device_words (words);
  Array token (e.element, random_values (e.vocabulary * hidden, 1, 2)), x (e.element, tokens * hidden);
  Array position (e.element, random_values ((size_t)e.sequence * hidden, 1, 3));
  const Values of_token = token.values (), of_position = position.values ();
  Values expected (tokens * hidden);
  ps_reference_embedding (expected.data (), of_token.data (), positions ? of_position.data () : nullptr, words.data (),
                          e.batch, e.sequence, e.hidden);
  repeat ("embedding", { &x }, [&] () {
    must (ps_cuda_embedding (e.element, x.at (), token.at (), positions ? position.at () : NULL,
                             (const uint32_t *)device_words.memory, e.batch, e.sequence, e.hidden, 0),
          "embedding");
  });
  check_near ("embedding", x.values (), expected, allowed.relative, allowed.absolute);
}

static void test_embedding ()
{
  for (const Ends &e : ends) {
    check_embedding (e, true);
    check_embedding (e, false);
  }
}

/* A row is a sum of at most batch * sequence terms near 1 on top of what was there. */
static void test_embedding_weights ()
{
  for (const Ends &e : ends) {
    const size_t tokens = (size_t)(e.batch * e.sequence), hidden = (size_t)e.hidden;
    const auto words = random_words ((size_t)e.batch * (size_t)(e.sequence + 1), e.vocabulary, 4);
    Bytes device_words (words), workspace (ps_cuda_embedding_workspace (e.batch, e.sequence));
    Array dx (e.element, random_values (tokens * hidden, 1, 5));
    Array dtoken (PS_CUDA_FP32, random_values (e.vocabulary * hidden, 1, 6));
    Array dposition (PS_CUDA_FP32, random_values ((size_t)e.sequence * hidden, 1, 7));
    Values of_token = dtoken.values (), of_position = dposition.values ();
    ps_reference_embedding_weights (of_token.data (), of_position.data (), dx.values ().data (), words.data (), e.batch,
                                    e.sequence, e.hidden);
    repeat ("embedding weights", { &dtoken, &dposition }, [&] () {
      must (ps_cuda_embedding_weights (e.element, dtoken.at<float> (), dposition.at<float> (), dx.at (),
                                       (const uint32_t *)device_words.memory, e.batch, e.sequence, e.hidden,
                                       workspace.memory, 0),
            "embedding weights");
    });
    check_near ("token gradient", dtoken.values (), of_token, 1e-6, 1e-6 * (double)tokens);
    check_near ("position gradient", dposition.values (), of_position, 1e-6, 1e-6 * e.batch);
  }
}

/* Sums run in the order of the tokens: 1 + 2^-24 + 2^-24 stays 1 in fp32, while 2^-24 + 2^-24 + 1 does not. */
static void test_embedding_order ()
{
  const std::vector<uint32_t> words = { 0, 0, 0, 0 };
  const double little = 1.0 / 16777216;
  Bytes device_words (words), workspace (ps_cuda_embedding_workspace (1, 3));

  for (const bool large_first : { true, false }) {
    Array dx (PS_CUDA_FP32, large_first ? Values{ 1, little, little } : Values{ little, little, 1 });
    Array dtoken (PS_CUDA_FP32, Values{ 0 });
    must (ps_cuda_embedding_weights (PS_CUDA_FP32, dtoken.at<float> (), NULL, dx.at (),
                                     (const uint32_t *)device_words.memory, 1, 3, 1, workspace.memory, 0),
          "embedding weights");
    check_near ("order", dtoken.values (), { large_first ? 1 : 1 + 2 * little }, 0, 0);
  }
}

struct Loss {
  PsCudaElement element;
  int batch, sequence, vocabulary, stride;
  double deviation; /* of the logits */
};

static const Loss losses[] = {
  { PS_CUDA_FP32, 1, 1, 1, 1, 1 },       { PS_CUDA_FP32, 2, 33, 11, 11, 2 },    { PS_CUDA_FP32, 1, 7, 5000, 5000, 5 },
  { PS_CUDA_FP32, 1, 3, 2500, 2560, 1 }, { PS_CUDA_FP32, 1, 64, 8, 12, 40 },    { PS_CUDA_BF16, 2, 65, 11, 11, 2 },
  { PS_CUDA_BF16, 1, 7, 9001, 9008, 4 }, { PS_CUDA_BF16, 1, 4, 4099, 4099, 1 }, { PS_CUDA_BF16, 1, 64, 40, 40, 30 },
};

static void test_cross_entropy ()
{
  for (const Loss &l : losses) {
    const size_t tokens = (size_t)(l.batch * l.sequence), stride = (size_t)l.stride;
    const auto words = random_words ((size_t)l.batch * (size_t)(l.sequence + 1), (uint32_t)l.vocabulary, 8);
    const float factor = 1 / (float)tokens;
    Bytes device_words (words);
    Array logits (l.element, random_values (tokens * stride, l.deviation, 9)), loss (PS_CUDA_FP32, tokens);
    Values gradient = logits.values (), expected (tokens);
    for (size_t t = 0; t < tokens; t++) {
      const uint32_t target = words[t + t / (size_t)l.sequence + 1];
      expected[t] = ps_reference_cross_entropy (&gradient[t * stride], target, l.vocabulary, factor);
      for (int c = l.vocabulary; c < l.stride; c++)
        gradient[t * stride + (size_t)c] = 0;
    }
    repeat ("cross-entropy", { &logits, &loss }, [&] () {
      must (ps_cuda_cross_entropy (l.element, logits.at (), loss.at<float> (), (const uint32_t *)device_words.memory,
                                   l.batch, l.sequence, l.vocabulary, l.stride, factor, 0),
            "cross-entropy");
    });
    check_near ("loss", loss.values (), expected, 1e-5, 1e-5);
    /* 1e-5 of the largest gradient, factor, for arithmetic; bf16: 2^-8 relative for storing */
    check_near ("gradient of logits", logits.values (), gradient, tolerance (l.element).relative, 1e-5 * factor);
  }
}

static void test_loss_sum ()
{
  for (const int n : { 0, 1, 7, 513, 3000 }) {
    Array loss (PS_CUDA_FP32, random_values ((size_t)(n > 0 ? n : 1), 1, 10));
    const Values values = loss.values ();
    Bytes total (sizeof (double));
    double actual, expected = 0;
    for (int i = 0; i < n; i++)
      expected += values[(size_t)i] / 8;
    must (ps_cuda_loss_sum ((double *)total.memory, loss.at<float> (), n, 0.125, 0), "loss sum");
    must (cudaDeviceSynchronize (), "loss sum");
    must (cudaMemcpy (&actual, total.memory, sizeof actual, cudaMemcpyDeviceToHost), "cudaMemcpy");
    check_near ("loss sum", { actual }, { expected }, 1e-12, 1e-12);
  }
}

static void test_refusals ()
{
  check_status ("stride below vocabulary", ps_cuda_cross_entropy (PS_CUDA_FP32, NULL, NULL, NULL, 1, 1, 9, 8, 1, 0),
                cudaErrorInvalidValue);
  check_status ("no tokens", ps_cuda_cross_entropy (PS_CUDA_FP32, NULL, NULL, NULL, 0, 1, 8, 8, 1, 0), cudaSuccess);
  check_status ("no tokens", ps_cuda_embedding (PS_CUDA_FP32, NULL, NULL, NULL, NULL, 1, 0, 8, 0), cudaSuccess);
}

const Test end_tests[] = {
  { "ends: embedding", test_embedding },
  { "ends: gradient of the embedding", test_embedding_weights },
  { "ends: gradient of the embedding in the order of tokens", test_embedding_order },
  { "ends: cross-entropy", test_cross_entropy },
  { "ends: sum of losses", test_loss_sum },
  { "ends: refusals", test_refusals },
  { nullptr, nullptr },
};
