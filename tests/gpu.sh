#!/bin/sh
# gpu.sh - all checks that need an NVIDIA GPU, the most wanted first: time on such a machine comes in pieces.
#
#   tests/gpu.sh --seconds N             starts no step after N seconds (default 420); ends at most 30 s later. With the programs in
#                                        $PIPESIM_BINDIR (default: build)
#   --after FOLDER                       goes on after an earlier call: leaves out what passed there, and takes its calibration
#   --bundle FOLDER                      with the programs of a bundle (or FILE.tar.gz), for machines without their libraries; the
#                                        gpu.sh in a bundle takes this bundle
#   --steps REGEX                        only steps with matching names: "machine|calibration|execution, p = 8"
#   --device cpu                         a rehearsal of the same steps without a GPU
#   tests/gpu.sh --pack FOLDER [BUILD]   makes a bundle (or FILE.tar.gz) of programs, modules, tests and shared libraries, without
#                                        CUDA's and NCCL's, which are on the GPU machine; builds them first unless BUILD is given
#
# Writes report.md and other files to $OUT (default: gpu-results), and again as each step ends. A step that fails or is skipped does
# not stop the others. Exit code 1 when a step has failed. tests/README.md explains each step.
set -u

PATH=$PATH:/usr/sbin:/sbin # for ldconfig
here=$(cd "$(dirname "$0")" && pwd)
device=cuda
wanted=
seconds=420
earlier=
known=
bundle=
pack=
build=
while [ $# -gt 0 ]; do
  case $1 in
    --bundle) bundle=${2:?--bundle FOLDER}; shift ;;
    --device) device=${2:?--device NAME}; shift ;;
    --pack) pack=${2:?--pack FOLDER}; shift ;;
    --steps) wanted=${2:?--steps REGEX}; shift ;;
    --seconds) seconds=${2:?--seconds N}; shift ;;
    --after) earlier=${2:?--after FOLDER}; shift ;;
    -*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0"; exit 2 ;;
    *) build=$1 ;;
  esac
  shift
done
case $seconds in
  *[!0-9]* | '') echo "gpu.sh: --seconds $seconds: a number of seconds" >&2; exit 2 ;;
esac
case $device in
  cuda | cpu) ;;
  *) echo "gpu.sh: --device $device: cuda, or cpu for a rehearsal" >&2; exit 2 ;;
esac
[ -z "$earlier" ] || [ -f "$earlier/report.md" ] || { echo "gpu.sh: --after $earlier: has no report.md" >&2; exit 2; }
[ ! -f "$earlier/profile-stages.json" ] || known=$earlier/profile-stages.json

# hash_of FOLDER: identifies the programs and modules in a folder.
hash_of ()
{
  (cd "$1" && cat pipesim pipesim-exec pipesim-calib pipesim-cuda.so pipesim-nccl.so 2>/dev/null | sha256sum | cut -c 1-16)
}

# --- packing ---

# needed_libraries FILE...: prints the shared libraries that a machine may lack. Only the small runtime of CUDA is packed. The C
# library is not: it belongs to the loader of each system.
needed_libraries ()
{
  # The cpu device loads OpenBLAS at run time.
  openblas=$(ldconfig -p 2>/dev/null | sed -n 's/^[[:space:]]*libopenblas\.so\.0 .*=> //p' | head -1)
  { ldd "$@" $openblas 2>/dev/null; echo "libopenblas.so.0 => $openblas"; } | awk '$2 == "=>" && $3 ~ "^/" { print $3 }' | sort -u \
    | grep -vE '/(lib(c|m|dl|rt|pthread|resolv)|ld-linux[^/]*|libcublas[a-zA-Z]*|libcuda|libnccl|libnvidia[^/]*)\.so'
}

bundled="pipesim pipesim-exec pipesim-calib pipesim-cuda.so pipesim-nccl.so test-cuda-kernels test-cuda-parts test-cuda-device
         test-cuda-context gpu-launch"

