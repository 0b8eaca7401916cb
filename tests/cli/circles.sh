#!/bin/sh
# circles.sh - no files of a library, module or program use each other's names in a circle.
set -u
build=$(cd "$PIPESIM_BINDIR" && pwd)
. "$(dirname "$0")/lib.sh"

# circles FILE...: the files of these archives or objects that stand in circles.
circles ()
{
  nm -AP "$@" 2>"$work/log" | awk '
    $3 ~ /^[TDBRC]$/ { home[$2] = $1 }
    $3 == "U" { use[++n] = $1 " " $2 }
    END { for (i = 1; i <= n; i++) { split (use[i], pair, " "); if (pair[2] in home) print pair[1], home[pair[2]] } }' \
    | tsort 2>&1 >"$work/order" | sed -n 's/^tsort: \(.*\):$/\1/p' | grep -v '^-: ' | sort -u
}

cd "$build" || exit 1
for part in libpipesim.a libpipesim-exec.a pipesim pipesim-exec pipesim-calib pipesim-plot pipesim-report pipesim-diagnose \
    pipesim-cuda.so pipesim-nccl.so tests/cuda/emulation/pipesim-nccl.so pipesim-mpi.so; do
  case $part in
    *.a) set -- "$part" ;;
    pipesim-calib) set -- "$part.p"/*.o libpipesim-calib.a ;;
    pipesim-plot | pipesim-report | pipesim-diagnose) set -- "$part.p"/*.o libpipesim-plots.a ;;
    *) set -- "$part.p"/*.o ;;
  esac
  if [ -e "$1" ]; then
    found=$(circles "$@")
    result "no circle in $part" ${found:+"$found"}
  else
    skip "no circle in $part" "not built"
  fi
done

cd "$work/folder" || exit 1
echo 'int one (void); int two (void) { return one (); }' >two.c
echo 'int two (void); int one (void) { return two (); }' >one.c
echo 'int one (void); int main (void) { return one (); }' >main.c
${CC:-cc} -c one.c two.c main.c
found=$(circles one.o two.o main.o | tr '\n' ' ')
if [ "$found" = 'one.o two.o ' ]; then set --; else set -- "found: $found"; fi
result "a circle of two files is found" "$@"
finish
