#!/usr/bin/env python3
"""write_notebook.py OUTPUT - runs the cells of docs/notebook.py, and writes a page or a notebook with what they show.

OUTPUT ends with .html or .ipynb, or is - for the page. A cell begins with "# %%"; "# %% [markdown]" begins a text.
PYTHONPATH, PIPESIM_CORE and PIPESIM say which pipesim runs, as for tests/python/test_package.py.
"""

import ast
import contextlib
import html
import io
import json
import os
import pathlib
import pprint
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
STYLE = """body { font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }
pre { background: #f4f4f4; padding: .7em; overflow-x: auto; font-size: 13px; line-height: 1.4; }
pre.output { background: none; border-left: 3px solid #ccc; }
div.output { overflow-x: auto; }
table { border-collapse: collapse; font-size: 12px; }
th, td { padding: .2em .6em; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
svg { max-width: 100%; height: auto; }"""

# A page leaves out of a picture: its prologue, white space between elements, and a font that many texts repeat.
BETWEEN = r'^<\?xml[^>]*>|<!DOCTYPE[^>]*>|(?<=>)\s+(?=<)| font-family="[^"]*"'


def cells(text):
    """Yields (is a text, lines) of each cell."""
    for part in re.split(r"^# %%", text, flags=re.M)[1:]:
        kind, _, body = part.partition("\n")
        if "[markdown]" in kind:
            yield True, re.sub(r"^# ?", "", body.strip(), flags=re.M)
        else:
            yield False, body.strip()


def execute(code, names):
    """What a cell prints, and the value of its last line if that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    value, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "notebook.py", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "notebook.py", "eval"), names)
    return printed.getvalue(), value


def shown(value):
    """The type and the text of what a notebook shows of a value."""
    for kind, method in [("image/svg+xml", "_repr_svg_"), ("text/html", "_repr_html_")]:
        if hasattr(value, method):
            return kind, getattr(value, method)()
    return "text/plain", pprint.pformat(value, width=110)


def paragraphs(text):
    """The part of Markdown that the notebook uses."""
    for block in text.split("\n\n"):
        level = len(block) - len(block.lstrip("#"))
        line = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(block.lstrip("# "), quote=False))
        yield f"<h{level}>{line}</h{level}>" if level else f"<p>{line}</p>"


def write_page(executed):
    yield '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>pipesim</title>'
    yield f"<style>\n{STYLE}\n</style>"
    for is_text, source, printed, output in executed:
        if is_text:
            yield from paragraphs(source)
            continue
        yield f"<pre>{html.escape(source)}</pre>"
        if printed:
            yield f'<pre class="output">{html.escape(printed)}</pre>'
        if output and output[0] == "text/plain":
            yield f'<pre class="output">{html.escape(output[1])}</pre>'
        elif output:
            yield f'<div class="output">{re.sub(BETWEEN, "", output[1])}</div>'
    yield "</html>"


def write_notebook(executed):
    found = []
    for number, (is_text, source, printed, output) in enumerate(executed):
        cell = {
            "cell_type": "markdown" if is_text else "code",
            "id": f"cell-{number}",
            "metadata": {},
            "source": source,
        }
        if not is_text:
            outputs = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
            if output:
                data = {output[0]: output[1]}
                outputs.append(
                    {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}
                )
            cell.update(execution_count=number, outputs=outputs)
        found.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": found}
    return json.dumps(notebook, indent=1)


def run_cells():
    executed, names = [], {"__name__": "notebook"}
    for is_text, source in cells((ROOT / "docs" / "notebook.py").read_text()):
        printed, value = ("", None) if is_text else execute(source, names)
        executed.append((is_text, source, printed, None if value is None else shown(value)))
    return executed


if __name__ == "__main__":
    output = sys.argv[1]
    here = os.getcwd()
    os.chdir(ROOT)
    executed = run_cells()
    text = write_notebook(executed) if output.endswith(".ipynb") else "\n".join(write_page(executed))
    text = text.replace(f"{ROOT}/", "")  # pictures name files by their whole path
    if output == "-":
        print(text)
    else:
        pathlib.Path(here, output).write_text(text + "\n")