pack_bundle ()
{
  if [ -z "$build" ]; then
    build=$here/../build-gpu
    [ -f "$build/build.ninja" ] || meson setup "$build" "$here/.." -Dcuda=enabled -Dgpu_architectures=sm_90a >&2 || exit 1
    ninja -C "$build" $bundled >&2 || exit 1
  fi
  archive=
  if ! tr '{' '\n' <"$build/meson-info/intro-buildoptions.json" 2>/dev/null | grep '"name": "gpu_architectures"' \
    | grep -q '"value": \[[^]]*"sm_90a"'; then
    echo "gpu.sh: $build has no kernels of Hopper's own; set it up with -Dgpu_architectures=sm_90a" >&2
    exit 1
  fi
  [ -f "$build/pipesim-cuda.so" ] || { echo "gpu.sh: $build/pipesim-cuda.so is not there; build it with CUDA" >&2; exit 1; }
  case $pack in
    *.tar.gz) archive=$pack; pack=$(mktemp -d); trap 'rm -rf "$pack"' EXIT ;;
  esac
  mkdir -p "$pack/lib" "$pack/lib-system" || exit 1
  files=
  for name in $bundled; do
    if [ -f "$build/$name" ]; then
      cp "$build/$name" "$pack/" && strip --strip-unneeded "$pack/$name"
      files="$files $pack/$name"
    else
      echo "gpu.sh: $build/$name is not there; the bundle goes without it" >&2
    fi
  done
  for library in $(needed_libraries $files); do
    case $library in
      # A newer system has newer ones, so lib-system serves only systems without them.
      */libstdc++.so* | */libgcc_s.so* | */libcudart.so*) cp -L "$library" "$pack/lib-system/" ;;
      *) cp -L "$library" "$pack/lib/" ;;
    esac
  done
  find "$pack/lib" "$pack/lib-system" -name '*.so*' -exec strip --strip-unneeded {} + 2>/dev/null
  cp "$here/gpu.sh" "$here/gpu-steps.sh" "$here/gpu-layer.py" "$here/gpu-rates.py" "$here/gpu-figures.py" \
    "$here/gpu-launch.cu" "$pack/"
  du -sh "$pack" | sed 's/\t.*/ unpacked/'
  echo "sha256 of the programs: $(hash_of "$pack")"
  if [ -n "$archive" ]; then
    tar -C "$pack" -czf "$archive" . || exit 1
    du -sh "$archive"
  fi
  exit 0
}
if [ -n "$pack" ]; then pack_bundle; fi

# --- shared by all steps ---

OUT=${OUT:-gpu-results}
mkdir -p "$OUT" || exit 1
OUT=$(cd "$OUT" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C.UTF-8 OPENBLAS_NUM_THREADS=1
source=$(cd "$here/.." && pwd)
log=$OUT/log.txt
report=$OUT/report.md
steps=$work/steps
details=$work/details
mkdir "$details"
: >"$log"
: >"$steps"
begin=$(date +%s)

# Seconds until no step starts any more.
left ()
{
  echo $((seconds - $(date +%s) + begin))
}

# step SECONDS NAME FUNCTION ARGUMENT...: runs FUNCTION with that limit. Exit code 0 passes, 77 skips. The last printed line that
# begins with "= " is the result. All output goes to the log.
step ()
{
  limit=$1
  name=$2
  shift 2
  case $name in
    machine | 'profile of an earlier call') ;;
    *)
      echo "$name" | grep -qE "$wanted" || return 0
      if [ -n "$earlier" ] && grep -qF "| PASS | $name |" "$earlier/report.md"; then
        echo "| SKIP | $name | passed in $earlier | |" >>"$steps"
        echo "SKIP $name: passed in $earlier"
        return
      fi
      ;;
  esac
  started=$(date +%s)
  if [ "$(left)" -le 0 ]; then
    echo "| SKIP | $name | no time left | |" >>"$steps"
    echo "SKIP $name: no time left"
    write_report
    return
  fi
  if [ "$limit" -gt $(($(left) + 30)) ]; then limit=$(($(left) + 30)); fi
  step_end=$(($(date +%s) + limit))
  printf '\n=== %s\n' "$name" >>"$log"
  [ ! -e "$work/no-hopper" ] || export PIPESIM_CUDA_HOPPER=0
  ("$@") >"$work/output" 2>&1 &
  process=$!
  (sleep "$limit" && echo "= stopped after $limit s" >>"$work/output" && kill_tree $process) 2>/dev/null &
  watcher=$!
  wait $process 2>/dev/null
  code=$?
  kill_tree $watcher
  cat "$work/output" >>"$log"
  result=$(sed -n 's/^= //p' "$work/output" | tail -1 | sed "s|$work/||g")
  case $code in
    0) verdict=PASS ;;
    77) verdict=SKIP ;;
    *) verdict=FAIL; result=${result:-$(tail -1 "$work/output" | cut -c 1-200)} ;;
  esac
  result=$(echo "$result" | tr '|' '/' | cut -c 1-300)
  echo "| $verdict | $name | $result | $(($(date +%s) - started)) s |" >>"$steps"
  echo "$verdict $name: $result"
  write_report
  keep_details
}

