/* nvToolsExt.h - stands in for NVTX: notes ranges for tests, see ps_emulator_ranges. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

int nvtxRangePushA (const char *message);
int nvtxRangePop (void);

#ifdef __cplusplus
}
#endif
