#!/bin/sh
# gpu.sh - everything that only a machine with an NVIDIA GPU can show, in one command of less than 8 minutes.
#
#   tests/gpu.sh                         with the programs in $PIPESIM_BINDIR (default: build)
#   tests/gpu.sh --bundle FOLDER         with those of a bundle (or FILE.tar.gz), where nothing that they need is installed
#   tests/gpu.sh --pack FOLDER [BUILD]   makes such a bundle (or FILE.tar.gz) from a build folder: programs, modules, tests and
#                                        shared libraries, but not those of CUDA and NCCL, which the GPU machine has
#   --device cpu                         a rehearsal of the same steps without a GPU
#
# Writes report.md and some files beside it to $OUT (default: gpu-results). A step that fails or finds nothing to work with does
# not stop those behind it. Exit code 1 when a step has failed. What each step is for: tests/README.md.
set -u

here=$(cd "$(dirname "$0")" && pwd)
device=cuda
bundle=
pack=
build=
while [ $# -gt 0 ]; do
  case $1 in
    --bundle) bundle=${2:?--bundle FOLDER}; shift ;;
    --device) device=${2:?--device NAME}; shift ;;
    --pack) pack=${2:?--pack FOLDER}; shift ;;
    -*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0"; exit 2 ;;
    *) build=$1 ;;
  esac
  shift
done

# --- packing ---

# Shared libraries of the given files that a machine may lack. CUDA's are there or of no use, and those of the C library belong
# to the system's own loader.
needed_libraries ()
{
  ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ "^/" { print $3 }' | sort -u \
    | grep -vE '/(lib(c|m|dl|rt|pthread|resolv)|ld-linux[^/]*|libcu[a-zA-Z]+|libnccl|libnvidia[^/]*)\.so'
}

pack_bundle ()
{
  build=${build:-${PIPESIM_BINDIR:-build}}
  archive=
  case $pack in
    *.tar.gz) archive=$pack; pack=$(mktemp -d); trap 'rm -rf "$pack"' EXIT ;;
  esac
  mkdir -p "$pack/lib" "$pack/lib-system" || exit 1
  files=
  for name in pipesim pipesim-exec pipesim-calib pipesim-cuda.so pipesim-nccl.so test-cuda-kernels-gpu test-cuda-device \
    test-cuda-context; do
    if [ -f "$build/$name" ]; then
      cp "$build/$name" "$pack/" && strip --strip-unneeded "$pack/$name"
      files="$files $pack/$name"
    else
      echo "gpu.sh: $build/$name is not there; the bundle goes without it" >&2
    fi
  done
  for library in $(needed_libraries $files); do
    case $library in
      # Newer where the system is newer: only for systems that have none.
      */libstdc++.so* | */libgcc_s.so*) cp -L "$library" "$pack/lib-system/" ;;
      *) cp -L "$library" "$pack/lib/" ;;
    esac
  done
  find "$pack/lib" "$pack/lib-system" -name '*.so*' -exec strip --strip-unneeded {} + 2>/dev/null
  cp "$here/gpu.sh" "$here/gpu-layer.py" "$here/gpu-figures.py" "$here/gpu-launch.cu" "$pack/"
  du -sh "$pack" | sed 's/\t.*/ unpacked/'
  if [ -n "$archive" ]; then
    tar -C "$pack" -czf "$archive" . || exit 1
    du -sh "$archive"
  fi
  exit 0
}
if [ -n "$pack" ]; then pack_bundle; fi

# --- what all steps share ---

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
: >"$log"
: >"$steps"
total=${PIPESIM_GPU_SECONDS:-460}
begin=$(date +%s)

left ()
{
  echo $((total - $(date +%s) + begin))
}

# step SECONDS NAME FUNCTION ARGUMENT...: runs it with that limit, or what is left. It passes with 0, is skipped with 77; the
# last line that it prints behind "= " is its result. What it prints goes to the log.
step ()
{
  limit=$1
  name=$2
  shift 2
  started=$(date +%s)
  if [ "$(left)" -lt 5 ]; then
    echo "| SKIP | $name | no time left | |" >>"$steps"
    return
  fi
  if [ "$limit" -gt "$(left)" ]; then limit=$(left); fi
  printf '\n=== %s\n' "$name" >>"$log"
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
  echo "| $verdict | $name | $(echo "$result" | tr '|' '/') | $(($(date +%s) - started)) s |" >>"$steps"
  echo "$verdict $name: $result"
}