# Reads /proc/PID/stat, where the state and the parent follow the name in parentheses.
children_of ()
{
  for file in /proc/[0-9]*/stat; do
    read -r line 2>/dev/null <"$file" || continue
    case ${line##*) } in
      ?" $1 "*) echo "${line%% *}" ;;
    esac
  done
}

# Prints a process and all its descendants.
kill_tree ()
{
  kill -STOP "$1" 2>/dev/null
  for child in $(children_of "$1"); do kill_tree "$child"; done
  kill -KILL "$1" 2>/dev/null
}

# room SECONDS: whether the step has that much time left.
room ()
{
  [ $((step_end - $(date +%s))) -ge "$1" ]
}

skip ()
{
  echo "= $*"
  exit 77
}

have ()
{
  command -v "$1" >/dev/null 2>&1
}

python=$(command -v python3 || true)

# --- the programs ---

if [ -f "$bundle" ]; then
  mkdir "$work/bundle"
  tar -C "$work/bundle" -xzf "$bundle" || exit 1
  bundle=$work/bundle
fi
[ -n "$bundle" ] || [ -n "${PIPESIM_BINDIR:-}" ] || [ ! -d "$here/lib-system" ] || bundle=$here
bin=${bundle:-${PIPESIM_BINDIR:-$source/build}}
[ -d "$bin" ] && bin=$(cd "$bin" && pwd)
libraries=$work/libraries
programs=
[ ! -x "$bin/pipesim" ] || programs="sha256 $(hash_of "$bin")"

# find_library NAME: prints the path, from the loader's cache or from the places of toolkits, drivers and Python packages.
find_library ()
{
  path=$(awk -v name="$1" '$1 == name { print $NF; exit }' "$work/loader-cache")
  [ -n "$path" ] || path=$(grep -m 1 "/$1\$" "$work/found")
  echo "$path"
}

