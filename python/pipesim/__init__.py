"""pipesim for Python: the commands of the program pipesim as functions.

Arguments are the options of the program with underscores, and results are what it prints with --json:

    import pipesim

    for row in pipesim.predict(schedule=["1f1b", "zb-v"], devices=4, microbatches=8, costs="f=1ms,b=1ms,w=1ms"):
        print(row.schedule, row.iteration_ns, row.bubble_ratio)

A list is written as the option takes lists. Times are integer nanoseconds, sizes are integer bytes. Errors are
pipesim.Error with the program's one line. Nothing is computed in Python.
"""

from __future__ import annotations

import ctypes
import html
import itertools
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, Generic, TypeVar, Union

__all__ = [
    "Error",
    "Picture",
    "Plan",
    "Prediction",
    "Result",
    "Row",
    "SearchResult",
    "Timeline",
    "advise",
    "best",
    "clusters",
    "compare",
    "costs_from",
    "diagnose",
    "models",
    "pareto",
    "partition",
    "plan",
    "plot",
    "predict",
    "run",
    "run_sweep",
    "search",
    "sensitivity",
    "sweep",
    "timeline",
    "version",
]

Value = Union[str, int, float, "os.PathLike[str]", Sequence[Any], Mapping[str, Any], None]
Flag = Union[bool, None]


