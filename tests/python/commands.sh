#!/bin/sh
# commands.sh - python/pipesim/_commands.py has the options of the program as it is now; ruff and mypy find nothing in the package.
# PIPESIM_BINDIR=build G_TEST_SRCDIR=tests tests/python/commands.sh --update writes the file anew.
set -u
. "$(dirname "$0")/../cli/lib.sh"
root=$G_TEST_SRCDIR/..
export PYTHONDONTWRITEBYTECODE=1 RUFF_NO_CACHE=true MYPY_CACHE_DIR="$work/mypy"

python3 "$root/python/write_commands.py" "$(command -v pipesim)" >commands.py || exit 1
if [ "${1:-}" = --update ]; then
  cat commands.py >"$root/python/pipesim/_commands.py"
  exit
fi
step '_commands.py is what write_commands.py prints' diff -u "$root/python/pipesim/_commands.py" commands.py
# tool NAME ARGUMENT...
tool ()
{
  if command -v "$1" >/dev/null; then step "$*" "$@"; else skip "$1" "no $1 here"; fi
}
tool ruff check --config "$root/pyproject.toml" "$root/python" "$root/tests/python" "$root/docs/notebook.py" "$root/tests/pytorch/package.py"
tool ruff format --check --config "$root/pyproject.toml" "$root/python" "$root/tests/python" "$root/docs/notebook.py" "$root/tests/pytorch/package.py"
tool mypy --strict --config-file "$root/pyproject.toml" "$root/python/pipesim"
finish
