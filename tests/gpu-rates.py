"""gpu-rates.py - rates of matrix products and attention over their shapes, in PyTorch, as a table for modelled costs.

    gpu-rates.py OUT.csv [--rehearse]

Measures products [m, k] x [k, n] in bf16 and FP8 (E4M3, one scale per tensor, fast accumulation, bf16 result), grouped products of
experts in both (FP8 with one scale per row), and causal attention in bf16, forward and backward, by FlashAttention and cuDNN. A
product is that of a forward pass: both operands have k as their fastest axis. Rows nn and nt are those of the gradients of the input
and of the weights. Operands are random. Each run takes other ones out of buffers much larger than the L2 cache. Writes rows as they
are measured: medians in microseconds by CUDA events, and TFLOP/s of 2mnk (attention: 2 b a s^2 d forward, half of the whole square,
and 2.5 times that backward). --rehearse: tiny sizes on the CPU; those figures say nothing.

Exits with 77 and one line where there is no PyTorch, or none that sees a GPU."""
import statistics
import sys
import time

try:
    import torch
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as error:
    sys.exit(print(f'no PyTorch: {error}') or 77)

REHEARSAL = '--rehearse' in sys.argv[2:]
DEVICE = 'cpu' if REHEARSAL else 'cuda'
SCALE = 64 if REHEARSAL else 1
ROWS = [1024, 2048, 4096, 8192, 16384, 32768, 65536]
WIDTHS = [1024, 2048, 4096, 7168, 14336, 28672]
LARGEST = 65536 * 28672 // SCALE ** 2
FP8 = torch.float8_e4m3fn


def time_us(work):
    if REHEARSAL:
        begin = time.perf_counter_ns()
        work()
        return (time.perf_counter_ns() - begin) / 1e3
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


def median_us(work, flops):
    """A spinning first kernel hides the launches of what is timed after it."""
    repeats = 1 if REHEARSAL else max(3, min(15, int(2e12 / flops)))
    work()
    work()
    times = []
    for _ in range(repeats):
        if not REHEARSAL:
            torch.cuda._sleep(200000)
        times.append(time_us(work))
    return statistics.median(times)


