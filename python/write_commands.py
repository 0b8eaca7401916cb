#!/usr/bin/env python3
"""write_commands.py PIPESIM - writes pipesim/_commands.py from what the program prints with --help.

A test compares the file with what this prints.
"""

import keyword
import re
import subprocess
import sys
import textwrap

# Command, function, the class of its rows, and the arguments before the options.
COMMANDS = [
    ("predict", "predict", "Prediction", []),
    ("search", "search", "SearchResult", []),
    ("plan", "plan", "Plan", []),
    ("advise", "advise", "Row", ["launch"]),
    ("partition", "partition", "Row", []),
    ("compare", "compare", "Row", ["first", "second"]),
    ("diagnose", "diagnose", "Row", ["*traces"]),
    ("sweep", "run_sweep", None, ["spec"]),
    ("pareto", "pareto", "Row", ["results"]),
    ("best", "best", "Row", ["results"]),
    ("sensitivity", "sensitivity", "Row", ["results"]),
    ("models", "models", "Row", []),
    ("clusters", "clusters", "Row", []),
]
# Options that make no sense here: JSON is what functions read, and the rest is about printed tables.
LEFT_OUT = {"json", "columns", "wide", "help", "print-command"}


def read_help(pipesim, command):
    """The summary, and [(name, argument, help)] of the options."""
    text = subprocess.run(
        [pipesim, command, "--help"], capture_output=True, text=True, check=True, env={"COLUMNS": "1000"}
    ).stdout
    lines = text.splitlines()
    options = []
    for line in lines:
        found = re.match(r"^  (?:-\w, )?--([a-z0-9-]+)(=\S+)?(?:\s+(.*))?$", line)
        if found:
            options.append([found[1], (found[2] or "").strip("="), [found[3]] if found[3] else []])
        elif options and line.startswith(" " * 20):
            options[-1][2].append(line.strip())
        elif line.startswith("Examples:"):
            break
    # A command's own option stands before the shared one that it replaces.
    own = {name: (name, argument, " ".join(text)) for name, argument, text in reversed(options) if name not in LEFT_OUT}
    return " ".join(lines[2 : lines.index("", 2)]), list(reversed(own.values()))


def joiner(argument, text):
    if "may be repeated" in text:
        return ""
    return ":" if "[:" in argument or "[-" in argument else ","


def argument_of(option):
    """--from becomes from_, as Python's own words are no names."""
    name = option.replace("-", "_")
    return name + "_" if keyword.iskeyword(name) else name


def write_function(command, function, kind, arguments, summary, options):
    """The lines of one function, after the table of how its options join lists."""
    names = [argument_of(name) for name, _, _ in options]
    table = f"_{function.upper()}"
    if options:
        yield f"{table}: dict[str, str] = {{"
        for name, (_, argument, text) in zip(names, options):
            yield f'    "{name}": "{joiner(argument, text)}",'
        yield "}"
    else:
        yield f"{table}: dict[str, str] = {{}}"
    signature = options or arguments
    yield from ["", "", f"def {function}(" + ("" if signature else f") -> Result[{kind}]:")]
    for argument in arguments:
        yield f"    {argument}: Value,"
    if options and not any(argument.startswith("*") for argument in arguments):
        yield "    *,"
    for name, (_, argument, _) in zip(names, options):
        yield f"    {name}: {'Value' if argument else 'Flag'} = None,"
    if signature:
        yield f") -> {'Result[' + kind + ']' if kind else 'str'}:"
    if options:
        yield from textwrap.wrap(f'"""{summary}', 116, initial_indent="    ", subsequent_indent="    ")
        yield ""
        for name, (_, _, text) in zip(names, options):
            yield from textwrap.wrap(f"{name}: {text}", 112, initial_indent="    ", subsequent_indent="        ")
        yield '    """'
    else:
        yield f'    """{summary}"""'
    yield f"    options = _words({table}, locals())"
    parts = (f"*_texts({a[1:]})" if a.startswith("*") else f"*_texts([{a}])" for a in arguments)
    words = f"[{', '.join(parts)}]"
    if kind:
        yield f'    return _ask({kind}, "{command}", {words}, options)'
    else:
        yield f'    return run("{command}", *{words}, *options)[1]'


def write(pipesim):
    yield '"""The commands of pipesim; write_commands.py writes this file from the options of the program."""'
    yield from ["", "from __future__ import annotations", ""]
    yield "from . import Flag, Plan, Prediction, Result, Row, SearchResult, Value, _ask, _texts, _words, run"
    for i, (command, function, kind, arguments) in enumerate(COMMANDS):
        yield from ["", ""] if i > 0 else [""]
        yield from write_function(command, function, kind, arguments, *read_help(pipesim, command))


if __name__ == "__main__":
    print("\n".join(write(sys.argv[1])))