# Of a process, from /proc, where the state and the parent follow the name in parentheses.
children_of ()
{
  for file in /proc/[0-9]*/stat; do
    line=$(cat "$file" 2>/dev/null) || continue
    case ${line##*) } in
      ?" $1 "*) echo "${line%% *}" ;;
    esac
  done
}

# A process and all that it has started.
kill_tree ()
{
  kill -STOP "$1" 2>/dev/null
  for child in $(children_of "$1"); do kill_tree "$child"; done
  kill -KILL "$1" 2>/dev/null
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
bin=${bundle:-${PIPESIM_BINDIR:-$source/build}}
[ -d "$bin" ] && bin=$(cd "$bin" && pwd)
libraries=$work/libraries

# Links to CUDA's libraries under the names that the modules ask for, wherever the machine keeps them: toolkit or Python packages.
find_cuda ()
{
  mkdir -p "$libraries"
  places="/usr/local /usr/lib /opt"
  [ -z "$python" ] || places="$places $("$python" -c 'import sys; print(" ".join(p for p in sys.path if "-packages" in p))')"
  for name in libcudart.so.13 libcublasLt.so.13 libcublas.so.13 libnccl.so.2; do
    path=$(ldconfig -p 2>/dev/null | awk -v name="$name" '$1 == name { print $NF; exit }')
    [ -n "$path" ] || path=$(find -L $places -name "$name" 2>/dev/null | head -1)
    [ -z "$path" ] || ln -sf "$path" "$libraries/$name"
  done
}

# pipesim's programs and nothing else see the bundle's libraries.
own ()
{
  path=$libraries
  if [ -n "$bundle" ]; then
    path=$bin/lib:$path
    ldconfig -p 2>/dev/null | grep -q 'libstdc++\.so\.6' || path=$path:$bin/lib-system
  fi
  program=$1
  shift
  env PATH="$bin:$PATH" LD_LIBRARY_PATH="$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$bin/$program" "$@"
}

need_programs ()
{
  [ -x "$bin/pipesim-exec" ] || skip "no programs in $bin: build them, or bring a bundle (--pack)"
  own pipesim --version >/dev/null || { echo "= the programs do not start here"; exit 1; }
}

# A device that cannot be used is a failure only where there is a GPU.
need_device ()
{
  need_programs
  own pipesim-exec --schedule gpipe -p 1 -m 1 --model "$work/tiny.ini" --device "$device" --steps 1 >"$work/probe" 2>&1 && return
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
  model small 16 32 2 16 64 1 $precision
  model tiny 4 32 2 16 64 1 $precision
  model layer 3 64 2 32 64 1 $precision
else
  model small 16 1024 16 512 8192 4 bf16
  model tiny 4 64 1 64 128 1 bf16
  model layer 3 2048 16 2048 4096 4 bf16
fi

# --- steps ---

machine ()
{
  for tool in gcc g++ nvcc meson ninja pkg-config python3 sqlite3 compute-sanitizer ncu nvidia-smi; do
    echo "$tool: $(command -v $tool || echo missing) $($tool --version 2>/dev/null | grep -iE 'version|release|[0-9]+\.[0-9]+' | head -1)"
  done
  for package in glib-2.0 gio-2.0 json-glib-1.0 sqlite3 openblas hwloc; do
    echo "$package: $(pkg-config --modversion $package 2>/dev/null || echo 'no development files')"
  done
  ldd --version 2>/dev/null | head -1
  uname -srm
  nproc
  head -3 /proc/meminfo
  [ -z "$python" ] || "$python" -c 'import torch; print("torch", torch.__version__, torch.version.cuda, torch.cuda.is_available())' 2>&1 | tail -1
  ls -l "$libraries" 2>/dev/null
  nvidia-smi 2>/dev/null || skip "no nvidia-smi: no GPU here"
  nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,PERFORMANCE 2>/dev/null | head -120
  echo "= $(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv,noheader | head -1)"
}

# The kernel test from source, one nvcc per file side by side; else the bundle's.
kernels_build ()
{
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || skip "no nvcc; the bundle's test is used if there is one"
  [ -f "$source/exec/device/cuda/kernels.h" ] || skip "no source beside this script"
  nvidia-smi >/dev/null 2>&1 || skip "no GPU here to run them on"
  cd "$source" || exit 1
  mkdir -p "$work/kernels"
  jobs=0
  for file in exec/device/cuda/*.cu tests/test-cuda-kernels.cpp tests/cuda-kernels/*.cpp exec/device/cuda/kernels-reference.c; do
    "$nvcc" -std=c++17 -O3 -lineinfo -arch=sm_90 -Iexec/device/cuda -Itests/cuda-kernels -c "$file" \
      -o "$work/kernels/$(basename "$file").o" || touch "$work/kernels/failed" &
    jobs=$((jobs + 1))
    [ $((jobs % $(nproc))) -ne 0 ] || wait
  done
  wait
  [ ! -e "$work/kernels/failed" ] || exit 1
  "$nvcc" -arch=sm_90 -o "$work/test-cuda-kernels" "$work"/kernels/*.o || exit 1
  echo "= built with $("$nvcc" --version | sed -n 's/.*release \([^,]*\),.*/nvcc \1/p')"
}

kernel_test ()
{
  if [ -x "$work/test-cuda-kernels" ]; then
    "$work/test-cuda-kernels" "$@"
  elif [ -x "$bin/test-cuda-kernels-gpu" ]; then
    own test-cuda-kernels-gpu "$@"
  else
    skip "no kernel test"
  fi
}

kernels ()
{
  kernel_test >"$OUT/kernels.txt" 2>&1
  code=$?
  cat "$OUT/kernels.txt"
  if grep -q '^1\.\.0' "$OUT/kernels.txt"; then skip "$(sed -n 's/.*SKIP //p' "$OUT/kernels.txt")"; fi
  [ $code -ne 77 ] || exit 77
  echo "= $(grep -c '^ok' "$OUT/kernels.txt") of $(grep -cE '^(not )?ok' "$OUT/kernels.txt") kernels agree with their references"
  exit $code
}

sanitizer ()
{
  tool=$1
  shift
  have compute-sanitizer || skip "no compute-sanitizer"
  have nvidia-smi && nvidia-smi >/dev/null 2>&1 || skip "no GPU here"
  program=$work/test-cuda-kernels
  [ -x "$program" ] || program=$bin/test-cuda-kernels-gpu
  [ -x "$program" ] || skip "no kernel test"
  for subset in "$@"; do
    echo "--- $subset"
    LD_LIBRARY_PATH=$libraries compute-sanitizer --tool "$tool" --error-exitcode 9 "$program" "$subset" || exit 1
  done
  echo "= $tool finds nothing in: $*"
}

device_tests ()
{
  need_programs
  [ -x "$bin/$1" ] || skip "no $1 in $bin"
  G_TEST_SRCDIR=$here own "$1" >"$work/tap" 2>&1
  code=$?
  cat "$work/tap"
  n=$(grep -c '^ok' "$work/tap")
  skipped=$(grep -c '^ok.*# SKIP' "$work/tap")
  [ "$n" -ne "$skipped" ] || [ $code -ne 0 ] || skip "$(sed -n 's/.*# SKIP //p' "$work/tap" | head -1)"
  echo "= $((n - skipped)) passed, $skipped skipped, $(grep -c '^not ok' "$work/tap") failed"
  exit $code
}

db=$work/costs.db

# calibrate PROFILE MODEL OPTION...
calibrate ()
{
  need_device
  profile=$1
  name=$2
  shift 2
  own pipesim-calib run --db "$db" --profile "$profile" --model "$work/$name.ini" --device "$device" --max-samples 200 \
    --time-limit 1500ms "$@" >"$work/table" 2>"$work/talk"
  code=$?
  cat "$work/table" "$work/talk"
  if grep -q 'not worth measuring' "$work/talk"; then skip "times of an emulation are not worth measuring"; fi
  [ $code -eq 0 ] || exit 1
  echo "= $(tail -1 "$work/talk"); $(grep -c 'converged' "$work/table") converged; $(grep '^warning' "$work/talk" | head -1)"
}

calibrate_all ()
{
  calibrate stages small -p 4 -v 1,2 --caches run,cold,warm
}

calibrate_eight ()
{
  calibrate stages small -p 8 -v 1,2
}

calibrate_again ()
{
  calibrate again small -p 4 -v 1
  own pipesim-calib diff --db "$db" stages again | tee "$work/again" | tail -40
  echo "= $(tail -1 "$work/again" | sed 's/; [0-9]* in one only//') (of two calibrations of p = 4, one after the other)"
}

need_profile ()
{
  [ -f "$db" ] && own pipesim-calib export --db "$db" --profile "$1" >/dev/null 2>&1 || skip "no profile: calibration did not run"
}

export_profiles ()
{
  need_profile stages
  for profile in stages again layer; do
    own pipesim-calib export --db "$db" --profile $profile --samples -o "$OUT/profile-$profile.json" || continue
    # What comes back must be small; medians and spreads stay.
    if [ "$(wc -c <"$OUT/profile-$profile.json")" -gt 8000000 ]; then
      own pipesim-calib export --db "$db" --profile $profile -o "$OUT/profile-$profile.json"
    fi
  done
  [ -f "$OUT/profile-stages.json" ] || exit 1
  echo "= $(ls "$OUT" | grep -c '^profile-') profiles written"
}

predictions ()
{
  need_profile stages
  own pipesim predict --schedule all -p "$1" -m "$2" --db "$db" --profile stages || exit 1
  echo "= every schedule predicted from the profile for p = $1, m = $2"
}

# execute DEVICES MICROBATCHES SCHEDULE OPTION...: runs it into $work/run.json; 77 where the device has no code for it.
execute ()
{
  p=$1
  m=$2
  schedule=$3
  shift 3
  costs=
  [ ! -f "$db" ] || costs="--db $db --profile stages"
  own pipesim-exec --schedule "$schedule" -p "$p" -m "$m" --model "$work/small.ini" $costs --device "$device" --steps 5 \
    --timeout 30s --json "$@" >"$work/run.json" 2>"$work/run.err"
  code=$?
  if [ $code -ne 0 ]; then
    echo "$schedule: $(tail -1 "$work/run.err")"
    case $(tail -1 "$work/run.err") in
      *'runs schedules with one copy'* | *'runs on without a flush'*) return 77 ;;
    esac
    return $code
  fi
  echo "$(basename "$schedule"): $(grep -o '"check": "[^"]*"' "$work/run.json")"
}

# A line of runs.csv.
record ()
{
  [ -z "$python" ] || "$python" "$here/gpu-figures.py" run "$1" "$2" "$work/run.json" >>"$OUT/runs.csv"
}

families ()
{
  need_device
  p=$1
  m=$2
  shift 2
  names=$*
  [ -n "$names" ] || names=$(own pipesim schedule list --json 2>/dev/null | grep -o '"name": "[^"]*"' | cut -d '"' -f 4)
  passed=0 failed=0 skipped=0
  for name in $names; do
    [ "$(left)" -gt 40 ] || break
    execute "$p" "$m" "$name" --check
    case $? in
      0) passed=$((passed + 1)); record "$p" "$m" ;;
      77) skipped=$((skipped + 1)) ;;
      *) failed=$((failed + 1)) ;;
    esac
  done
  equal=$(grep -c "^$p,$m,.*bit-equal" "$OUT/runs.csv" 2>/dev/null)
  echo "= $passed schedules ran on $p stages, ${equal:-0} bit-equal to one device; $failed failed or differ, $skipped not for this executor"
  [ $failed -eq 0 ] && [ $passed -gt 0 ]
}

