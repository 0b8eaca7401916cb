#!/bin/sh
# install.sh - what `meson install` puts where: pkg-config finds the library, docs/example.c builds with it and prints the right times,
# programs run and find their modules; the libraries define no global name without ps_.
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

if ! command -v pkg-config >/dev/null || ! command -v meson >/dev/null; then
  skip install "no pkg-config or no meson"
  finish
fi

# pkg-config gets all folders that it searches, below $PWD and as they are.
DESTDIR=$PWD meson install -C "$build" --no-rebuild --quiet >"$work/log" 2>&1 || result "meson install" "$(tail -5 "$work/log")"
inst=$PWD$(sed -n 's/^prefix=//p' "$build/meson-private/pipesim.pc")
find . -name pipesim.pc -exec sed -i "s|^prefix=.*|prefix=$inst|" {} +
searched=$(pkg-config --variable pc_path pkg-config)
flags=$(PKG_CONFIG_LIBDIR=$PWD$(echo "$searched" | sed "s|:|:$PWD|g"):$searched \
  pkg-config --cflags --libs --static pipesim 2>"$work/log") || flags=
said=$("$inst/bin/pipesim" schedule list 2>&1)
case $said in
  *1f1b*) result "the installed program runs" ;;
  *) result "the installed program runs" "$said" ;;
esac
if [ -f "$build/pipesim-mpi.so" ]; then
  said=$(env -u PIPESIM_MODULE_DIR "$inst/bin/pipesim" exec -s gpipe -p 1 -m 1 --device null --transport mpi --steps 1 2>&1)
  case $said in
    *'there is no pipesim-mpi.so'*) result "and finds its modules" "$said" ;;
    *) result "and finds its modules" ;;
  esac
fi

if [ ! "$flags" ]; then
  result "pkg-config finds the library" "$(cat "$work/log")" "$(find . -name pipesim.pc)"
elif nm -A "$build/libpipesim.a" 2>/dev/null | grep -q '__asan_\|__tsan_\|__ubsan_\|__gcov_'; then
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
