#!/usr/bin/env python3
"""notebook.py - runs the cells of docs/notebook.py; docs/notebook.html shows them with what they print.

Pictures are drawn, and are not compared: they differ between releases of gnuplot. --update writes the page anew.
"""

import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "notebook.html"


def texts(page):
    return re.sub(r"<svg.*?</svg>", "<svg>", page, flags=re.S).splitlines()


def main():
    if shutil.which("gnuplot") is None:
        print("1..0 # SKIP no gnuplot here")
        return 0
    command = [sys.executable, ROOT / "python" / "write_notebook.py", PAGE if sys.argv[1:] == ["--update"] else "-"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(f"1..2\n{'not ' if done.returncode else ''}ok 1 - all cells run")
    differences = list(difflib.unified_diff(texts(PAGE.read_text()), texts(done.stdout), lineterm="", n=0))
    if "--update" in sys.argv:
        return done.returncode
    print(f"{'not ' if differences else ''}ok 2 - the page shows what they show now")
    print("".join(f"# {line[:300]}\n" for line in differences[:40]), end="")
    return int(done.returncode != 0 or len(differences) > 0)


if __name__ == "__main__":
    os.environ.pop("COLUMNS", None)
    sys.exit(main())
