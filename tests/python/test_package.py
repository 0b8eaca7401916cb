#!/usr/bin/env python3
"""test_package.py - the Python package answers what the program answers, to the nanosecond.

    PYTHONPATH=python PIPESIM_CORE=build/python/libpipesim-core.so PIPESIM=build/pipesim tests/python/test_package.py

Without these variables it tests the installed package. It prints TAP and needs nothing but Python; what needs pandas or
tqdm is skipped where they are not installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import traceback

TESTS = pathlib.Path(__file__).resolve().parents[1]
for name in ("PIPESIM", "PIPESIM_CORE"):
    if name in os.environ:
        os.environ[name] = os.path.abspath(os.environ[name])
sys.path.insert(0, str(TESTS / "corpus"))

import corpus  # noqa: E402
import pipesim  # noqa: E402

DRAWN = 500
COSTS = {"f": "1ms", "b": "1ms", "w": "1ms", "c": "100us"}
LETTERS = {"-s": "--schedule", "-p": "--devices", "-m": "--microbatches", "-v": "--chunks"}
SKIPPED = []


class Skip(Exception):
    """Why a check is left out."""


def program(*words):
    """What the program prints, its last line on standard error, and its exit code."""
    done = subprocess.run([pipesim._find_program(), *words], capture_output=True, text=True, check=False)
    return done.stdout, (done.stderr.strip().splitlines() or [""])[-1], done.returncode


def arguments(words):
    """The keyword arguments of a command line of options alone."""
    found, name = {}, ""
    for word in words:
        if word.startswith("-"):
            option, _, value = LETTERS.get(word, word).partition("=")
            name = option[2:].replace("-", "_")
            found[name] = value or True
        else:
            found[name] = word
    found.pop("json", None)
    return found


def drawn(seed):
    """predict's command lines of tests/corpus, and others than those that it looks at."""
    rand = random.Random(seed)
    while True:
        words = corpus.predict(rand)
        if "--json" in words:
            yield words[1:]


def in_process(options):
    """The answer as the program's JSON has it, or the error and its exit code."""
    try:
        result = pipesim.predict(**options)
    except pipesim.Error as error:
        return None, str(error), error.exit_code
    return {**result.about, "results": [dict(row) for row in result]}, "", 0


def test_answers_of_the_program():
    lines = drawn(41)
    refused = 0
    for _ in range(DRAWN):
        words = next(lines)
        output, error, code = program("predict", *words)
        answer, refusal, exit_code = in_process(arguments(words))
        assert exit_code == code, (words, exit_code, code, refusal)
        if code:
            refused += 1
            assert refusal == error, (words, refusal, error)
        else:
            assert answer == json.loads(output), words
    assert refused < DRAWN / 2, f"{refused} of {DRAWN} settings are refused"


def test_fields_are_the_values():
    row = pipesim.predict(schedule="1f1b", devices=4, microbatches=8, costs=COSTS)[0]
    assert isinstance(row, pipesim.Prediction)
    # m + p - 1 turns of F, B and W, and transfers: one way for the last stage's first F, and one way back.
    assert row.iteration_ns == row["iteration_ns"] == dict(row)["iteration_ns"]
    assert (row.schedule, row.devices, row.microbatches) == ("1f1b", 4, 8)
    free = pipesim.predict(schedule="1f1b", devices=4, microbatches=8, costs="f=1ms,b=1ms,w=1ms,c=0")[0]
    assert free.iteration_ns == (8 + 4 - 1) * 3_000_000
    assert abs(free.bubble_ratio - 3 / 11) < 1e-12
    try:
        row.no_such_key  # noqa: B018
    except AttributeError:
        pass
    else:
        raise AssertionError("a key that a row lacks is no attribute")


def test_values_are_written_as_options():
    texts = [
        {"costs": "f=1ms:2ms,b=1ms,w=1ms,c=100us"},
        {"costs": {"f": ["1ms", "2ms"], "b": "1ms", "w": "1ms", "c": "100us"}},
    ]
    first, second = (pipesim.predict(schedule=("1f1b", "gpipe"), devices=2, microbatches=4, **text) for text in texts)
    assert first.rows == second.rows and len(first) == 2
    slow = pipesim.predict(
        schedule="1f1b", devices=2, microbatches=4, costs=COSTS, straggler=["0:1.5", "1:1.2"], samples=20
    )
    assert "--straggler=0:1.5 --straggler=1:1.2" in slow.command
    assert (
        "--speed=0.5:1"
        in pipesim.predict(schedule="1f1b", devices=2, microbatches=4, costs=COSTS, speed=[0.5, 1]).command
    )


def refusal(function, *given, **options):
    try:
        function(*given, **options)
    except pipesim.Error as error:
        assert "\n" not in str(error), str(error)
        return str(error), error.exit_code
    raise AssertionError("no error")


