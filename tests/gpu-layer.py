"""gpu-layer.py - the speed of one transformer layer in PyTorch, forward and backward, for tests/gpu.sh to hold pipesim's against.

The layer is that of the model "layer" in tests/gpu.sh: layer norm before attention and before the MLP, biases, causal attention,
GELU in its tanh form, bf16, no dropout. Writes JSON to the file that it is given, anew after each figure: medians in nanoseconds by
CUDA events, and TFLOP/s by the operations of the matrix products, 3 (24 b s h^2 + 4 b s^2 h) for forward and backward, causal
attention counted in full. Measured; warm."""
import json
import statistics
import sys

import torch
from torch import nn
from torch.nn import functional

BATCH, SEQUENCE, HIDDEN, HEADS = 4, 2048, 2048, 16
FLOPS = 3 * (24 * BATCH * SEQUENCE * HIDDEN ** 2 + 4 * BATCH * SEQUENCE ** 2 * HIDDEN)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        heads = self.qkv(self.norm1(x)).view(BATCH, SEQUENCE, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
        context = functional.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.out(context.transpose(1, 2).reshape(BATCH, SEQUENCE, HIDDEN))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate='tanh'))


def median_ns(work, warm=5, n=30):
    for _ in range(warm):
        work()
    times = []
    for _ in range(n):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e6)
    return int(statistics.median(times))


def training(layer):
    x = torch.randn(BATCH, SEQUENCE, HIDDEN, device='cuda', dtype=torch.bfloat16, requires_grad=True)
    gradient = torch.randn_like(x)

    def work():
        layer(x).backward(gradient)

    return work


def main():
    torch.manual_seed(1)
    layer = Layer().to('cuda', torch.bfloat16)
    result = {'torch': torch.__version__, 'gpu': torch.cuda.get_device_name(), 'flops': FLOPS}
    a, b = (torch.randn(8192, 8192, device='cuda', dtype=torch.bfloat16) for _ in range(2))
    result['gemm_tflops'] = 2 * 8192 ** 3 / median_ns(lambda: a @ b) / 1e3
    for mode, made in (('eager', lambda: layer), ('compiled', lambda: torch.compile(layer))):
        try:
            ns = median_ns(training(made()))
            result[mode] = {'ns': ns, 'tflops': FLOPS / ns / 1e3}
        except Exception as error:  # the compiler may lack what it needs; eager figures are worth keeping
            result[mode + '_error'] = (str(error).splitlines() or [repr(error)])[0][:200]
        with open(sys.argv[1], 'w', encoding='utf-8') as file:
            json.dump(result, file, indent=1)


main()
