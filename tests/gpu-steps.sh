# gpu-steps.sh - the steps of gpu.sh, one function each; gpu.sh sources this file. The last line that begins with "= " is the step's
# result. Exit code 0 passes, 77 skips. gpu.sh defines own (runs a program), skip, need_device and room (time left). $work is
# removed at the end; $details and $OUT are kept.

machine ()
{
  echo "to build with: $(command -v meson ninja pkg-config | paste -sd ' ' -)"
  for tool in gcc g++ nvcc python3 sqlite3 compute-sanitizer ncu nvidia-smi; do
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
  [ ! -x "$bin/pipesim" ] || { own pipesim --version; (cd "$bin" && sha256sum pipesim* 2>/dev/null); }
  echo "LD_LIBRARY_PATH: ${LD_LIBRARY_PATH:-}"
  echo "driver's library in $driver"
  nvidia-smi 2>/dev/null || skip "no nvidia-smi: no GPU here"
  nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,PERFORMANCE 2>/dev/null | head -120
  echo "= $(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv,noheader | head -1)"
}

# Loads the module and trains a tiny model on the whole GPU, then on two parts of it.
module ()
{
  need_device
  cat "$work/probe"
  own pipesim-exec --schedule 1f1b -p 2 -m 2 --model "$work/tiny.ini" --device "$device" --steps 2 --check || exit 1
  echo "= one device and two run"
}

find_nvcc ()
{
  command -v nvcc || ls /usr/local/cuda*/bin/nvcc 2>/dev/null | head -1
}

# Only a wrong result of the attention turns Hopper's kernels off for later steps; a timeout does not.
kernels ()
{
  need_programs
  [ -x "$bin/test-cuda-kernels" ] || skip "no kernel test"
  own test-cuda-kernels >"$details/kernels.txt" 2>&1
  code=$?
  cat "$details/kernels.txt"
  if grep -q '^ok.*# SKIP' "$details/kernels.txt"; then skip "$(sed -n 's/.*# SKIP //p' "$details/kernels.txt" | head -1)"; fi
  off=
  if grep -q '^not ok .*attention' "$details/kernels.txt"; then
    : >"$work/no-hopper"
    off="; from here on PIPESIM_CUDA_HOPPER=0"
  fi
  wrong=$(sed -n 's/^not ok [0-9]* //p; s/^Bail out! /bailed out: /p' "$details/kernels.txt" | head -3 | tr '\n' ';')
  echo "= $(grep -c '^ok' "$details/kernels.txt") of $(grep -cE '^(not )?ok' "$details/kernels.txt") kernels agree with the cpu table${wrong:+; wrong: $wrong}$off"
  exit $code
}

# Measures the speed of kernels. Lines printed before a timeout count.
kernel_figures ()
{
  need_programs
  [ -x "$bin/test-cuda-kernels" ] || skip "no kernel test"
  [ -z "${PIPESIM_MODULE_DIR:-}" ] || skip "times of an emulation are not worth measuring"
  under="timeout -k 2 $((limit - 5))" own test-cuda-kernels -m perf >"$details/figures.txt" 2>&1
  cat "$details/figures.txt"
  if grep -q '^ok.*# SKIP' "$details/figures.txt"; then skip "$(sed -n 's/.*# SKIP //p' "$details/figures.txt" | head -1)"; fi
  grep -q '^# measured: ' "$details/figures.txt" || exit 1
  echo "= $(grep -c '^# measured: ' "$details/figures.txt") kernels measured; $(grep 'by groups of warps, heads of 128, s =  4096' "$details/figures.txt" | sed 's/^# measured: //')"
}

find_checker ()
{
  command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1
}

# Every access of one step of a tiny model on two parts.
checked_step ()
{
  need_device
  checker=$(find_checker)
  [ -n "$checker" ] || skip "no compute-sanitizer"
  have nvidia-smi && nvidia-smi >/dev/null 2>&1 || skip "no GPU here"
  under="$checker --tool memcheck --error-exitcode 9" own pipesim-exec --schedule 1f1b -p 2 -m 2 --model "$work/tiny.ini" \
    --device cuda --steps 1 >"$work/checked" 2>&1
  code=$?
  head -60 "$work/checked"
  echo "= $(grep '^========= ERROR SUMMARY' "$work/checked" | sed 's/=* //')"
  exit $code
}