def test_errors_are_one_line():
    setting = {"devices": 4, "microbatches": 8, "costs": COSTS}
    for options, text, code in [
        ({"schedule": "1f1c"}, "1f1c", 2),
        ({"schedule": "1f1b", "costs": "f=1"}, "--costs: f: '1'", 2),
        ({"schedule": "1f1b", "costs": "f=1ms\nb=1ms"}, "costs", 2),
        ({"schedule": "no/such.json"}, "no/such.json", 1),
        ({"from_": "no/such.toml"}, "no/such.toml", 1),
        ({"schedule": "1f1b", "print_costs": True}, "pipesim.run returns its text", 2),
        ({"schedule": "1f1b", "output": "-"}, "pipesim.run returns its text", 2),
    ]:
        said, exit_code = refusal(pipesim.predict, **{**setting, **options})
        assert text in said, said
        assert exit_code == code, (said, exit_code)
    assert "no command 'predicts'" in refusal(pipesim.run, "predicts")[0]
    try:
        pipesim.timeline("1f1b", device=4)
    except TypeError as error:
        assert "device" in str(error)
    else:
        raise AssertionError("an unknown option is no TypeError")


def test_a_failure_leaves_nothing_behind():
    setting = {"schedule": ["1f1b", "zb-v"], "devices": 4, "microbatches": 8, "costs": COSTS}
    before = pipesim.predict(**setting)
    for wrong in ({"costs": "f=1"}, {"schedule": "1f1c"}, {"model": "tiny-gpt", "cluster": "no-such-cluster"}):
        refusal(pipesim.predict, **{**setting, **wrong})
        after = pipesim.predict(**setting)
        assert (after.rows, after.about, after.notes) == (before.rows, before.about, before.notes)


def test_python_keeps_its_signals():
    pipesim.search(devices=2, microbatches=3, costs=COSTS, moves=3000, jobs=1, seed=1)
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        return
    raise AssertionError("Ctrl-C is lost after a search")


def test_threads_side_by_side():
    lines = [arguments(words) for words, _ in zip(drawn(7), range(60))]
    alone = [in_process(options) for options in lines]
    wrong = []

    def work(offset):
        for i in range(len(lines)):
            at = (i + offset) % len(lines)
            if in_process(lines[at]) != alone[at]:
                wrong.append(lines[at])

    threads = [threading.Thread(target=work, args=[17 * i]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]


def test_other_commands():
    found = pipesim.search(devices=2, microbatches=3, costs=COSTS, moves=3000, jobs=1, seed=1)
    assert found[0].iteration_ns >= found[0].lower_bound_ns and found[0].schedule == "search"
    rows = pipesim.plan(model="llama-3-8b", cluster="h100-80gb", gpus=8, global_batch=16, top=2, schedule=["1f1b"])
    assert [row.rank for row in rows] == [1, 2] and rows[0].step_ns <= rows[1].step_ns
    again = json.loads(program(*rows[0].command.split()[1:], "--json")[0])["results"][0]
    assert again["iteration_ns"] == rows[0].step_ns == pipesim.predict(**rows[0].options)[0].iteration_ns
    launch = TESTS / "fixtures" / "launches" / "titan.toml"
    assert pipesim.advise(launch, cluster="h100-80gb")[0].rank is None
    cut = pipesim.partition(model="llama-3-8b", cluster="h100-80gb", devices=4)
    assert cut[0].bottleneck_ns > 0
    assert "llama-3-70b" in [row.name for row in pipesim.models()]
    assert "h100-80gb" in [row.name for row in pipesim.clusters()]
    assert program("--version")[0].split()[1] == pipesim.version()
    assert pipesim.run("help")[0].startswith("Usage: pipesim COMMAND")
    assert "--devices" in pipesim.run("predict", "--help")[0]


def test_sweep_is_an_iterator():
    left_out = []
    rows = pipesim.sweep(
        schedule=["1f1b", "zb-v"], devices=4, microbatches=[4, 8], chunks=[None, 3], costs=COSTS, skipped=left_out
    )
    first = next(rows)
    assert (first.schedule, first.microbatches) == ("1f1b", 4)
    settings = [(row.schedule, row.microbatches) for row in rows]
    assert settings == [("1f1b", 8), ("zb-v", 4), ("zb-v", 8)], settings
    assert len(left_out) == 4 and all(setting["chunks"] == 3 and reason for setting, reason in left_out)


def test_a_sweep_into_a_database():
    with tempfile.TemporaryDirectory() as folder:
        spec, results = os.path.join(folder, "spec.ini"), os.path.join(folder, "results.db")
        pathlib.Path(spec).write_text(
            "[sweep]\nschedule = 1f1b, zb-h1\ndevices = 4\nmicrobatches = 4, 8\ncosts = f=1ms,b=1ms,w=1ms,c=100us\n"
        )
        pipesim.run_sweep(spec, db=results)
        best = {row["microbatches"]: row for row in pipesim.best(results)}
        for m in (4, 8):
            both = pipesim.predict(schedule=["1f1b", "zb-h1"], devices=4, microbatches=m, costs=COSTS)
            assert best[m]["iteration_ns"] == min(row.iteration_ns for row in both)
        assert len(pipesim.pareto(results)) > 0
        try:
            picture = pipesim.plot("sweep", results, x="microbatches", y="iteration_ns", where=["schedule=1f1b"])
        except pipesim.Error as error:
            raise Skip(str(error)) from None  # no gnuplot
        assert "</svg>" in picture.svg


def test_timelines():
    timeline = pipesim.timeline("zb-h1", devices=2, microbatches=4, costs={**COSTS, "act": "2MiB", "wact": "1MiB"})
    assert timeline.data["format"].startswith("pipesim-timeline/")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "predicted.json")
        timeline.save(path)
        assert pipesim.Timeline.load(path).data == timeline.data
        same = pipesim.compare(path, path)
        assert len(same) > 0
        trace = os.path.join(folder, "zb-h1.trace.json")
        timeline.to_perfetto(trace)
        assert len(json.loads(pathlib.Path(trace).read_text())["traceEvents"]) > 16
        assert "ends with .trace.json" in refusal(timeline.to_perfetto, os.path.join(folder, "zb-h1.json"))[0]
        assert "no command" in refusal(pipesim.Timeline.load(path).to_perfetto, trace)[0]
        try:
            picture = timeline._repr_svg_()
        except pipesim.Error as error:
            raise Skip(str(error)) from None  # no gnuplot
        assert "</svg>" in pipesim.plot("timeline", timeline, path, title="twice").svg
        assert picture.startswith("<?xml") and "</svg>" in picture
        memory = os.path.join(folder, "memory.svg")
        timeline.plot(memory, kind="memory")
        assert "</svg>" in pathlib.Path(memory).read_text()


