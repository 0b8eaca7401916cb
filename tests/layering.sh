#!/bin/sh
# layering.sh - fails on an include that crosses the layers.
#
#   tests/layering.sh [ROOT]       checks the tree at ROOT (default: the one this script lies in)
#   tests/layering.sh --self-test  checks the check: plants one wrong include of each sort in a copy and wants it found
#
# CC names the compiler that must accept each public header alone, and in any order with the others.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)

# Public headers in data-flow order, each with its room: a header may include only those before it.
headers='base:base option:base philox:base model:model cluster:model work:model costs:model costdb:store schedule:schedule
         program:program simulate:simulate bound:schedule answer:answer timeline:observe formats:schedule observe:observe search:search
         partition:search setting:setting sweep:plan plan:plan pipesim:plan device:exec transport:exec'

# The rooms of sim in the same order: a file may include headers of its own room and of earlier ones.
rooms='base model store schedule program simulate answer observe search setting plan cli'

# Prints "FILE:LINE:HEADER" of every include under the given paths.
includes ()
{
  find "$@" -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) | sort | xargs awk '/^[ \t]*#[ \t]*include/ {
    header = $0; sub (/^[^<"]*[<"]/, "", header); sub (/[>"].*$/, "", header); print FILENAME ":" FNR ":" header }'
}

# forbid MESSAGE HEADER-PATTERN ALLOWED-FILE-PATTERN: an include of such a header in any other file is wrong.
forbid ()
{
  awk -F: -v message="$1" -v header="$2" -v allowed="$3" \
    '$3 ~ header && $1 !~ allowed { print $1 ":" $2 ": includes " $3 ": " message }' "$work/includes"
}

check_public_headers ()
{
  for path in include/pipesim/*.h; do
    name=$(basename "$path" .h)
    case " $(echo $headers) " in
      *" $name:"*) ;;
      *) echo "$path:1: has no place in the order of public headers; add it to tests/layering.sh" ;;
    esac
  done
  awk -F: -v order="$(echo $headers)" '
    BEGIN { n = split (order, names, " "); for (i = 1; i <= n; i++) { sub (/:.*/, "", names[i]); rank[names[i]] = i } }
    $1 !~ /^include\/pipesim\// { next }
    $3 ~ /^pipesim\// {
      own = $1; sub (/.*\//, "", own); sub (/\.h$/, "", own)
      used = $3; sub (/.*\//, "", used); sub (/\.h$/, "", used)
      if (!(used in rank) || rank[used] >= rank[own])
        print $1 ":" $2 ": includes " $3 ": not an earlier public header"
      next
    }
    $3 !~ /^(glib\.h|gio\/gio\.h|gmodule\.h|std(io|int|bool|def|arg)\.h)$/ {
      print $1 ":" $2 ": includes " $3 ": public headers use GLib and earlier public headers only"
    }' "$work/includes"
}

check_layers ()
{
  forbid "no ../ includes" '^\\.\\./|/\\.\\./' '^$'
  forbid "SQLite belongs to sim/store/database*.c" '^sqlite3' '^sim/store/database[^/]*\\.[ch]$'
  forbid "CUDA belongs under exec/train/cuda and exec/run/nccl" '^(cu(da|blas)[^/]*|cuda/.*)\\.h$' '^(exec/(train/cuda|run/nccl)/|tests/cuda/)'
  forbid "NCCL belongs under exec/run/nccl" '^nccl' '^exec/run/nccl/'
  forbid "MPI belongs under exec/run/mpi" '^mpi' '^(exec/run/mpi/|tests/(bench/bench|exec/test)-mpi[^/]*\\.c$)'
  forbid "json-glib belongs to the tests; sim/base reads JSON" '^json-glib' '^tests/'
  forbid "BLAS belongs under exec/train/cpu" '^(cblas|openblas|lapack)' '^exec/train/cpu/'
  forbid "hwloc belongs under exec" '^hwloc' '^exec/'
  awk -F: '$1 ~ /^sim\// && $3 ~ /(^|\/)(exec|calib|plots)\// {
    print $1 ":" $2 ": includes " $3 ": sim never includes exec, calib or plots" }' "$work/includes"
  awk -F: '$1 ~ /^sim\// && $3 ~ /^pipesim\/(device|transport)\.h$/ {
    print $1 ":" $2 ": includes " $3 ": sim knows no devices and transports" }' "$work/includes"
  awk -F: '$1 ~ /^exec\// && $3 ~ /^pipesim\/simulate\.h$/ {
    print $1 ":" $2 ": includes " $3 ": the executor never calls the simulator" }' "$work/includes"
  awk -F: '$1 ~ /^sim\/schedule\/families/ && $3 ~ /^pipesim\/(program|simulate|timeline|setting)\.h$/ {
    print $1 ":" $2 ": includes " $3 ": families never call the simulator" }' "$work/includes"
}

