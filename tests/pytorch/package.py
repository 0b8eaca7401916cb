#!/usr/bin/env python3
"""package.py - pipesim.torch with the real PyTorch: schedules that its runtime runs, and traces that pipesim reads.

Two processes train linear layers over gloo. Each schedule's losses and gradients must be those of one process, and
pipesim must predict from its trace. PYTHONPATH, PIPESIM_CORE and PIPESIM say which pipesim, as for
tests/python/test_package.py. Prints TAP; skipped without PyTorch.
"""

import datetime
import os
import sys
import tempfile

os.environ.update({"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"})
try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from torch.distributed.pipelining import PipelineStage
except ImportError:
    print("1..0 # SKIP no PyTorch here")
    sys.exit(0)

import pipesim
import pipesim.torch

P, M, WIDTH, ROWS, STEPS = 2, 4, 64, 8, 3
SCHEDULES = [("gpipe", 1), ("1f1b", 1), ("zb-h1", 1), ("interleaved", 2), ("zb-v", 2), ("interleaved-zb", 2)]


def stage_modules(number):
    torch.manual_seed(1)
    return [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()) for _ in range(number)]


def data():
    torch.manual_seed(2)
    return torch.randn(M * ROWS, WIDTH), torch.randn(M * ROWS, WIDTH)


def loss_fn(output, target):
    return torch.nn.functional.mse_loss(output, target)


def alone(number):
    """Losses of the microbatches, and the gradients of each stage, in one process."""
    modules = stage_modules(number)
    x, y = data()
    losses = []
    for inputs, targets in zip(x.chunk(M), y.chunk(M)):
        loss = loss_fn(torch.nn.Sequential(*modules)(inputs), targets)
        (loss / M).backward()
        losses.append(loss.item())
    return losses, [[parameter.grad for parameter in module.parameters()] for module in modules]


def train(rank, name, chunks, folder):
    modules = stage_modules(P * chunks)
    csv = pipesim.torch.order(name, devices=P, microbatches=M, chunks=chunks)
    numbers = pipesim.torch.stages_of(csv, rank)
    stages = [PipelineStage(modules[i], i, P * chunks, torch.device("cpu")) for i in numbers]
    job = pipesim.torch.schedule(name, stages, loss_fn, microbatches=M)
    x, y = data()
    losses = []

    def step():
        for module in modules:
            module.zero_grad()
        losses.clear()
        job.step(*([x] if 0 in numbers else []), target=y if P * chunks - 1 in numbers else None, losses=losses)

    step()
    with pipesim.torch.profile(os.path.join(folder, name)) as step_ends:
        for _ in range(STEPS):
            step()
            step_ends()
    wanted_losses, wanted = alone(P * chunks)
    for i in numbers:
        for parameter, gradient in zip(modules[i].parameters(), wanted[i]):
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-5, atol=1e-7)
    if P * chunks - 1 in numbers:
        torch.testing.assert_close(torch.stack(list(losses)), torch.tensor(wanted_losses), rtol=1e-5, atol=1e-7)


def refuse_wrong_stages(rank):
    modules = stage_modules(2 * P)
    stages = [PipelineStage(modules[i], i, 2 * P, torch.device("cpu")) for i in (2 * rank, 2 * rank + 1)]
    try:
        pipesim.torch.schedule("zb-v", stages, loss_fn, microbatches=M)
    except pipesim.Error as error:
        assert "runs stages" in str(error), error
    else:
        raise AssertionError("stages of another rank are taken")


def work(rank, folder):
    torch.set_num_threads(1)
    store = dist.FileStore(os.path.join(folder, "store"), P)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=P, timeout=datetime.timedelta(seconds=120))
    refuse_wrong_stages(rank)
    for name, chunks in SCHEDULES:
        train(rank, name, chunks, folder)
        dist.barrier()
    dist.destroy_process_group()


def main():
    print(f"1..{1 + len(SCHEDULES)}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        try:
            mp.spawn(work, (folder,), nprocs=P)
            print("ok 1 - losses and gradients are those of one process", flush=True)
        except Exception as error:
            print("not ok 1 - losses and gradients are those of one process", flush=True)
            print("".join(f"# {line}\n" for line in str(error).splitlines()), flush=True)
            return 1
        for number, (name, chunks) in enumerate(SCHEDULES, 2):
            trace = os.path.join(folder, name)
            try:
                rows = pipesim.diagnose(trace)
                again = pipesim.predict(schedule=name, devices=P, microbatches=M, chunks=chunks, costs_from=trace)[0]
                others = pipesim.predict(schedule="all", devices=P, microbatches=M, costs_from=trace)
                assert len(rows) > 0 and again.iteration_ns > 0 and len(others) > 1, (rows, again, others)
                print(f"ok {number} - {name}: its trace predicts {len(others)} schedules", flush=True)
            except (AssertionError, pipesim.Error) as error:
                failed = True
                print(f"not ok {number} - {name}: {error}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
