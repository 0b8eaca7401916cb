#!/usr/bin/env python3
"""bridge.py - from the profiler traces of a few schedules that PyTorch runs, pipesim predicts the others, which then run, too.

    PIPESIM=build/pipesim python3 tests/pytorch/bridge.py [--seconds 420] [--out FOLDER] [--check]

Two processes train transformer blocks over gloo, one thread each. Every round runs each schedule once, in turn. The schedules
that are imported run under torch.profiler as well; pipesim reads their traces, and the time of their steps without the
profiler. A step counts only if other programs had less than 5 % of the two cores' time; a round goes on without the steps that don't.

Printed: the time of each setting from the first op's start to the last op's end, the median of its steps against the middle of the
predicted interval. That middle knows the spread of op times: where devices run in step, each waits for the slower one of two ops. Then
the median and largest error of the settings that were not imported; the loss by choosing the predicted best of each group; the replay of
the imported runs, the lower quartile of their profiled steps against a simulation with median ops. --check: exits with 3 outside the tolerances of TOLERANCE. Without PyTorch: exits with 77, which meson counts as skipped.
"""
import argparse, datetime, json, os, statistics, subprocess, sys, tempfile, threading, time

os.environ.update({"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR",
                   # Without these every microbatch faults its pages in again, and ops depend on how many are under way.
                   "MALLOC_TRIM_THRESHOLD_": "4294967296", "MALLOC_MMAP_MAX_": "0", "MALLOC_TOP_PAD_": "268435456"})
try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from torch.distributed.pipelining import PipelineStage, schedules
except ImportError:
    print("1..0 # SKIP no PyTorch here")
    sys.exit(77)

M, LAYERS, WIDTH, TOKENS, SEQUENCES, HEADS = 8, 4, 320, 64, 4, 4
FOREIGN = 0.05
TOLERANCE = {"median": 0.03, "worst": 0.08, "regret": 0.02, "replay": 0.01}

# Of each group the first two are imported: one whose backwards are split, one whose backwards are not.
GROUPS = {
    "two stages": (2, 1, ["zb-h1", "1f1b", "gpipe", "eager-1f1b", "zb-h2", "naive"]),
    "four in a V": (4, 2, ["zb-v", "1f1b-v", "v-half", "v-min", "hanayo"]),
    "four in a loop": (4, 2, ["interleaved-zb", "interleaved", "looped-bfs", "gis"]),
}
ALSO = {"two stages": [("1f1b", 4), ("zb-h1", 16), ("gpipe", 4)], "four in a V": [("zb-v", 12), ("1f1b-v", 4)],
        "four in a loop": [("interleaved", 4)]}


class Blocks(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0, batch_first=True, norm_first=True) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def pipesim(*arguments):
    return subprocess.run([os.environ.get("PIPESIM", "pipesim"), *arguments], check=True, capture_output=True, text=True).stdout


def settings(out):
    """[(group, name, m, stages, file, imported)]"""
    rows = []
    for group, (stages, chunks, names) in GROUPS.items():
        for name, m in [(n, M) for n in names] + ALSO[group]:
            file = f"{out}/{name}-{m}.csv"
            pipesim("schedule", "convert", name, "-p", "2", "-m", str(m), "-v", str(chunks), "--to", "torch-compute", "-o", file)
            rows.append((group, name, m, stages, file, name in names[:2] and m == M))
    return rows


class Stamps:
    """Stands for record_function: notes the first start and the last end of an op. The profiler sees its ranges as ever."""
    first, last, profiled, inner = 0, 0, False, schedules.record_function

    def __init__(self, name):
        self.is_op = name[3:].lstrip("0123456789(")[:1] in "FBIW" and "WAIT" not in name
        self.range = Stamps.inner(name) if Stamps.profiled else None

    def __enter__(self):
        if self.is_op and not Stamps.first:
            Stamps.first = time.perf_counter_ns()
        if self.range:
            self.range.__enter__()

    def __exit__(self, *exception):
        if self.range:
            self.range.__exit__(*exception)
        if self.is_op:
            Stamps.last = time.perf_counter_ns()


def busy():
    """ns that all cores have worked until now"""
    fields = [int(f) for f in open("/proc/stat").readline().split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) * 1e9 / os.sysconf("SC_CLK_TCK")