class Error(Exception):
    """What a command refuses or fails at. exit_code: 1 failed, 2 wrong usage."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


_NOT_HERE = -1  # pipesim_run's code for what only a process can answer


def _load_core() -> ctypes.CDLL:
    path = os.environ.get("PIPESIM_CORE") or str(pathlib.Path(__file__).with_name("libpipesim-core.so"))
    if not os.path.exists(path):
        raise ImportError(f"{path}: no such file; a build has it in python/, for PIPESIM_CORE in the environment")
    core = ctypes.CDLL(path)
    core.pipesim_free.argtypes = [ctypes.c_void_p]
    core.pipesim_free.restype = None
    return core


_core = _load_core()


def _find_program() -> str:
    beside = os.path.join(os.path.dirname(sys.executable), "pipesim")
    program = os.environ.get("PIPESIM") or (beside if os.path.exists(beside) else shutil.which("pipesim"))
    if program is None:
        raise Error("the program pipesim is not on PATH")
    return program


def _call(words: Sequence[str]) -> tuple[int, str, str]:
    argv = (ctypes.c_char_p * (len(words) + 2))(b"pipesim", *map(os.fsencode, words), None)
    output, errors = ctypes.c_void_p(), ctypes.c_void_p()
    code: int = _core.pipesim_run(len(words) + 1, argv, ctypes.byref(output), ctypes.byref(errors))
    texts = [ctypes.string_at(text.value or 0).decode(errors="surrogateescape") for text in (output, errors)]
    _core.pipesim_free(output)
    _core.pipesim_free(errors)
    return code, texts[0], texts[1]


def run(*words: str) -> tuple[str, str]:
    """Runs a command line, run("predict", "-s", "1f1b", ...): what it prints to standard output, and to standard error.

    Exit code 3 (outside the tolerance asked for) is no error.
    """
    code, output, errors = _call(words)
    if code == _NOT_HERE:
        done = subprocess.run([_find_program(), *words], capture_output=True, text=True, check=False)
        code, output, errors = done.returncode, done.stdout, done.stderr
    if code not in (0, 3):
        lines = errors.strip().splitlines()
        raise Error(lines[-1] if lines else f"pipesim {' '.join(words)}: exit code {code}", code)
    return output, errors


def version() -> str:
    """The version of pipesim, as "0.1.0"."""
    return run("--version")[0].split()[1]


def _text(value: object, separator: str) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_text(item, ':')}" for key, item in value.items())
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return separator.join(_text(item, ":") for item in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _texts(values: Sequence[Value]) -> list[str]:
    return [_text(value, ",") for value in values]


def _words(options: Mapping[str, str], values: Mapping[str, object]) -> list[str]:
    """The command line of the values that are options. options: what joins a list; "": each item is an option."""
    words: list[str] = []
    for name, value in values.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if name not in options or value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif options[name] == "" and isinstance(value, (list, tuple)):
            for item in value:
                words += [f"{option}={_text(item, ':')}"]
        else:
            words.append(f"{option}={_text(value, options[name] or ',')}")
    return words


@dataclass(frozen=True)
class Row(Mapping[str, Any]):
    """One result: the values that the program prints, by their JSON keys; row.key is row["key"]."""

    values_: dict[str, Any] = field(repr=False)

    def __getitem__(self, key: str) -> Any:
        return self.values_[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_") or key not in self.values_:
            raise AttributeError(key)
        return self.values_[key]

    def __repr__(self) -> str:
        shown = {key: value for key, value in self.values_.items() if not isinstance(value, list) and value is not None}
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in shown.items())})"


@dataclass(frozen=True, repr=False)
class Prediction(Row):
    """One schedule as predict simulates it. feasible: within the memory limit; None: there is none."""

    schedule: str
    devices: int
    microbatches: int
    chunks: int
    makespan_ns: int
    max_span_ns: int
    iteration_ns: int
    bubble_ratio: float
    bubble_ratio_span: float
    lower_bound_ns: int
    peak_memory_bytes: int
    feasible: bool | None
    devices_detail: list[dict[str, int]]


@dataclass(frozen=True, repr=False)
class SearchResult(Row):
    """The best schedule that search found. gap: how far above the best possible one it may be, as a ratio."""

    schedule: str
    devices: int
    microbatches: int
    chunks: int
    iteration_ns: int
    bubble_ratio: float
    lower_bound_ns: int
    gap: float
    proved_optimal: bool
    peak_memory_bytes: int
    feasible: bool
    order: list[list[str]]


@dataclass(frozen=True, repr=False)
class Plan(Row):
    """One setting of plan, the fastest first. command: the command line that predicts it; options: for predict()."""

    rank: int
    schedule: str
    devices: int
    tensor: int
    replicas: int
    microbatch_size: int
    microbatches: int
    chunks: int
    step_ns: int
    tokens_per_second: float
    peak_memory_bytes: int
    command: str

    @property
    def options(self) -> dict[str, Any]:
        letters = {"-p": "--devices", "-m": "--microbatches", "-v": "--chunks"}
        found: dict[str, Any] = {}
        name = ""
        for word in shlex.split(self.command)[2:]:
            if word.startswith("-"):
                name = letters.get(word, word)[2:].replace("-", "_")
                found[name] = True
            else:
                found[name] = int(word) if word.isdigit() else word
        return found


R = TypeVar("R", bound=Row)


@dataclass(frozen=True)
class Result(Sequence[R], Generic[R]):
    """The rows of an answer. about: what the program says of all of them; notes: what it says on standard error."""

    rows: list[R]
    about: dict[str, Any]
    notes: str = field(default="", repr=False)
    command: str = field(default="", repr=False)

    def __getitem__(self, place: Any) -> Any:
        return self.rows[place]

    def __len__(self) -> int:
        return len(self.rows)

    def to_pandas(self) -> Any:
        """A pandas.DataFrame, one row for each; needs pandas."""
        import pandas

        return pandas.DataFrame([dict(row) for row in self.rows])

    def _repr_html_(self) -> str:
        keys = [key for key in (self.rows[0] if self.rows else ()) if not isinstance(self.rows[0][key], (list, dict))]
        heads = "".join(f"<th>{html.escape(key)}</th>" for key in keys)
        lines = ("".join(f"<td>{html.escape(str(row.get(key)))}</td>" for key in keys) for row in self.rows)
        return f"<table><tr>{heads}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _ask(kind: type[R], command: str, arguments: Sequence[str], options: Sequence[str]) -> Result[R]:
    words = [command, *arguments, *options, "--json"]
    output, errors = run(*words)
    try:
        answer = json.loads(output)
        found = answer.pop("results")
    except (ValueError, KeyError):
        raise Error(f"{command}: it prints no rows with these options; pipesim.run returns its text", 2) from None
    names = [f.name for f in fields(kind)][1:]
    rows = [kind(row, *(row.get(name) for name in names)) for row in found]
    return Result(rows, answer, errors.strip(), "pipesim " + " ".join(words))


@dataclass(frozen=True)
class Timeline:
    """Start and end of every op and transfer of an iteration, predicted or measured: what a file of pipesim holds."""

    text: str = field(repr=False)
    command: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Timeline:
        """A timeline from a file that predict or exec wrote."""
        return cls(pathlib.Path(path).read_text())

    @property
    def data(self) -> dict[str, Any]:
        """The timeline's JSON."""
        loaded: dict[str, Any] = json.loads(self.text)
        return loaded

    def save(self, path: str | os.PathLike[str]) -> None:
        pathlib.Path(path).write_text(self.text)

    def plot(self, path: str | os.PathLike[str], kind: str = "timeline") -> None:
        """Draws the picture; kind: timeline or memory."""
        plot(kind, self, output=path)

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace that Perfetto and chrome://tracing open; path ends with .trace.json or .trace.json.gz."""
        if not self.command:
            raise Error("a timeline from a file has no command that writes its trace", 2)
        if not os.fspath(path).endswith((".trace.json", ".trace.json.gz")):
            raise Error(f"{os.fspath(path)}: give a name that ends with .trace.json or .trace.json.gz", 2)
        run(*self.command, "-o", os.fspath(path))

    def _repr_svg_(self) -> str:
        return plot("timeline", self).svg