def test_costs_of_a_recorded_run():
    traces = TESTS / "fixtures" / "profiler"
    costs = pipesim.costs_from(traces, devices=2)
    assert costs.startswith("f="), costs
    setting = {"schedule": "1f1b", "devices": 2, "microbatches": 8}
    read = pipesim.predict(costs_from=traces, **setting)[0]
    given = pipesim.predict(costs=costs, **setting)[0]
    assert read.iteration_ns == given.iteration_ns
    both = pipesim.predict(costs_from=[traces, TESTS / "fixtures" / "timeline-measured.json"], **setting)
    assert "timeline-measured.json, 1 iteration" in both.about["costs"]
    assert len(pipesim.diagnose(traces)) > 0


def test_orders_for_pytorch():
    import pipesim.torch

    csv = pipesim.torch.order("zb-v", devices=2, microbatches=4, chunks=2)
    assert [pipesim.torch.stages_of(csv, rank) for rank in (0, 1)] == [[0, 3], [1, 2]]
    assert "2 ranks" in refusal(pipesim.torch.stages_of, csv, 2)[0]


def test_pages_of_notebooks():
    result = pipesim.predict(schedule=["1f1b", "zb-v"], devices=4, microbatches=8, costs=COSTS)
    page = result._repr_html_()
    assert page.count("<tr>") == 3 and "<th>iteration_ns</th>" in page
    if importlib.util.find_spec("pandas") is None:
        raise Skip("no pandas here")
    table = result.to_pandas()
    assert list(table.schedule) == [row.schedule for row in result] and table.iteration_ns.dtype == "int64"


def test_a_bar_of_progress():
    if importlib.util.find_spec("tqdm") is None:
        raise Skip("no tqdm here")
    rows = list(pipesim.sweep(progress=True, schedule=["1f1b", "zb-v"], devices=4, microbatches=8, costs=COSTS))
    assert len(rows) == 2


def main():
    checks = [(name[5:].replace("_", " "), f) for name, f in globals().items() if name.startswith("test_")]
    failed = False
    print(f"1..{len(checks)}")
    for number, (name, check) in enumerate(checks, 1):
        try:
            check()
        except Skip as why:
            print(f"ok {number} - {name} # SKIP {why}", flush=True)
        except Exception:
            failed = True
            print(f"not ok {number} - {name}", flush=True)
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="", flush=True)
        else:
            print(f"ok {number} - {name}", flush=True)
    return int(failed)


if __name__ == "__main__":
    os.chdir(TESTS)
    sys.exit(main())
