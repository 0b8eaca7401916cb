/* nvtx.cpp - the ranges that a thread has opened and closed, as text. */
#include "machine.h"

#include <nvtx3/nvToolsExt.h>
#include <string>

static thread_local std::string ranges;

int
nvtxRangePushA (const char *message)
{
  ranges += "(";
  ranges += message;
  return 0;
}

int
nvtxRangePop (void)
{
  ranges += ")";
  return 0;
}

const char *
ps_emulator_ranges (void)
{
  return ranges.c_str ();
}