class Buffer:
    """Random numbers. Each call of take gives the next matrix of them."""
    def __init__(self, dtype):
        block = torch.randn(1 << (10 if REHEARSAL else 24), device=DEVICE, dtype=torch.bfloat16).to(dtype)
        self.data = block.repeat(LARGEST // block.numel() + 1)
        self.next = 0

    def take(self, *shape):
        size = 1
        for n in shape:
            size *= n
        if self.next + size > self.data.numel():
            self.next = 0
        part = self.data[self.next:self.next + size].view(*shape)
        self.next += (size + 1023) // 1024 * 1024
        return part


class Table:
    def __init__(self, path):
        self.file = open(path, 'w', encoding='utf-8')
        self.rows = 0
        where = 'rehearsal' if REHEARSAL else f'{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}'
        print(f'# measured by tests/gpu-rates.py on {time.strftime("%Y-%m-%d")}: {where}, PyTorch {torch.__version__}', file=self.file)
        print('what,precision,layout,groups,m,n,k,us,tflops', file=self.file)

    def measure(self, what, precision, layout, groups, m, n, k, flops, work):
        """Leaves out what this PyTorch or GPU does not run, with a comment."""
        label = f'{what},{precision},{layout},{groups},{m},{n},{k}'
        try:
            us = median_us(work, flops)
            print(f'{label},{us:.2f},{flops / us / 1e6:.2f}', file=self.file, flush=True)
            self.rows += 1
            return us
        except Exception as error:
            print(f'# {label}: {(str(error).splitlines() or [repr(error)])[0][:120]}', file=self.file, flush=True)
            return None


def products(table, buffer, fp8, one):
    for m in [m // SCALE for m in ROWS]:
        for n in [n // SCALE for n in WIDTHS]:
            for k in [k // SCALE for k in WIDTHS]:
                def plain():
                    return torch.matmul(buffer.take(m, k), buffer.take(n, k).t())

                def scaled():
                    return torch._scaled_mm(fp8.take(m, k), fp8.take(n, k).t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16,
                                            use_fast_accum=True)

                def gradient_of_input():
                    return torch.matmul(buffer.take(m, n), buffer.take(n, k))

                def gradient_of_weights():
                    return torch.matmul(buffer.take(m, n).t(), buffer.take(m, k))

                flops = 2 * m * n * k
                table.measure('product', 'bf16', 'tn', 1, m, n, k, flops, plain)
                table.measure('product', 'fp8', 'tn', 1, m, n, k, flops, scaled)
                if n == k or n == 4 * k or k == 4 * n:
                    table.measure('product', 'bf16', 'nn', 1, m, k, n, flops, gradient_of_input)
                    table.measure('product', 'bf16', 'nt', 1, n, k, m, flops, gradient_of_weights)


def grouped(table, buffer, fp8):
    """m is the number of rows of one expert. The first product widens to gate and up, the second narrows."""
    for groups in (8, 16, 32):
        for m in [m // SCALE for m in (128, 256, 512, 1024, 2048, 4096)]:
            m = max(m, 16)
            for n, k in ((4096, 7168), (7168, 2048), (3072, 2048), (2048, 1536)):
                n, k = n // SCALE, k // SCALE
                ends = torch.arange(m, groups * m + 1, m, device=DEVICE, dtype=torch.int32)
                rows = torch.ones(groups * m, device=DEVICE)
                columns = torch.ones(groups, n, device=DEVICE)

                def plain():
                    return torch._grouped_mm(buffer.take(groups * m, k), buffer.take(groups, n, k).transpose(1, 2), offs=ends)

                def scaled():
                    return torch._scaled_grouped_mm(fp8.take(groups * m, k), fp8.take(groups, n, k).transpose(1, 2), rows, columns,
                                                    offs=ends, out_dtype=torch.bfloat16, use_fast_accum=True)

                flops = 2 * groups * m * n * k
                table.measure('grouped', 'bf16', 'tn', groups, m, n, k, flops, plain)
                table.measure('grouped', 'fp8', 'tn', groups, m, n, k, flops, scaled)


def attention(table):
    """Rows: groups are heads, m the sequence, k the width of a head, n the batch."""
    for width, heads in ((128, 16), (64, 16)):
        for sequence in [s // SCALE for s in (1024, 2048, 4096, 8192, 16384, 32768)]:
            batch = max(1, 16384 // SCALE // sequence)
            q, k, v = (torch.randn(batch, heads, sequence, width, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
                       for _ in range(3))
            flops = 2 * batch * heads * sequence ** 2 * width
            for name, backend in (('flash', SDPBackend.FLASH_ATTENTION), ('cudnn', SDPBackend.CUDNN_ATTENTION)):
                if REHEARSAL:
                    backend = SDPBackend.MATH

                def forward():
                    with sdpa_kernel(backend):
                        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

                if table.measure('attention-forward', 'bf16', name, heads, sequence, batch, width, flops, forward) is None:
                    continue
                out = forward()
                gradient = torch.randn_like(out)
                table.measure('attention-backward', 'bf16', name, heads, sequence, batch, width, 2.5 * flops,
                              lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if not REHEARSAL and not torch.cuda.is_available():
        print(f'no GPU that PyTorch {torch.__version__} sees')
        return 77
    torch.manual_seed(1)
    table = Table(sys.argv[1])
    attention(table)
    buffer, fp8, one = Buffer(torch.bfloat16), Buffer(FP8), torch.ones((), device=DEVICE)
    grouped(table, buffer, fp8)
    products(table, buffer, fp8, one)
    print(f'{table.rows} rates measured')
    return 0


sys.exit(main())