# sanitizer TOOL SECONDS SUBSET...: runs each subset of the kernel tests under its own limit.
sanitizer ()
{
  tool=$1
  seconds=$2
  shift 2
  checker=$(find_checker)
  [ -n "$checker" ] || skip "no compute-sanitizer"
  have nvidia-smi && nvidia-smi >/dev/null 2>&1 || skip "no GPU here"
  [ -x "$bin/test-cuda-kernels" ] || skip "no kernel test"
  clean= late= wrong=
  for subset in "$@"; do
    room $((seconds + 3)) || { late="$late, $subset"; continue; }
    echo "--- $subset"
    under="timeout -k 2 $seconds $checker --tool $tool --error-exitcode 9" own test-cuda-kernels -p "/cuda-kernels/$subset" \
      >"$work/checked" 2>&1
    code=$?
    head -60 "$work/checked"
    tail -3 "$work/checked"
    if grep -q 'Device not supported' "$work/checked"; then skip "compute-sanitizer does not support this device"; fi
    case $code in
      0) clean="$clean, $subset" ;;
      124 | 137) late="$late, $subset" ;;
      *) wrong="$wrong, $subset" ;;
    esac
  done
  echo "= clean: ${clean#, }${late:+; not done in time: ${late#, }}${wrong:+; FINDINGS: ${wrong#, }}"
  [ -z "$wrong" ]
}

device_tests ()
{
  need_programs
  [ -x "$bin/$1" ] || skip "no $1 in $bin"
  G_TEST_SRCDIR=$here own "$1" >"$work/tap" 2>&1
  code=$?
  cat "$work/tap"
  wrong=$(grep -E '^not ok|^Bail out' "$work/tap" | head -2 | tr '\n' ';')
  n=$(grep -c '^ok' "$work/tap")
  skipped=$(grep -c '^ok.*# SKIP' "$work/tap")
  [ "$n" -ne "$skipped" ] || [ $code -ne 0 ] || skip "$(sed -n 's/.*# SKIP //p' "$work/tap" | head -1)"
  said=$(sed -n 's/^# \([0-9]* multiprocessors, parts of at least\)/\1/p' "$work/tap" | head -1)
  echo "= $((n - skipped)) passed, $skipped skipped${wrong:+; $wrong}${said:+; $said}"
  exit $code
}

# queues N...: whether parts run at the same time with N hardware queues. The device sets 32 unless the user sets another number.
queues ()
{
  need_programs
  [ -x "$bin/test-cuda-parts" ] || skip "no test-cuda-parts in $bin"
  results=
  for n in "$@"; do
    CUDA_DEVICE_MAX_CONNECTIONS=$n own test-cuda-parts -p /cuda-parts/together >"$work/tap" 2>&1
    cat "$work/tap"
    if grep -q '# SKIP' "$work/tap"; then skip "$(sed -n 's/.*# SKIP //p' "$work/tap" | head -1)"; fi
    results="$results; with $n: $(sed -n 's/^# \([0-9]* of [0-9]*\) parts saw.*/\1/p' "$work/tap" | paste -sd , -)"
  done
  echo "= parts that saw all others run, by CUDA_DEVICE_MAX_CONNECTIONS: ${results#; }"
}

db=$work/costs.db

# Imports the profile of an earlier call in place of a calibration.
known_profile ()
{
  [ -n "$known" ] || skip "none given (--after FOLDER)"
  need_programs
  own pipesim-calib import --db "$db" --profile stages "$known" || exit 1
  echo "= $known"
}

