"""gpu-layer.py - the speed of one transformer layer in PyTorch, forward and backward, for tests/gpu.sh to hold pipesim's against.

    gpu-layer.py OUT.json [--rehearse]

The layer is that of the model "layer" in tests/gpu.sh: layer norm before attention and before the MLP, biases, causal attention,
GELU in its tanh form, bf16, no dropout; gradients of the input and of all parameters. Two ways, each eager and compiled:
accumulating, where gradients of parameters are added to those of the microbatch before (as pipesim's are, though in fp32), and
fresh, where they are written anew. Writes JSON, again after each figure: medians in nanoseconds by CUDA events over some layers in
a row, warm, and TFLOP/s by the operations of the matrix products, 3 (24 b s h^2 + 4 b s^2 h) for forward and backward, causal
attention counted in full. --rehearse: tiny sizes on the CPU, to see that all of it runs; those figures say nothing.

Exits with 77 and one line where there is no PyTorch, or none that sees a GPU."""
import json
import os
import statistics
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError as error:
    sys.exit(print(f'no PyTorch: {error}') or 77)

REHEARSAL = '--rehearse' in sys.argv[2:]
DEVICE = 'cpu' if REHEARSAL else 'cuda'
BATCH, SEQUENCE, HIDDEN, HEADS, GEMM = (2, 64, 64, 4, 64) if REHEARSAL else (4, 2048, 2048, 16, 8192)
FLOPS = 3 * (24 * BATCH * SEQUENCE * HIDDEN ** 2 + 4 * BATCH * SEQUENCE ** 2 * HIDDEN)
IN_A_ROW = 4


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        q, k, v = (part.view(BATCH, SEQUENCE, HEADS, HIDDEN // HEADS).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(HIDDEN, 2))
        context = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(context.transpose(1, 2).reshape(BATCH, SEQUENCE, HIDDEN))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate='tanh'))


def time_ns(work):
    """Of IN_A_ROW calls, so that launching them hides behind the work, divided by their number."""
    if REHEARSAL:
        begin = time.perf_counter_ns()
        work()
        return time.perf_counter_ns() - begin
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(IN_A_ROW):
        work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e6 / IN_A_ROW


def median_ns(work, warm=5, n=20):
    for _ in range(warm):
        work()
    return int(statistics.median(time_ns(work) for _ in range(n)))


def training(layer, forward, fresh):
    x = torch.randn(BATCH, SEQUENCE, HIDDEN, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    gradient = torch.randn_like(x)

    def work():
        x.grad = None
        if fresh:
            layer.zero_grad(set_to_none=True)
        forward(x).backward(gradient)

    return work


def measure(result, path):
    layer = Layer().to(DEVICE, torch.bfloat16)
    a, b = (torch.randn(GEMM, GEMM, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    result['gemm_tflops'] = 2 * GEMM ** 3 / median_ns(lambda: a @ b) / 1e3
    for mode in ('eager', 'compiled'):
        for fresh in (False, True):
            name = mode + ('_fresh' if fresh else '')
            try:
                ns = median_ns(training(layer, layer if mode == 'eager' else torch.compile(layer), fresh))
                result[name] = {'ns': ns, 'tflops': FLOPS / ns / 1e3}
            except Exception as error:  # the compiler may lack what it needs; eager figures are worth keeping
                result[name + '_error'] = (str(error).splitlines() or [repr(error)])[0][:200]
            with open(path, 'w', encoding='utf-8') as file:
                json.dump(result, file, indent=1)
                file.write('\n')


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if not REHEARSAL and not torch.cuda.is_available():
        print(f'no GPU that PyTorch {torch.__version__} sees')
        return 77
    torch.manual_seed(1)
    result = {'torch': torch.__version__, 'gpu': 'none' if REHEARSAL else torch.cuda.get_device_name(), 'flops': FLOPS}
    if REHEARSAL:
        result['rehearsal'] = True
    measure(result, sys.argv[1])
    return 0


sys.exit(main())
