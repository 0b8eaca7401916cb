/* cuda-kernels.h - the table of kernels of the cuda device: cuBLASLt's products and the kernels of kernels.h. */
#pragma once

#include "cuda-context.h"

/* Its queues are PsCudaContexts with products. */
extern const PsKernels ps_cuda_kernels;