# calibrate PROFILE MODEL OPTION...
calibrate ()
{
  need_device
  profile=$1
  name=$2
  shift 2
  if [ "$profile" = stages ] && [ -n "$known" ]; then skip "costs are those of $known"; fi
  G_MESSAGES_DEBUG=pipesim own pipesim-calib run --db "$db" --profile "$profile" --model "$work/$name.ini" --device "$device" --max-samples 200 \
    --time-limit 1s --again 0 "$@" >"$work/table" 2>"$work/talk"
  code=$?
  cat "$work/table" "$work/talk"
  sed -n 's/.*nccl: posting/posting/p' "$work/talk" >>"$work/posts"
  if grep -q 'not worth measuring' "$work/talk"; then skip "times of an emulation are not worth measuring"; fi
  [ $code -eq 0 ] || exit 1
  keep_profile "$profile"
  echo "= $(tail -1 "$work/talk"); $(grep -c ', converged)$' "$work/talk") converged; $(grep '^warning' "$work/talk" | head -1)"
}

calibrate_again ()
{
  calibrate again small -p 4 -v 1
  own pipesim-calib diff --db "$db" stages again | tee "$work/again" | tail -40
  echo "= $(tail -1 "$work/again" | sed 's/; [0-9]* in one only//') (p = 4, against ${known:-the calibration before})"
}

need_profile ()
{
  [ -f "$db" ] && own pipesim-calib export --db "$db" --profile "$1" >/dev/null 2>&1 || skip "no profile: calibration did not run"
}

# keep_profile NAME: that of stages is for later calls, the others are details. Without samples if they would be large.
keep_profile ()
{
  file=$details/profile-$1.json
  [ "$1" != stages ] || file=$OUT/profile-stages.json
  own pipesim-calib export --db "$db" --profile "$1" --samples -o "$file" || return
  [ "$(wc -c <"$file")" -lt 8000000 ] || own pipesim-calib export --db "$db" --profile "$1" -o "$file"
  if [ "$1" = stages ] && [ -n "$python" ]; then
    "$python" "$here/gpu-figures.py" shares "$file" | grep -v '^= ' >"$work/shares"
  fi
}

predictions ()
{
  need_profile stages
  own pipesim predict --schedule all -p "$1" -m "$2" --db "$db" --profile stages || exit 1
  echo "= every schedule predicted from the profile for p = $1, m = $2"
}

# execute DEVICES MICROBATCHES SCHEDULE: runs the schedule into $work/run.json and keeps its timelines. Exit code 77: the device
# has no code for it.
execute ()
{
  p=$1
  m=$2
  schedule=$3
  timeline=$details/p$p-$(basename "$schedule" .json)
  costs=
  # A stopped calibration may lack costs of this schedule. The schedule runs without a prediction.
  known_costs="--db $db --profile stages"
  if own pipesim predict --schedule "$schedule" -p "$p" -m "$m" $known_costs >/dev/null 2>&1; then
    costs="$known_costs --predicted $timeline-predicted.json.gz"
  fi
  own pipesim-exec --schedule "$schedule" -p "$p" -m "$m" --model "$work/small.ini" $costs --device "$device" --steps $iterations \
    --timeout 20s --check --trace "$timeline-measured.json.gz" --json >"$work/run.json" 2>"$work/run.err"
  code=$?
  if [ $code -ne 0 ]; then
    echo "$schedule: $(tail -1 "$work/run.err")"
    case $(tail -1 "$work/run.err") in
      *'runs schedules with one '*) return 77 ;;
    esac
    return $code
  fi
  echo "$(basename "$schedule"): $(grep -o '"check": "[^"]*"' "$work/run.json")"
}

# record DEVICES MICROBATCHES NAME: adds a line to runs.csv.
record ()
{
  [ -n "$python" ] || return 0
  "$python" "$here/gpu-figures.py" run "$1" "$2" "$3" "$work/run.json" >>"$OUT/runs.csv"
  "$python" "$here/gpu-figures.py" accuracy "$OUT/runs.csv" 2>/dev/null | grep -v '^= ' >"$work/accuracy"
}

# Records the GPU's clocks under load, and the reasons that limit them.
watch_clocks ()
{
  while sleep 3; do nvidia-smi -q -d CLOCK,PERFORMANCE; done >>"$details/clocks.txt" 2>/dev/null
}