def build(stages, csv, rank):
    rows = [row.split(",") for row in open(csv).read().split()]
    own = sorted({int("".join(c for c in cell.lstrip("(")[:2] if c.isdigit())) for cell in rows[rank] if cell})
    torch.manual_seed(1)
    return [PipelineStage(Blocks(LAYERS // stages), s, stages, torch.device("cpu")) for s in own]


def worker(rank, rows, out, seconds):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{out}/store", rank=rank, world_size=2,
                            timeout=datetime.timedelta(seconds=60))
    schedules.record_function, jobs = Stamps, []
    for group, name, m, stages, csv, imported in rows:
        parts = build(stages, csv, rank)
        job = schedules._PipelineScheduleRuntime(parts, m, loss_fn=torch.nn.functional.mse_loss)
        job._load_csv(csv)
        jobs.append((job, parts, torch.randn(m * SEQUENCES, TOKENS, WIDTH)))

    def step(job, parts, x, profiled):
        for part in parts:
            part.submod.zero_grad()
        Stamps.first, Stamps.last, Stamps.profiled = 0, 0, profiled
        dist.barrier()
        before, own, begin = busy(), time.process_time_ns(), time.perf_counter_ns()
        job.step(*((x,) if parts[0].is_first else ()), **({"target": x} if parts[-1].is_last or parts[0].is_last else {}),
                 return_outputs=False)
        dist.barrier()
        mine = torch.tensor([time.process_time_ns() - own])
        after, end = busy(), time.perf_counter_ns()
        dist.all_reduce(mine)
        return {"first": Stamps.first, "last": Stamps.last,
                "foreign": (after - before - mine.item()) / (os.cpu_count() * (end - begin))}

    for job in jobs:
        step(*job, False)
    results, begin, n = [[] for _ in rows], time.time(), 0
    while n < 1 or time.time() - begin < seconds:
        for i in (range(len(rows)) if n % 2 == 0 else reversed(range(len(rows)))):
            results[i].append(step(*jobs[i], False))
            if rows[i][5]:
                folder = f"{out}/traces/{i}-{n}"
                os.makedirs(folder, exist_ok=True)
                with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
                    results[i][-1]["profiled"] = step(*jobs[i], True)
                profiler.export_chrome_trace(f"{folder}/rank{rank}.json")
        n += 1
        go = torch.tensor([time.time() - begin])
        dist.broadcast(go, 0)
        begin = time.time() - go.item()
    json.dump(results, open(f"{out}/results-{rank}.json", "w"))
    dist.barrier()
    os._exit(0)


def clean(samples, least=5):
    """Of (foreign, value) the values of the quiet steps, or of the quietest where those are too few."""
    samples.sort()
    quiet = [v for f, v in samples if f < FOREIGN]
    return quiet if len(quiet) >= least else [v for _, v in samples[:least]]


def span(a, b):
    return max(a["last"], b["last"]) - min(a["first"], b["first"])


def usual(spans):
    """The lower quartile: whatever disturbs a step makes it longer, and most steps have something."""
    return sorted(spans)[len(spans) // 4]


def predict(csv, folders, figure="iteration_p50_ns"):
    answer = json.loads(pipesim("predict", "--schedule", csv, "--costs-from", ":".join(folders), "--json"))
    return answer["results"][0][figure]


def report(rows, out):
    results = [json.load(open(f"{out}/results-{rank}.json")) for rank in range(2)]
    measured, traces, replays = [], {}, []
    for i, (group, name, m, _, csv, imported) in enumerate(rows):
        steps = list(zip(results[0][i], results[1][i]))
        spans = clean([(a["foreign"], span(a, b)) for a, b in steps])
        measured.append(statistics.median(spans))
        if imported:
            # The step without the profiler right before the profiled one: the machine was the same for both.
            runs = [(max(a["foreign"], a["profiled"]["foreign"]),
                     (f"{out}/traces/{i}-{n}", span(a, b), span(a["profiled"], b["profiled"])))
                    for n, (a, b) in enumerate(steps)]
            folders, plain, spans = zip(*clean(runs))
            traces.setdefault(group, []).extend(f"{folder}={ns}ns" for folder, ns in zip(folders, plain))
            replays.append(abs(predict(csv, folders, "makespan_ns") / usual(spans) - 1))
    errors, regret = [], {}
    print("setting                          measured   predicted    error")
    for i, (group, name, m, _, csv, imported) in enumerate(rows):
        ns = predict(csv, traces[group])
        error = ns / measured[i] - 1
        errors += [] if imported else [abs(error)]
        regret.setdefault((group, m), []).append((ns, measured[i]))
        print(f"{group:16s}{name:15s}{m:3d} {measured[i] / 1e6:7.1f} ms {ns / 1e6:8.1f} ms {100 * error:+7.2f} %"
              + ("  imported" if imported else ""))
    lost = max(min(pairs)[1] / min(m for _, m in pairs) - 1 for pairs in regret.values())
    foreign = statistics.median(step["foreign"] for steps in results[0] for step in steps)
    figures = {"median": statistics.median(errors), "worst": max(errors), "regret": lost, "replay": statistics.median(replays)}
    print(f"{len(errors)} settings that were not imported: median |error| {100 * figures['median']:.2f} %, worst "
          f"{100 * figures['worst']:.2f} %\nchoosing the predicted best of a group loses at most {100 * lost:.2f} %\n"
          f"replay of the imported runs: median |error| {100 * figures['replay']:.2f} %, worst {100 * max(replays):.2f} %\n"
          f"{len(results[0][0])} rounds; other programs, and idle time that they used, had {100 * foreign:.1f} % of the "
          "processors")
    return figures


def run(rows, out, seconds):
    for attempt in range(5):
        if os.path.exists(f"{out}/store"):
            os.remove(f"{out}/store")
        try:
            return mp.spawn(worker, (rows, out, seconds), nprocs=2)
        except mp.ProcessRaisedException as failure:  # gloo's first connection is sometimes refused
            if "connectFullMesh" not in str(failure) or attempt == 4:
                raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--out")
    parser.add_argument("--again", action="store_true", help="predict again what is in --out")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    out = options.out or tempfile.mkdtemp(prefix="bridge-")
    os.makedirs(f"{out}/traces", exist_ok=True)
    rows = settings(out)
    if not options.again:
        run(rows, out, options.seconds)
    figures = report(rows, out)
    sys.exit(3 if options.check and any(figures[k] > TOLERANCE[k] for k in figures) else 0)


if __name__ == "__main__":
    main()
