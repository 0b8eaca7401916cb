#!/bin/sh
# install.sh - docs/example.c builds with what pkg-config says about installed headers and library, and prints the right
# times; the libraries define no global name without ps_.
set -u
sources=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/lib.sh"
build=$(cd "$PIPESIM_BINDIR" && pwd)

# other_names FILE...: the global names that do not begin with ps_. Sanitizers add names that begin with two underscores.
other_names ()
{
  nm -g --defined-only "$@" 2>&1 | awk 'NF && !/:$/ && $NF !~ /^(ps_|__)/ { print $NF }'
}

others=$(other_names "$build/libpipesim.a" "$build/libpipesim-exec.a")
result "global names begin with ps_" ${others:+"$others"}
echo 'int planted; int ps_planted; static int own; int *ps_own = &own;' >planted.c
${CC:-cc} -c planted.c
others=$(other_names planted.o)
if [ "$others" = planted ]; then set --; else set -- "found: $others"; fi
result "a global name without ps_ is found" "$@"

if ! command -v pkg-config >/dev/null; then
  skip install "no pkg-config"
  finish
fi

# As `meson install` lays it out, without what else it would install.
mkdir -p inst/lib/pkgconfig
ln -s "$sources/include" inst/include
ln -s "$build/libpipesim.a" inst/lib/libpipesim.a
sed "s|^prefix=.*|prefix=$PWD/inst|; s|^libdir=.*|libdir=$PWD/inst/lib|" "$build/meson-private/pipesim.pc" >inst/lib/pkgconfig/pipesim.pc
flags=$(PKG_CONFIG_PATH=$PWD/inst/lib/pkgconfig pkg-config --cflags --libs --static pipesim) || flags=

if [ ! "$flags" ]; then
  result pkg-config "knows no pipesim"
elif nm -A inst/lib/libpipesim.a 2>/dev/null | grep -q '__asan_\|__tsan_\|__ubsan_\|__gcov_'; then
  skip install "the library is built with a sanitizer, which pkg-config does not say"
elif ! ${CC:-cc} "$sources/docs/example.c" -o example $flags >"$work/log" 2>&1; then
  result "build the example" "$(head -20 "$work/log")"
else
  result "build the example"
  # (m + p - 1) (F + B + W) + 2 (p - 1) c = 33 + 0.6 ms for gpipe; a device of 1f1b holds p microbatches at most.
  ./example >"$work/printed"
  for line in 'gpipe  33.6 ms, device 0 holds 16 MiB at its peak' '1f1b   .*, device 0 holds 8 MiB at its peak' 'zb-h1  '; do
    if grep -q "^$line" "$work/printed"; then result "$line"; else result "$line" "$(cat "$work/printed")"; fi
  done
fi
finish