families ()
{
  need_device
  ! nvidia-smi >/dev/null 2>&1 || watch_clocks &
  clocks=$!
  p=$1
  m=$2
  shift 2
  names=$*
  [ -n "$names" ] || names=$(own pipesim schedule list --json 2>/dev/null | grep -o '"name": "[^"]*"' | cut -d '"' -f 4)
  passed=0 failed=0 skipped=0 late=0
  for name in $names; do
    room 15 || { late=$((late + 1)); continue; }
    execute "$p" "$m" "$name"
    case $? in
      0) passed=$((passed + 1)); record "$p" "$m" "$name" ;;
      77) skipped=$((skipped + 1)) ;;
      *) failed=$((failed + 1)) ;;
    esac
  done
  kill_tree $clocks
  equal=$(grep -c "^$p,$m,.*bit-equal" "$OUT/runs.csv" 2>/dev/null)
  echo "= $passed schedules ran on $p stages, ${equal:-0} bit-equal to one device; $failed failed or differ, $skipped not for this executor, $late not tried in time"
  [ $failed -eq 0 ] && [ $passed -gt 0 ]
}

# once DEVICES MICROBATCHES SCHEDULE...: two steps each, without a prediction.
once ()
{
  iterations=2 db=$work/none.db OUT=$work families "$@"
}

# Calibrates, predicts and runs parts of unequal size.
uneven ()
{
  need_device
  [ "$device" = cuda ] || skip "device $device has no parts"
  shares=40,30,20,10 costs=
  (calibrate uneven small -p 4 -v 1 --sm-shares $shares --max-samples 40) && costs="--db $db --profile uneven"
  own pipesim-exec --schedule 1f1b -p 4 -m 8 --model "$work/small.ini" $costs --device cuda --steps 4 --sm-shares $shares --check --json \
    >"$work/run.json" 2>"$work/run.err" || { echo "= $(tail -1 "$work/run.err")"; exit 1; }
  echo "= $(grep -oE '"(check|iteration_ns|predicted_iteration_ns)": [^,]*' "$work/run.json" | tr '\n' ' ') with 1f1b on parts of 40 : 30 : 20 : 10"
}

# Two devices that share the layers of each of two stages, whose sums are rounded in another order.
shared ()
{
  need_device
  costs=
  (calibrate parts small -p 2 -v 1 --tensor 2 --max-samples 40) && costs="--db $db --profile parts"
  results=
  for schedule in 1f1b zb-v; do
    [ $schedule = 1f1b ] || costs=
    own pipesim-exec --schedule $schedule -p 2 -m 8 --model "$work/small.ini" $costs --device "$device" --tensor 2 --steps 4 --check --json \
      >"$work/run.json" 2>"$work/run.err" || { echo "= $schedule: $(tail -1 "$work/run.err")"; exit 1; }
    results="$results, $schedule: $(grep -oE '"(check|iteration_ns|predicted_iteration_ns)": [^,]*' "$work/run.json" | tr '\n' ' ')"
  done
  echo "= 2 stages on 2 devices each:${results#,}"
}

# Runs one schedule on four parts, before the long steps.
first_run ()
{
  need_device
  execute 4 8 "$1"
  code=$?
  echo "= $1 on 4 parts: $(grep -oE '"(check|iteration_ns)": [^,]*' "$work/run.json" | tr '\n' ' ')$(tail -1 "$work/run.err")"
  exit $code
}

# Runs techniques that change more than the order of ops, each against one device.
features ()
{
  need_device
  { cat "$work/tiny.ini"; echo 'tied = true'; } >"$work/tied.ini"
  good= late= bad=
  while read -r file schedule options; do
    room 5 || { late="$late, $file $schedule $options"; continue; }
    if own pipesim-exec --schedule $schedule -p 4 -m 8 --model "$work/$file.ini" --device "$device" --steps 2 --check $options </dev/null >"$work/run.txt" 2>&1 \
      && grep -q ': bit-equal' "$work/run.txt"; then
      good="$good, $file $schedule $options"
    else
      bad="$bad, $file $schedule $options: $(tail -1 "$work/run.txt")"
    fi
  done <<TEXT
tiny seq1f1b
tied 1f1b
tied zb-h1 --sync bypass --clip 0.5
tiny chimera --recompute full
tiny pipedream-2bw
TEXT
  echo "= bit-equal:${good#,}${late:+; not done in time:${late#,}}${bad:+; NOT:${bad#,}}"
  [ -z "$bad" ]
}