@dataclass(frozen=True)
class Picture:
    """An SVG, which a notebook shows."""

    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg


def plot(kind: str, *files: str | os.PathLike[str] | Timeline, **options: Any) -> Picture:
    """Draws timelines, sweeps and costs; kind and options are those of pipesim plot.

    output: a file for the picture, whose ending says its format.
    """
    with tempfile.TemporaryDirectory() as folder:
        paths: list[str] = []
        for file in files:
            if isinstance(file, Timeline):
                paths.append(os.path.join(folder, f"{len(paths)}.json"))
                file.save(paths[-1])
            else:
                paths.append(os.fspath(file))
        picture = os.fspath(options.pop("output", None) or os.path.join(folder, "picture.svg"))
        joiners = {**dict.fromkeys(options, ","), "where": ""}
        run("plot", kind, *paths, *_words(joiners, options), "-o", picture)
        return Picture(pathlib.Path(picture).read_text() if picture.endswith(".svg") else "")


# The commands follow the classes that they return.
from ._commands import (  # noqa: E402
    _PREDICT,
    advise,
    best,
    clusters,
    compare,
    diagnose,
    models,
    pareto,
    partition,
    plan,
    predict,
    run_sweep,
    search,
    sensitivity,
)


def _predict_words(**options: Any) -> list[str]:
    unknown = [name for name in options if name not in _PREDICT]
    if unknown:
        raise TypeError(f"predict has no option {unknown[0]}")
    return _words(_PREDICT, options)


def timeline(schedule: str, **options: Any) -> Timeline:
    """The timeline of one schedule; options are those of predict."""
    words = ("predict", *_predict_words(schedule=schedule, **options))
    return Timeline(run(*words, "-o", "-")[0], words)


def costs_from(path: str | os.PathLike[str], **options: Any) -> str:
    """The costs of a recorded run as a text for costs=; path: a trace, or a folder with one of each rank."""
    return run("predict", *_predict_words(costs_from=path, print_costs=True, **options))[0].strip()


def sweep(
    progress: bool = False, skipped: list[tuple[dict[str, Any], str]] | None = None, **options: Any
) -> Iterator[Prediction]:
    """Predicts all combinations of the values that are given as lists, one row for each in turn.

    Settings that are impossible are left out; they go to `skipped`, with the reason. progress: shows a bar; needs tqdm.
    run_sweep predicts what a spec says into a database, by all cores.
    """
    names = list(options)
    lists = [list(value) if isinstance(value, (list, tuple, range)) else [value] for value in options.values()]
    points: Any = itertools.product(*lists)
    if progress:
        from tqdm.auto import tqdm

        total = 1
        for values in lists:
            total *= len(values)
        points = tqdm(points, total=total)
    for point in points:
        setting = dict(zip(names, point))
        try:
            yield from predict(**setting)
        except Error as error:
            if skipped is not None:
                skipped.append((setting, str(error)))