check_rooms ()
{
  { find sim -name '*.c' -o -name '*.h'; echo :; cat "$work/includes"; } | awk -F: -v order="$rooms" -v headers="$(echo $headers)" '
    function room_of (path) { return split (path, part, "/") > 2 ? part[2] : "." }
    function name_of (path) { sub (/.*\//, "", path); return path }
    BEGIN { n = split (order, rooms, " "); for (i = 1; i <= n; i++) rank[rooms[i]] = i
            n = split (headers, names, " "); for (i = 1; i <= n; i++) { split (names[i], pair, ":"); home[pair[1] ".h"] = pair[2] } }
    /^:/ { listed = 1; next }
    !listed { room[name_of($1)] = room_of($1)
              if (!(room_of($1) in rank)) print $1 ":1: has no room in the order of tests/layering.sh"; next }
    $1 ~ /^sim\// {
      used = $3 ~ /^pipesim\// ? home[name_of($3)] : room[name_of($3)]
      if (used in rank && rank[used] > rank[room_of($1)])
        print $1 ":" $2 ": includes " $3 ": the room " used " comes later"
    }'
}

# gnuplot has one caller.
check_gnuplot ()
{
  grep -rnE 'popen|g_spawn|g_subprocess|execv|system \(' --include='*.c' sim exec calib plots 2>/dev/null \
    | grep -vE '^(plots/gnuplot\.c|sim/cli/commands\.c):' | sed 's/$/  <- only plots\/gnuplot.c and sim\/cli\/commands.c start programs/' || true
}

# Each public header stands first once, before all others: so it compiles alone, and goes before each that it does not include.
check_together ()
{
  for path in ${first:-include/pipesim/*.h}; do
    { echo "$path"; ls include/pipesim/*.h; } | sed 's,include/,#include <,; s/$/>/' >"$work/headers.c"
    ${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -Iinclude $glib_flags "$work/headers.c" 2>"$work/log" \
      || echo "$path:1: does not compile before all others: $(grep -m 1 error "$work/log")"
  done | awk '{ error = $0; sub (/.*all others: /, "", error) } !seen[error]++'
}

# pipesim.h has every header of libpipesim.
check_whole ()
{
  for name in ${headers%% pipesim*}; do
    name=${name%:*}
    grep -qF "#include <pipesim/$name.h>" include/pipesim/pipesim.h || echo "include/pipesim/pipesim.h:1: lacks $name.h"
  done
}

# The tour of docs/tour.md names all of them in that order.
check_tour ()
{
  sed -n '/^# A tour/,/^## /p' docs/tour.md | grep -E '^([0-9]+\.|  ) ' | grep -oE '`[a-z-]+\.h`' | tr -d '`' \
    | sed 's/\.h$//' | awk '!seen[$0]++' >"$work/tour"
  printf '%s\n' $headers | sed 's/:.*//' | diff - "$work/tour" | sed -n 's/^< \(.*\)/include\/pipesim\/\1.h:1: is not in its place in docs\/tour.md/p'
}

check_tree ()
{
  cd "$1"
  includes include sim exec calib plots tests >"$work/includes"
  { check_public_headers; check_layers; check_rooms; check_gnuplot; check_whole; check_together; check_tour; } >"$work/found"
  cat "$work/found"
  [ ! -s "$work/found" ]
}

# plant FILE LINE: the tree must fail with that line put first into FILE, and the message must name FILE.
plant ()
{
  cp "$work/tree/$1" "$work/saved"
  { echo "$2"; cat "$work/saved"; } >"$work/tree/$1"
  # Of the public headers only the touched one needs compiling.
  case $1 in include/*) first=$1 ;; *) first=include/pipesim/base.h ;; esac
  if (check_tree "$work/tree") >"$work/out" 2>&1; then
    echo "layering.sh did not notice '$2' in $1"
    failed=1
  elif ! grep -q "^$1:" "$work/out"; then
    echo "layering.sh noticed '$2' in $1 without naming it: $(cat "$work/out")"
    failed=1
  fi
  cp "$work/saved" "$work/tree/$1"
}

self_test ()
{
  failed=0
  mkdir "$work/tree"
  (cd "$here" && cp -r include sim exec calib plots tests docs "$work/tree")
  plant include/pipesim/base.h '#include <pipesim/costs.h>'
  plant include/pipesim/costs.h '#include <sqlite3.h>'
  plant include/pipesim/option.h '#include <json-glib/json-glib.h>'
  plant include/pipesim/costs.h 'undeclared_type forgotten;'
  plant include/pipesim/simulate.h 'enum { PS_USE_STATE };'
  plant include/pipesim/costs.h '#define ps_timeline_new(x) 0'
  plant sim/base/base.c '#include <sqlite3.h>'
  plant sim/base/base.c '#include "../exec/run/runtime.h"'
  plant sim/base/base.c '#include "exec/run/runtime.h"'
  plant sim/base/base.c '  #  include <pipesim/device.h>'
  plant sim/schedule/families/loop.c '#include <pipesim/simulate.h>'
  plant sim/schedule/families/loop.c '#include <pipesim/search.h>'
  plant sim/model/fit.c '#include "search/order.h"'
  plant sim/base/base.c '#include <json-glib/json-glib.h>'
  plant sim/simulate/simulate.c '#include <cblas.h>'
  plant exec/run/runtime.c '#include <cblas.h>'
  plant exec/run/runtime.c '#include <pipesim/simulate.h>'
  plant exec/train/devices.c '#include <cuda_runtime.h>'
  plant exec/train/devices.c '#include <mpi.h>'
  plant sim/model/costs.c '#include <hwloc.h>'
  plant calib/main.c 'static int draw (void) { return popen ("gnuplot", "w") != 0; }'
  sed -i 's/`program\.h`/program/' "$work/tree/docs/tour.md"
  first=include/pipesim/base.h
  (check_tree "$work/tree") 2>&1 | grep -q '^include/pipesim/program\.h:1: is not in its place' \
    || { echo "layering.sh did not notice that the tour leaves out program.h"; failed=1; }
  return $failed
}

first=
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
glib_flags=$(pkg-config --cflags glib-2.0)
if [ "${1:-}" = --self-test ]; then
  self_test
else
  check_tree "${1:-$here}"
fi
