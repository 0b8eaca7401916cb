#!/bin/sh
# check.sh ACCURACY: the program on a few published rows gives the figures in expected.txt, byte by byte. After a wanted change:
#   build/tests/accuracy/accuracy tests/fixtures/accuracy >tests/accuracy/expected.txt
set -eu
here=$(cd "$(dirname "$0")" && pwd)
"$1" "$here/../fixtures/accuracy" | diff "$here/expected.txt" -