# Makes links to CUDA's libraries under the names that the modules ask for, and finds the driver's folder. Searches all places once,
# and only if the loader lacks a library.
find_cuda ()
{
  mkdir -p "$libraries"
  ldconfig -p >"$work/loader-cache" 2>/dev/null
  : >"$work/found"
  names="libcudart.so.13 libcublasLt.so.13 libcublas.so.13 libnccl.so.2"
  looked_for=
  for name in $names libcuda.so.1; do
    [ -n "$(find_library $name)" ] || looked_for="$looked_for -o -name $name"
  done
  if [ -n "$looked_for" ]; then
    places="/usr/local /usr/lib /opt"
    [ -z "$python" ] || places="$("$python" -c 'import sys; print(" ".join(p for p in sys.path if "-packages" in p))') $places"
    timeout 10 find -L $places \( ${looked_for# -o} \) 2>/dev/null | grep -vE '/(stubs|compat)/' >"$work/found"
  fi
  for name in $names; do
    path=$(find_library $name)
    [ -n "$path" ] || path=$(ls "$bin/lib-system/$name" 2>/dev/null)
    [ -z "$path" ] || ln -sf "$path" "$libraries/$name"
  done
  driver=$(dirname "$(find_library libcuda.so.1)")
}

# Prints the library path that CUDA programs need: the links, and the driver's folder if the loader does not know it.
cuda_path ()
{
  path=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  [ "$driver" = . ] || path=$path:$driver
  grep -q 'libstdc++\.so\.6' "$work/loader-cache" || path=$path:$bin/lib-system
  echo "$path"
}

# own PROGRAM ARGUMENT...: runs a program of pipesim, under the command $under if there is one. Only these see the bundle's libraries.
own ()
{
  program=$1
  shift
  # GIO_MODULE_DIR: a bundle's GLib must not load this machine's extensions.
  env PATH="$bin:$PATH" LD_LIBRARY_PATH="${bundle:+$bin/lib:}$(cuda_path)" ${bundle:+GIO_MODULE_DIR="$work/none"} ${under:-} "$bin/$program" "$@"
}

need_programs ()
{
  [ -x "$bin/pipesim-exec" ] || skip "no programs in $bin: build them, or bring a bundle (--pack)"
  own pipesim --version >/dev/null || { echo "= the programs do not start here"; exit 1; }
}

# An unusable device is a failure only on a machine with a GPU. The result is kept.
need_device ()
{
  need_programs
  [ ! -e "$work/usable" ] || return 0
  if [ ! -s "$work/probe" ] \
    && own pipesim-exec --schedule gpipe -p 1 -m 1 --model "$work/tiny.ini" --device "$device" --steps 1 >"$work/probe" 2>&1; then
    touch "$work/usable"
    return 0
  fi
  if [ "$device" = cuda ] && ! nvidia-smi >/dev/null 2>&1; then skip "$(tail -1 "$work/probe")"; fi
  echo "= $(tail -1 "$work/probe")"
  exit 1
}

flash=true
[ "$device" = cuda ] || flash=false
model ()
{
  cat >"$work/$1.ini" <<TEXT
[model]
layers = $2
hidden = $3
heads = $4
sequence = $5
vocabulary = $6
microbatch_size = $7
precision = $8
mlp = gelu
flash_attention = $flash
TEXT
}

if [ "$device" = cpu ] || [ -n "${PIPESIM_MODULE_DIR:-}" ]; then
  precision=bf16
  [ "$device" = cuda ] || precision=fp32
  layers=16
  [ -z "${PIPESIM_MODULE_DIR:-}" ] || layers=8
  model small $layers 32 2 16 64 1 $precision
  model tiny 4 32 2 16 64 1 $precision
  model layer 3 64 2 32 64 1 $precision
else
  # The model is small enough to compare gradients; its ops are long against their launch.
  model small 16 512 8 1024 4096 4 bf16
  model tiny 4 64 1 64 128 1 bf16
  model layer 3 2048 16 2048 4096 4 bf16
fi

. "$here/gpu-steps.sh"

write_report ()
{
  {
    echo "# pipesim on a GPU"
    echo
    echo "$(date -u +%Y-%m-%dT%H:%M:%SZ), device $device, $(($(date +%s) - begin)) s$([ -z "${PIPESIM_MODULE_DIR:-}" ] || echo ', EMULATED: no figure here is measured')"
    [ -z "$programs" ] || echo "Programs: $programs"
    echo
    echo "| result | step | | time |"
    echo "|---|---|---|---|"
    cat "$steps"
    if [ -s "$work/accuracy" ]; then
      printf '\n## Predicted and executed\n\n'
      cat "$work/accuracy"
    fi
    if [ -s "$work/shares" ]; then
      printf '\n## What stages cost\n\n'
      cat "$work/shares"
    fi
  } >"$report"
}

# Few and small files: they may have to pass a narrow way. Timelines are packed already.
keep_details ()
{
  tar -C "$work" -cf "$work/details.tar" details && mv "$work/details.tar" "$OUT/details.tar"
  [ "$(wc -c <"$log")" -lt 15000000 ] || { head -c 8000000 "$log" >"$work/cut" && mv "$work/cut" "$log"; }
}

# In the order in which they are wanted: each step may be the last. An emulation is slow.
all="1f1b zb-h1 gpipe interleaved zb-v dualpipe-v zb-auto zb-h2 v-half v-min 1f1b-v zb-v-auto interleaved-zb eager-1f1b looped-bfs hanayo naive seq1f1b chimera dualpipe"
few="1f1b zb-h1 zb-v gpipe interleaved dualpipe-v"
iterations=4
if [ -n "${PIPESIM_MODULE_DIR:-}" ]; then all="1f1b zb-v" few=1f1b iterations=2; fi
rm -f "$OUT/runs.csv"
find_cuda

step 15 "machine" machine
step 30 "module loads" module
step 10 "profile of an earlier call" known_profile
# 1. Right results.
step 60 "kernels against references" kernels
step 45 "memcheck of a step" checked_step
# 2. Parts of a GPU at the same time.
step 40 "parts of a GPU" device_tests test-cuda-parts
step 20 "hardware queues" queues 32 8 1
# 3. Pipelines.
step 40 "first run, p = 4" first_run 1f1b
step 40 "first run of zb-v" first_run zb-v
step 45 "all families, p = 4" once 4 8 $all
# 4. The loop in small.
step 60 "calibration, p = 4" calibrate stages small -p 4 --budget 40s
step 10 "predictions, p = 4" predictions 4 8
step 60 "execution, p = 4" families 4 8 $few
step 25 "search, p = 4" searched 4 8
# 5. The loop in full.
step 60 "calibration, p = 8" calibrate stages small -p 8 --budget 40s
step 60 "execution, p = 8" families 8 16 $few
step 25 "search, p = 8" searched 8 16
step 20 "op by op" compared
step 70 "ops beside held multiprocessors" beside_blocks
# 6, 7. Speed.
step 30 "one layer" layer
step 60 "one layer in PyTorch" torch_layer
step 60 "speed of kernels" kernel_figures
step 75 "rates in PyTorch" torch_rates
# 8. Launching, caches, NCCL.
step 20 "launch overhead" launches
step 30 "one layer as CUDA graphs" layer_graphs
step 25 "ops as CUDA graphs" variants PIPESIM_CUDA_GRAPHS 0 1
step 60 "caches cold and warm" calibrate stages small -p 4 -v 1 --caches cold,warm --time-limit 200ms
step 5 "NCCL, a GPU to itself" self_send
step 60 "NCCL, two devices" nccl -p 2
step 60 "NCCL, two devices share layers" nccl -p 1 --tensor 2
# The rest.
step 25 "ops ahead of the host, p = 4" ahead 4 0 1 4 16
step 40 "ops ahead of the host, p = 8" ahead 8 0 1 4 16
step 25 "waiting asleep and awake" variants PIPESIM_CUDA_WAIT sleep spin
step 20 "attention as on older GPUs" variants PIPESIM_CUDA_HOPPER 1 0
step 60 "more of pipelines" features
step 80 "cuda device" device_tests test-cuda-device
step 40 "cuda contexts" device_tests test-cuda-context
step 60 "uneven parts" uneven
step 60 "shared layers" shared
step 40 "calibration repeated" calibrate_again
step 65 "memcheck" sanitizer memcheck 15 attention norm norm-weights embedding
step 65 "racecheck" sanitizer racecheck 15 attention norm norm-weights cross-entropy
echo
head -c 11000 "$report"
! grep -q '^| FAIL' "$steps"
