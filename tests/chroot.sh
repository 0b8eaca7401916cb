#!/usr/bin/env bash
# chroot.sh - tests the README's promise in an empty Debian: git clone, ./run test, ./run demo, with nothing else installed.
#
#   sudo tests/chroot.sh [--suite bookworm|trixie] [FOLDER]   Debian 12 or 13, default 12 (4 GB and some 15 minutes)
#   sudo tests/chroot.sh --build [FOLDER]                     builds the programs in the Debian that this one is not, warnings being
#                                                             errors, and runs one over MPI (1 GB and 3 minutes); CI does so
#   sudo tests/chroot.sh --gpu BUILD [FOLDER]                 tests/gpu.sh from a bundle of that build, in an empty Debian 13 with python3
#                                                             and gcc (glibc 2.41): as it is, on the cpu device and on emulated modules
#   sudo tests/chroot.sh --wheel WHEEL [--suite bookworm|trixie] [FOLDER]   installs a wheel of ./run wheel where there is Python and pip
#                                                             alone, and tests it there; default 13
#
# Needs root and debootstrap; exit code 77 and a reason without them, or without a mirror. FOLDER is a temporary one by default. Uses this
# machine's Debian mirror, keys and network settings. Clones the commit that is checked out and adds the changes of the working tree.
# Not part of ./run test.
set -euo pipefail

source_dir=$(cd "$(dirname "$0")/.." && pwd)
build= wheel= mode=run here=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release) suite=bookworm packages=git,ca-certificates
if [ "${1:-}" = --wheel ]; then
  wheel=$(readlink -e "${2:?--wheel WHEEL}")
  mode=wheel suite=trixie packages=python3,python3-pip
  shift 2
fi
case ${1:-} in
  --suite) suite=${2:?--suite bookworm or trixie}; shift 2 ;;
  --build)
    mode=build
    [ "$here" != bookworm ] || suite=trixie
    shift
    ;;
  --gpu)
    mode=gpu build=$(cd "${2:?--gpu BUILD}" && pwd)
    suite=trixie packages=python3,gcc,libc6-dev
    shift 2
    ;;
esac

skip ()
{
  echo "skipped: Debian $suite: $*"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "only root can make its root"
command -v debootstrap >/dev/null || skip "there is no debootstrap"
root=${1:-$(mktemp -d)}
mkdir -p "$root"
chmod 755 "$root" # mktemp keeps ordinary users out, and tests use one

# Prints the mirror of the first Debian source, from either format that apt reads.
mirror ()
{
  { cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -nE "s/^deb +(\\[[^]]*\\] +)?([^ ]+) +$here .*/\\2/p"
    cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed -nE 's/^URIs: *([^ ]+).*/\1/p'; } | head -1
}

clean_up ()
{
  local mount
  for mount in proc dev/pts dev; do
    mountpoint -q "$root/$mount" && umount -l "$root/$mount"
  done
  case $root in /tmp/*) rm -rf --one-file-system "$root" ;; esac
}
trap clean_up EXIT

# Copies network and apt settings, so that the new system reaches the same mirror.
copy_settings ()
{
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
  rm -f "$root/etc/apt/sources.list"
  cp -a /etc/apt/. "$root/etc/apt/"
  find "$root"/etc/apt/sources.list* -type f -exec sed -i "s/\b$here\b/$suite/g" {} +
  if [ -d /usr/local/share/ca-certificates ]; then
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp -a /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
  fi
}

inside ()
{
  chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} ${no_proxy:+no_proxy="$no_proxy"} "$@"
}

# call NUMBER OPTION...: prints the seconds of a call and its failed steps.
call ()
{
  local number=$1 started=$SECONDS
  shift
  inside "${environment[@]}" OUT="/root/out-$kind-$number" /root/bundle/gpu.sh "$@" >"$root/root/$kind-$number.log" 2>&1 || failed=1
  echo "$kind, $*: $((SECONDS - started)) s; $(grep -c '^PASS' "$root/root/$kind-$number.log") passed, $(grep -c '^SKIP' "$root/root/$kind-$number.log") skipped"
  grep '^FAIL' "$root/root/$kind-$number.log" || true
}

rehearse ()
{
  local kind environment=(env) failed=0
  "$source_dir/tests/gpu.sh" --pack "$root/root/bundle.tar.gz" "$build"
  mkdir "$root/root/bundle"
  tar -C "$root/root/bundle" -xzf "$root/root/bundle.tar.gz"
  kind=plain
  call 1
  kind=cpu
  call 1 --device cpu --seconds 240
  call 2 --device cpu --seconds 240 --after /root/out-cpu-1
  kind=emulated
  mkdir "$root/root/emulation"
  cp "$build"/tests/cuda/emulation/*.so "$root/root/emulation/"
  environment=(env PIPESIM_MODULE_DIR=/root/emulation LD_LIBRARY_PATH=/root/emulation)
  call 1 --seconds 240
  call 2 --seconds 420
  return $failed
}

echo "== an empty Debian ($suite) in $root"
debootstrap --variant=minbase --include=$packages $suite "$root" "$(mirror)" >"$root.log" 2>&1 \
  || { tail -20 "$root.log"; skip "debootstrap made no root"; }
copy_settings
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"

if [ $mode = gpu ]; then
  rehearse
  exit
fi

# The package's tests need the corpus, which draws their settings, and recorded traces.
if [ $mode = wheel ]; then
  mkdir -p "$root/root/tests/fixtures"
  cp "$wheel" "$root/root/"
  cp -r "$source_dir"/tests/{python,corpus,models} "$root/root/tests/"
  cp -r "$source_dir"/tests/fixtures/{profiler,configs,launches} "$root/root/tests/fixtures/"
  echo "== pip install ${wheel##*/}"
  inside pip install --no-index --break-system-packages --root-user-action=ignore "/root/${wheel##*/}" \
    || inside pip install --no-index "/root/${wheel##*/}"
  inside pipesim predict -s all -p 4 -m 8 --costs f=1ms,b=1ms,w=1ms
  inside python3 -c 'import pipesim; print(pipesim.predict(schedule="zb-v", devices=4, microbatches=8, costs="f=1ms,b=1ms,w=1ms")[0])'
  for command in exec calib; do
    inside pipesim $command && exit 1
  done
  inside python3 /root/tests/python/test_package.py
  exit
fi

echo '== git clone'
git -C "$source_dir" bundle create "$root/root/pipesim.bundle" HEAD >/dev/null 2>&1
inside git -c advice.detachedHead=false -c init.defaultBranch=main clone -q /root/pipesim.bundle /root/pipesim
(cd "$source_dir" && git ls-files -z --cached --others --exclude-standard | tar -c --null --ignore-failed-read -T - 2>/dev/null) \
  | tar -x -C "$root/root/pipesim"

if [ $mode = build ]; then
  inside sh -c 'cd /root/pipesim && ./run packages' || skip "its packages can't be had"
  echo '== build the programs'
  time inside sh -c 'cd /root/pipesim && ./run programs -Dwerror=true -Doptimization=0 -Ddebug=false pipesim-mpi.so && export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    && mpirun --oversubscribe -n 2 build/pipesim exec -s 1f1b -p 2 -m 2 --device null --transport mpi --steps 2'
  exit
fi
for job in test demo; do
  echo "== ./run $job"
  time inside sh -c "cd /root/pipesim && ./run $job"
done
echo '== ./run build again: installs nothing'
inside sh -c 'cd /root/pipesim && ./run build'
