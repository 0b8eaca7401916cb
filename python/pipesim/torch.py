"""Where pipesim meets torch.distributed.pipelining: schedules to run, and traces of runs to predict from.

    stages = [PipelineStage(...), ...]             # as PyTorch wants them, the stages of this rank
    job = pipesim.torch.schedule("zb-v", stages, loss_fn, microbatches=8)
    with pipesim.torch.profile("trace") as step:   # trace/rank0.json.gz, ...
        for _ in range(4):
            job.step(...)
            step()
    pipesim.predict(schedule="all", costs_from="trace")

PyTorch is imported when one of these functions is called. docs/traces.md says what a trace holds.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import Error, run


def stages_of(csv: str, rank: int) -> list[int]:
    """The stages of a rank in a schedule that order() wrote."""
    rows = csv.split()
    if rank >= len(rows):
        raise Error(f"rank {rank}: the schedule has {len(rows)} ranks", 2)
    numbers: set[int] = set()
    for cell in rows[rank].replace("(", "").replace(";", ",").split(","):
        digits = len(cell) - len(cell.lstrip("0123456789"))
        if digits:
            numbers.add(int(cell[:digits]))
    return sorted(numbers)


def order(name: str, *, devices: int, microbatches: int, chunks: int | None = None) -> str:
    """The order of ops of a family or a schedule file as PyTorch's CSV, one line for each rank."""
    words = ["schedule", "convert", name, "-p", str(devices), "-m", str(microbatches)]
    words += [] if chunks is None else ["-v", str(chunks)]
    return run(*words, "--to", "torch-compute", "-o", "-")[0]


def schedule(
    name: str,
    stages: Sequence[Any],
    loss_fn: Callable[..., Any] | None = None,
    *,
    microbatches: int,
    devices: int | None = None,
    **options: Any,
) -> Any:
    """A schedule object that runs this order on this rank's PipelineStages.

    stages must be those that the order gives to the rank: stages_of(order(...), rank). options go to PyTorch's runtime.
    """
    import torch.distributed as dist
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    ranks = dist.get_world_size(stages[0].group) if devices is None else devices
    csv = order(name, devices=ranks, microbatches=microbatches, chunks=len(stages))
    wanted = stages_of(csv, stages[0].group_rank)
    given = sorted(stage.stage_index for stage in stages)
    if wanted != given:
        raise Error(f"{name}: rank {stages[0].group_rank} runs stages {wanted}; the stages given are {given}", 2)
    job = _PipelineScheduleRuntime(list(stages), microbatches, loss_fn=loss_fn, **options)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "schedule.csv")
        with open(path, "w") as file:
            file.write(csv)
        job._load_csv(path)
    return job


@contextlib.contextmanager
def profile(folder: str, rank: int | None = None) -> Iterator[Callable[[], None]]:
    """Records steps as FOLDER/rankN.json.gz, which costs_from= reads. Call what it yields after each step."""
    import torch
    import torch.distributed as dist

    number = rank if rank is not None else dist.get_rank() if dist.is_initialized() else 0
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        yield profiler.step
    os.makedirs(folder, exist_ok=True)
    profiler.export_chrome_trace(os.path.join(folder, f"rank{number}.json.gz"))