searched ()
{
  need_profile stages
  own pipesim search -p 4 -m 8 --db "$db" --profile stages --memory-limit 100GiB --time-limit 5s -o "$work/searched.json" || exit 1
  execute 4 8 "$work/searched.json" --check || exit 1
  record 4 8
  echo "= the order that search found ran, too"
}

traces ()
{
  need_profile stages
  mkdir -p "$work/traces"
  for name in 1f1b zb-h1 zb-v interleaved; do
    [ "$(left)" -gt 20 ] || break
    execute 4 8 $name --trace "$work/traces/$name-measured.json" --predicted "$work/traces/$name-predicted.json" || continue
    own pipesim compare "$work/traces/$name-predicted.json" "$work/traces/$name-measured.json" | tee -a "$work/traces/compare.txt"
  done
  tar -C "$work" -czf "$OUT/traces.tar.gz" traces
  echo "= $(ls "$work/traces" | grep -c measured) pairs of timelines kept"
}

accuracy ()
{
  [ -n "$python" ] || skip "no python3"
  [ -s "$OUT/runs.csv" ] || skip "nothing ran"
  "$python" "$here/gpu-figures.py" accuracy "$OUT/runs.csv" >"$work/figures" || exit 1
  cat "$work/figures"
  grep -v '^= ' "$work/figures" >"$work/accuracy" || skip "$(sed 's/^= //' "$work/figures")"
}