# variants VARIABLE|--OPTION VALUE...: repeats one run with each value of an environment variable of the cuda device or an option, on
# 4 parts.
variants ()
{
  need_device
  [ "$device" = cuda ] || skip "device $device knows no $1"
  variable=$1 steps=12 parts=${parts:-4} option=
  shift
  [ -z "${PIPESIM_MODULE_DIR:-}" ] || steps=2
  times=
  for value; do
    case $variable in
      --*) option="$variable $value" ;;
      *) export "$variable=$value" ;;
    esac
    own pipesim-exec --schedule 1f1b -p $parts -m $((parts * 2)) --model "$work/small.ini" --device cuda --steps $steps --json $option \
      >"$work/run.json" 2>"$work/run.err" || { echo "= $variable=$value: $(tail -1 "$work/run.err")"; exit 1; }
    times="$times, $value $(sed -n 's/.*"iteration_ns": \([0-9]*\),*/\1/p' "$work/run.json" | head -1) ns"
  done
  echo "= iteration of 1f1b on $parts parts by $variable:${times#,}"
}

# ahead PARTS N...
ahead ()
{
  parts=$1
  shift
  variants --ahead "$@"
}

# Uses any calibration of this call.
self_send ()
{
  [ "$device" = cuda ] || skip "NCCL is for GPUs"
  for profile in layer stages; do
    own pipesim-calib show --db "$db" --profile $profile 2>/dev/null
  done >"$work/shown"
  [ -s "$work/shown" ] || skip "no profile: calibration did not run"
  grep '^nccl-self' "$work/shown" || skip "no NCCL module, or no library for it"
  cat "$work/posts"
  echo "= $(grep -c '^nccl-self' "$work/shown") sizes of messages of the GPU to itself measured; $(head -1 "$work/posts")"
}

# searched DEVICES MICROBATCHES: searches the best schedule of each placement with one copy of the weights.
searched ()
{
  need_profile stages
  ran=
  for placement in V loop; do
    room 12 || break
    own pipesim search -p "$1" -m "$2" --placement $placement --db "$db" --profile stages --memory-limit 100GiB --time-limit 3s \
      -o "$work/searched-$placement.json" || exit 1
    execute "$1" "$2" "$work/searched-$placement.json" || { echo "= $(tail -1 "$work/run.err")"; exit 1; }
    record "$1" "$2" "searched-$placement"
    ran="$ran $placement"
  done
  echo "= the best orders that search found ran, too, placed in:$ran"
}

# Compares predicted and executed times op by op, for every schedule that ran.
compared ()
{
  need_profile stages
  for predicted in "$details"/p*-predicted.json.gz; do
    measured=${predicted%-predicted.json.gz}-measured.json.gz
    [ -f "$measured" ] || continue
    echo "--- $(basename "${predicted%-predicted.json.gz}")"
    own pipesim compare "$predicted" "$measured"
  done >"$details/compare.txt"
  cat "$details/compare.txt"
  n=$(grep -c '^---' "$details/compare.txt")
  [ "$n" -gt 0 ] || skip "nothing ran"
  echo "= $n pairs of timelines kept and compared op by op"
}

layer ()
{
  calibrate layer layer -p 3 --sharing 1 -v 1
}

# Measures ops of a whole GPU while blocks hold multiprocessors, as a waiting NCCL receive does.
beside_blocks ()
{
  [ "$device" = cuda ] || skip "device $device has no multiprocessors to hold"
  (calibrate blocks layer -p 3 --sharing 1 -v 1 --blocks 0,4,8,16,32 --max-samples 20 --budget 50s)
  code=$?
  own pipesim-calib show --db "$db" --profile blocks | grep 'blocks=' || true
  exit $code
}

# Measures ops of the same model, each launched as one graph.
layer_graphs ()
{
  [ "$device" = cuda ] || skip "device $device knows no graphs"
  (PIPESIM_CUDA_GRAPHS=1 && export PIPESIM_CUDA_GRAPHS && calibrate graphs layer -p 3 --sharing 1 -v 1) || exit $?
  [ -n "$python" ] || skip "no python3"
  for profile in layer graphs; do
    own pipesim-calib export --db "$db" --profile $profile -o "$work/$profile-profile.json" || exit 1
  done
  "$python" "$here/gpu-figures.py" launching "$work/layer-profile.json" "$work/graphs-profile.json"
}

