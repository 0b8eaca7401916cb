/* rig.h - for tests of CUDA kernels, on a GPU or emulated: device arrays, and comparisons with a reference. No GLib, so
 * that nvcc and a C++ compiler are all that a GPU machine needs. */
#pragma once

#include <initializer_list>
#include <stddef.h>
#include <stdint.h>
#include <vector>

#include "kernels.h"

typedef std::vector<double> Values;

/* Says why and ends the program when a call of the CUDA runtime fails. */
void must (cudaError_t status, const char *what);

double round_to (PsCudaElement element, double value);

/* Random numbers, near normal with that deviation; equal seeds, equal numbers. */
Values random_values (size_t n, double deviation, uint32_t seed);
std::vector<uint32_t> random_words (size_t n, uint32_t vocabulary, uint32_t seed);

/* n elements in device memory, `shift` elements behind a place on 16 bytes and with nothing of ours behind them. */
class Array {
public:
  Array (PsCudaElement element, const Values &values, int shift = 0); /* rounded to element */
  Array (PsCudaElement element, size_t n, int shift = 0);             /* NaNs */
  ~Array ();
  Array (const Array &) = delete;
  Array &operator= (const Array &) = delete;

  Values values () const; /* what is there now */
  std::vector<unsigned char> bytes () const;
  void set_bytes (const std::vector<unsigned char> &bytes);

  template <typename T = void> T *at (size_t i = 0) const
  {
    return (T *)((char *)memory + (shift + i) * ps_cuda_element_bytes (element));
  }

  PsCudaElement element;
  size_t n;

private:
  size_t shift;
  void *memory;
};

/* Plain bytes there: words, workspaces, sums. */
class Bytes {
public:
  explicit Bytes (size_t n);
  explicit Bytes (const std::vector<uint32_t> &words);
  ~Bytes ();
  Bytes (const Bytes &) = delete;
  Bytes &operator= (const Bytes &) = delete;

  void *memory;
};

/* --- assertions: they note a failure of the running test and go on --- */

bool take_failure (); /* whether there was one since the last call */
void fail (const char *format, ...) __attribute__ ((format (printf, 1, 2)));

/* |actual - expected| <= relative |expected| + absolute, for each; magnitude not NULL: absolute times magnitude[i]. */
void check_near (const char *what, const Values &actual, const Values &expected, double relative, double absolute,
                 const Values *magnitude = nullptr);
void check_status (const char *what, cudaError_t status, cudaError_t expected);

/* Calls run twice, from the same contents of the arrays, and wants the same bits. The emulator takes the second run
 * backwards, which also shows missing barriers. run's work is done when this returns. */
void check_repeats (const char *what, std::initializer_list<Array *> outputs, void (*run) (void *), void *data);

template <typename Run> void repeat (const char *what, std::initializer_list<Array *> outputs, Run run)
{
  check_repeats (
      what, outputs, [] (void *data) { (*(Run *)data) (); }, &run);
}

/* What storing a result costs: 2^-8 for bf16 (8 significant bits, half a unit in the last place), and 1e-5 stands for
 * what fp32 arithmetic does on the way. */
struct Tolerance {
  double relative, absolute;
};
Tolerance tolerance (PsCudaElement element);
static const double arithmetic_error = 1e-5;
static const double bf16_error = 1.0 / 256;

const char *element_name (PsCudaElement element);

/* --- the tests, one table per file, ended by a NULL name --- */

struct Test {
  const char *name;
  void (*run) ();
};
extern const Test row_tests[], element_tests[], end_tests[], attention_tests[];

/* Prints what each kernel reaches on the GPU; decides nothing. */
void print_figures ();