shares ()
{
  [ -n "$python" ] || skip "no python3"
  [ -f "$OUT/profile-stages.json" ] || skip "no profile"
  "$python" "$here/gpu-figures.py" shares "$OUT/profile-stages.json" >"$work/figures" || exit 1
  cat "$work/figures"
  grep -v '^= ' "$work/figures" >"$work/shares"
}

layer ()
{
  calibrate layer layer -p 3 --sharing 1 -v 1
}

torch_layer ()
{
  [ -n "$python" ] || skip "no python3"
  "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || skip "no PyTorch that sees a GPU"
  "$python" "$here/gpu-layer.py" >"$OUT/layer.json" || exit 1
  cat "$OUT/layer.json"
  own pipesim-calib export --db "$db" --profile layer -o "$work/layer-profile.json" 2>/dev/null
  "$python" "$here/gpu-figures.py" layer "$OUT/layer.json" "$work/layer-profile.json"
}

launches ()
{
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || skip "no nvcc"
  "$nvcc" -std=c++17 -O3 -arch=sm_90 -o "$work/gpu-launch" "$here/gpu-launch.cu" || exit 1
  "$work/gpu-launch" >"$work/launches" 2>&1
  code=$?
  cat "$work/launches"
  [ $code -ne 77 ] || skip "$(tail -1 "$work/launches")"
  [ $code -eq 0 ] || exit 1
  echo "= $(tail -1 "$work/launches")"
}