torch_layer ()
{
  [ -n "$python" ] || skip "no python3"
  rehearse=
  [ "$device" = cuda ] && [ -z "${PIPESIM_MODULE_DIR:-}" ] || rehearse=--rehearse
  # A timeout is no failure: figures in the file by then count. The compiler may be slow.
  timeout -k 2 50 "$python" "$here/gpu-layer.py" "$details/layer.json" $rehearse >"$work/torch" 2>&1
  [ $? -ne 77 ] || skip "$(tail -1 "$work/torch")"
  cat "$work/torch" "$details/layer.json" || exit 1
  own pipesim-calib export --db "$db" --profile layer -o "$work/layer-profile.json" 2>/dev/null
  "$python" "$here/gpu-figures.py" layer "$details/layer.json" "$work/layer-profile.json"
}

# Rates of products and attention over their shapes. Rows measured before a timeout count.
torch_rates ()
{
  [ -n "$python" ] || skip "no python3"
  rehearse=
  [ "$device" = cuda ] && [ -z "${PIPESIM_MODULE_DIR:-}" ] || rehearse=--rehearse
  timeout -k 2 $((limit - 5)) "$python" "$here/gpu-rates.py" "$OUT/rates.csv" $rehearse >"$work/torch" 2>&1
  [ $? -ne 77 ] || skip "$(tail -1 "$work/torch")"
  cat "$work/torch"
  n=$(grep -c '^[a-z]' "$OUT/rates.csv") || exit 1
  echo "= $((n - 1)) rates measured; bf16, 8192 x 7168 x 7168: $(grep '^product,bf16,tn,1,8192,7168,7168,' "$OUT/rates.csv" | sed 's/.*,//') TFLOP/s"
}

launches ()
{
  program=$bin/gpu-launch
  if [ ! -x "$program" ]; then
    nvcc=$(find_nvcc)
    [ -n "$nvcc" ] || skip "no nvcc"
    program=$work/gpu-launch
    "$nvcc" -std=c++17 -O3 -arch=sm_90 -o "$program" "$here/gpu-launch.cu" || exit 1
  fi
  LD_LIBRARY_PATH=$(cuda_path) "$program" >"$work/launches" 2>&1
  code=$?
  cat "$work/launches"
  [ $code -ne 77 ] || skip "$(tail -1 "$work/launches")"
  [ $code -eq 0 ] || exit 1
  echo "= $(tail -1 "$work/launches")"
}

# Two GPUs in one process, or one GPU in two processes: these take themselves for two hosts, so that NCCL accepts it twice.
# nccl OPTION...
nccl ()
{
  need_device
  [ "$device" = cuda ] || skip "NCCL is for GPUs"
  set -- --schedule 1f1b "$@" -m 4 --model "$work/small.ini" --device cuda --transport nccl --steps 2 --check --json --timeout 30s
  if [ "$(nvidia-smi -L 2>/dev/null | wc -l)" -ge 2 ]; then
    where="one process with two GPUs"
    own pipesim-exec "$@" >"$work/ranks" 2>&1
    code=$?
  else
    command -v mpirun >/dev/null || skip "one GPU only, and no mpirun"
    where="two processes on one GPU over loopback"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
    mpirun --oversubscribe -n 2 sh -c 'export NCCL_HOSTID="host-${PMIX_RANK:-$PMI_RANK}" LD_LIBRARY_PATH="$0"; exec "$@"' \
      "${bundle:+$bin/lib:}$(cuda_path)" "$bin/pipesim-exec" "$@" >"$work/ranks" 2>&1
    code=$?
  fi
  cat "$work/ranks"
  if grep -qE 'no pipesim-(nccl|mpi)\.so' "$work/ranks"; then skip "no module for NCCL, or for MPI"; fi
  [ $code -eq 0 ] || { echo "= $(grep -m 1 '^pipesim exec: ' "$work/ranks")"; exit 1; }
  echo "= $(grep -o '"check": "[^"]*"' "$work/ranks") of $where"
}