# Two processes that take themselves for two hosts, so that NCCL accepts one GPU twice.
nccl ()
{
  need_device
  [ "$device" = cuda ] || skip "NCCL is for GPUs"
  port=$((20000 + $$ % 10000))
  for rank in 1 0; do
    export RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port NCCL_HOSTID=host-$rank NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
    own pipesim-exec --schedule 1f1b -p 2 -m 4 --model "$work/tiny.ini" --device cuda --transport nccl --steps 2 --check --json \
      --timeout 30s >"$work/rank-$rank" 2>&1 &
    if [ $rank = 1 ]; then other=$!; else first=$!; fi
  done
  wait $first
  code=$?
  wait $other
  cat "$work/rank-0" "$work/rank-1"
  if grep -q 'no pipesim-nccl.so' "$work/rank-0"; then skip "no NCCL module"; fi
  [ $code -eq 0 ] || { echo "= $(tail -1 "$work/rank-0")"; exit 1; }
  echo "= $(grep -o '"check": "[^"]*"' "$work/rank-0") of two processes on one GPU over loopback"
}

write_report ()
{
  {
    echo "# pipesim on a GPU"
    echo
    echo "$(date -u +%Y-%m-%dT%H:%M:%SZ), device $device, $(($(date +%s) - begin)) s$([ -z "${PIPESIM_MODULE_DIR:-}" ] || echo ', EMULATED: no figure here is measured')"
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

# An emulation takes its time.
few=
eight="gpipe 1f1b interleaved zb-h1 zb-h2 zb-v dualpipe-v"
if [ -n "${PIPESIM_MODULE_DIR:-}" ]; then few="1f1b zb-v" eight=1f1b; fi
rm -f "$OUT/runs.csv"
find_cuda
step 20 "machine" machine
step 150 "kernels: build from source" kernels_build
step 90 "kernels against references" kernels
step 40 "memcheck" sanitizer memcheck attention norm
step 40 "racecheck" sanitizer racecheck norm columns
step 60 "cuda device" device_tests test-cuda-device
step 40 "cuda contexts" device_tests test-cuda-context
step 120 "calibration, p = 4" calibrate_all
step 90 "calibration, p = 8" calibrate_eight
step 20 "predictions, p = 4" predictions 4 8
step 120 "execution, p = 4" families 4 8 $few
step 80 "execution, p = 8" families 8 16 $eight
step 30 "search" searched
step 40 "traces" traces
step 60 "calibration repeated" calibrate_again
step 40 "one layer" layer
step 60 "one layer in PyTorch" torch_layer
step 30 "launch overhead" launches
step 40 "NCCL, two processes" nccl
total=$((total + 20))
step 20 "profiles" export_profiles
step 10 "accuracy" accuracy
step 10 "neighbours, caches, launching" shares
write_report
echo "$report: $(grep -c '^| PASS' "$steps") passed, $(grep -c '^| FAIL' "$steps") failed, $(grep -c '^| SKIP' "$steps") skipped"
! grep -q '^| FAIL' "$steps"
