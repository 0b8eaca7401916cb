#!/bin/sh
# formats.sh - schedules go into other formats and come back, and are said what is wrong with them.
set -u
. "$(dirname "$0")/lib.sh"

samples=$G_TEST_SRCDIR/fixtures/torch
for format in compute comms; do
  to=torch-$format
  [ $format = compute ] || to=torch-comms-2.14
  step "interleaved as $to" pipesim schedule convert interleaved -p 4 -m 3 -v 2 --to $to -o $format.csv
  step "as PyTorch wrote it" cmp $format.csv "$samples/Interleaved1F1B_p4_v2_m3_$format.csv"
  step "read again" pipesim schedule convert $format.csv --to native -o $format.json
  step "valid" pipesim schedule validate $format.csv -p 4 -m 3 -v 2
done
step "says where it comes from" grep -q '"origin": "read from compute.csv (torch-compute)"' compute.json
step "one order" sh -c 'sed 1,4d compute.json >a && sed 1,4d comms.json >b && cmp a b'
step "predicted" pipesim predict --schedule comms.csv --costs f=1ms,b=1ms,w=1ms

# makespan FILE OPTION...: of its own program, or of the one that options ask for.
makespan ()
{
  file=$1
  shift
  pipesim predict --schedule $file --costs f=1ms,b=1ms,w=1ms,c=500us --comm rank --json "$@" | sed -n 's/.*"makespan_ns": *\([0-9]*\).*/\1/p'
}

# A file keeps its own sends and receives, unless an order is asked for.
for sample in "$samples-2.15"/*_comms.csv; do
  step "$(basename "$sample") again" sh -c "pipesim schedule convert '$sample' --to torch-comms -o again.csv && cmp '$sample' again.csv"
done
zb_v="zb-v -p 3 -m 8 --costs f=1ms,b=1.3ms,w=0.7ms,bw=2ms,c=100us"
for order in deferred planned; do
  step "$order order" pipesim schedule convert $zb_v --comm-order $order --to torch-comms -o $order.csv
  step "$order order again" sh -c "pipesim schedule convert $order.csv --to torch-comms -o again.csv && cmp $order.csv again.csv"
done
setting="zb-v -p 3 -m 8 --costs f=1ms,b=1ms,w=1ms,c=500us --comm rank"
for order in asap planned; do
  step "$order order" pipesim schedule convert $setting --comm-order $order --to torch-comms -o $order.csv
done
step "asap takes longer than planned" [ "$(makespan asap.csv)" -gt "$(makespan planned.csv)" ]
step "predicted as planned" [ "$(makespan planned.csv)" -eq "$(makespan $setting --comm-order planned)" ]
step "predicted as asked for" [ "$(makespan planned.csv --comm-order asap)" -eq "$(makespan asap.csv)" ]
step "order taken back" sh -c 'pipesim schedule convert planned.csv --comm-order asap --to torch-comms -o again.csv && cmp asap.csv again.csv'
step "scheduled nodes" pipesim schedule convert zb-h1 -p 2 -m 3 --to colossalai -o nodes.json
step "predicted" pipesim predict --schedule nodes.json --costs f=1ms,b=1ms,w=1ms
step "flags of a framework" sh -c "pipesim schedule convert 1f1b -p 4 -m 8 --model gpt-1.5b --cluster a100-80gb --to megatron |
  grep -qx -e '--pipeline-model-parallel-size 4'"
step "a search's best is no family, even where its file is called so" sh -c "! pipesim search -p 2 -m 4 -v 1 --placement loop --model tiny-gpt \
  --cluster a100-80gb --moves 50 -o 1f1b --to megatron >said 2>&1 && grep -q \"schedule './1f1b' is not available there\" said"
step "of a search's best" sh -c "pipesim search -p 2 -m 4 -v 1 --placement loop --model tiny-gpt --cluster a100-80gb --moves 50 -o best.json --to torchtitan |
  grep -qx -e '--parallelism.pipeline_parallel_degree 2' && pipesim schedule validate best.json"
step "trace" pipesim schedule convert 1f1b -p 2 -m 2 --costs f=1us,b=1us,w=1us,c=500ns --to chrome-trace -o predicted.json
step "compared with PyTorch's own" pipesim compare predicted.json "$G_TEST_SRCDIR/fixtures/profiler"
step "diagnosed" sh -c 'pipesim diagnose "$G_TEST_SRCDIR/fixtures/profiler" -t 0 >said'
step "as the order that it is" grep -q 'schedule profiler, the order of 1f1b: 2 devices, 2 stages, 2 microbatches' said
gzip -c "$G_TEST_SRCDIR/fixtures/profiler/a.pt.trace.json" >rank.json.gz
step "one rank, packed" sh -c 'pipesim compare rank.json.gz rank.json.gz 2>said'
step "said not to be all" grep -q 'rank.json.gz: holds 1 of the 2 ranks of its run' said

# what predict says: channels, and the iteration time where devices never meet
steady='pipedream -p 2 -m 4 --costs f=1us,bw=2us,c=500ns --comm rank'
step "trace with channels" pipesim schedule convert $steady --to chrome-trace -o converted.trace.json
step "the same" sh -c "pipesim predict --schedule $steady -o predicted.trace.json && cmp converted.trace.json predicted.trace.json"
for sync in '1f1b --sync bypass' pipedream 1f1b; do
  step "$sync predicted" sh -c "pipesim predict --schedule $sync -p 2 -m 4 --costs f=1us,bw=2us,o=20us -o a.json && \
    pipesim predict --schedule $sync -p 2 -m 4 --costs f=1us,bw=2us,o=20us -o a.trace.json"
  step "$sync runs as its trace" sh -c 'sed s/simulated/measured/ a.json >b.json && \
    sed "s/predicted (simulated)/measured/" a.trace.json >b.trace.json && pipesim compare a.json b.json --json >native && \
    pipesim compare a.json b.trace.json --json | cmp native - && pipesim compare a.trace.json b.json --json | cmp native -'
done
step "packed" sh -c 'pipesim predict -s 1f1b -p 2 -m 4 --costs f=1us,bw=2us,o=20us -o p.json.gz >/dev/null && gzip -dc p.json.gz | cmp - a.json && \
  pipesim predict -s 1f1b -p 2 -m 4 --costs f=1us,bw=2us,o=20us -o p.trace.json.gz >/dev/null && gzip -dc p.trace.json.gz | cmp - a.trace.json && \
  pipesim compare p.json.gz p.trace.json.gz | grep -q "^iteration .*+0.00 %" && \
  pipesim schedule convert 1f1b -p 2 -m 4 --to native -o s.json.gz && pipesim schedule convert 1f1b -p 2 -m 4 --to native -o - >s.json && \
  gzip -dc s.json.gz | cmp - s.json && pipesim schedule validate s.json.gz >/dev/null && head -c 60 s.json.gz >cut.gz && \
  ! pipesim schedule validate cut.gz 2>said && grep -q "cut.gz: cannot unpack: the file is cut off" said'
step "drawn with channels" sh -c '[ "$(pipesim schedule show gpipe -p 2 -m 4 --costs f=1us,bw=2us,c=2us --comm rank)" != \
  "$(pipesim schedule show gpipe -p 2 -m 4 --costs f=1us,bw=2us,c=2us)" ]'

export COLUMNS=1000
pipesim schedule lint zb-h1 -p 3 -m 4 2>lint.txt >lint.out
step "warnings are no failure" [ $? -eq 0 ]
step "lint speaks on stderr" grep -q 'zb-h1: warning: receives posted before computations that do not need them: [0-9]*, most.*; TORCH_DIST' lint.txt
step "lint counts on stdout" grep -q '^zb-h1: 0 errors, 1 warning for' lint.out
pipesim schedule lint zb-h1 -p 3 -m 4 --strict 2>lint.txt >lint.out
step "--strict fails on warnings" [ $? -eq 3 ]
step "nothing found" pipesim schedule lint gpipe -p 1 -m 2 --strict
for order in asap deferred planned; do
  pipesim schedule lint 1f1b -p 2 -m 4 --comm-order $order 2>lint.txt >lint.out
  pipesim schedule convert 1f1b -p 2 -m 4 --comm-order $order --to torch-comms -o order.csv 2>convert.txt
  step "lint of --comm-order $order is that of what convert writes" cmp lint.txt convert.txt
done
pipesim schedule lint 1f1b -p 2 -m 4 --comm-order deferred 2>lint.txt >lint.out
step "deferred messages deadlock" [ $? -eq 3 ]
step "deadlocks are errors" grep -q '^1f1b: 2 errors, 0 warnings for' lint.out
step "lint says what to do" grep -q 'error: .*; --comm-order asap and planned have none' lint.txt
pipesim schedule lint 1F1B -p 4 -m 3 2>lint.txt >lint.out
step "a framework refuses" [ $? -eq 3 ]
step "lint names the framework" grep -q '1F1B: error: pytorch: -m 3: the class wants as many as stages' lint.txt
pipesim schedule lint comms.csv 2>lint.txt >lint.out
step "lint of 2.14's" grep -q "warning: no waits for sends and reductions: PyTorch 2.15 refuses the file" lint.txt
COLUMNS=60 pipesim schedule lint zb-h1 -p 3 -m 4 2>lint.txt >lint.out
step "warnings fit the window" [ "$(awk '{ if (length > w) w = length } END { print w }' lint.txt)" -le 60 ]
unset COLUMNS
for action in show validate lint; do
  refuse 2 "--json: schedule $action prints text only" pipesim schedule $action gpipe -p 2 -m 1 --json
done
printf '0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\r\n1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\r\n' >crossed.csv
for action in validate lint; do
  refuse 1 "crossed.csv:2:1: 1RECV_F1: PyTorch would hand it 0SEND_F0, which rank 0 sends in its turn" \
    pipesim schedule $action crossed.csv
done
pipesim schedule show gpipe -p 2 -m 2 >show.txt
step "no colour into files" sh -c '! grep -q "$(printf "\033")" show.txt'

refuse 2 "native, torch-comms, torch-comms-2.14, torch-compute, colossalai, chrome-trace" pipesim schedule convert 1f1b -p 2 -m 2 --to csv -o x
printf '0F0,0B0,\r\n1F0,1B0junk\r\n' >junk.csv
refuse 1 "junk.csv:2:2: '1B0junk'" pipesim schedule validate junk.csv
refuse 1 "junk.csv:2:2: '1B0junk'" pipesim schedule lint junk.csv
printf 'hello\n' >text.csv
refuse 1 "text.csv: is no schedule" pipesim schedule validate text.csv
refuse 1 "folder.d: holds 0 traces" sh -c 'mkdir -p folder.d; pipesim compare predicted.json folder.d'

mkfifo pipe
cat pipe >read.json &
pipesim predict -s 1f1b -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms -o pipe >/dev/null
wait $!
step "a pipe that is read is written" grep -q pipesim-timeline read.json

# What a file says reaches a terminal without control characters, colours aside.
pipesim predict -s 1f1b -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms -o plain.json >/dev/null
pipesim schedule convert 1f1b -p 2 -m 2 --to native -o plain-schedule.json
for kind in plain plain-schedule; do
  sed 's/"1f1b"/"\\u001b]0;own\\u0007\\u001b[2J\\u009b31mred"/' $kind.json >$kind-escape.json
done
harmless ()
{
  "$@" >harmless.out 2>&1
  step "no control characters: $*" sh -c 'grep -q red harmless.out && ! sed "s/$(printf "\033")\[[0-9;]*m//g" harmless.out | LC_ALL=C grep -q "$(printf "[\001-\010\013-\037\177]\\|\302[\200-\237]")"'
}
harmless pipesim compare plain-escape.json plain.json
harmless pipesim diagnose plain-escape.json --time-limit 10ms
harmless pipesim plot timeline plain-escape.json --terminal
harmless env NO_COLOR=1 pipesim plot timeline plain-escape.json --terminal
harmless pipesim plot memory plain-escape.json --terminal
harmless pipesim predict -s plain-schedule-escape.json --costs f=1ms,b=1ms,w=1ms
harmless pipesim schedule show plain-schedule-escape.json

# Every kind of trace is a timeline.
for trace in fixtures/pytorch-2.15/zb-h1 fixtures/pytorch-2.15/1f1b-named fixtures/otel fuzz/corpus/nsys/megatron.sqlite; do
  path=$G_TEST_SRCDIR/$trace
  step "compare takes $trace" sh -c "pipesim compare '$path' '$path' | grep -q '^iteration .*+0.00 %'"
  if command -v gnuplot >/dev/null; then
    step "plot takes $trace" sh -c "pipesim plot timeline '$path' -o trace.svg && grep -q '</svg>' trace.svg"
  else
    skip "plot takes $trace" "no gnuplot"
  fi
done
mkdir shifted
real=$G_TEST_SRCDIR/fixtures/pytorch-2.15/1f1b-named
gzip -dc "$real/rank0.json.gz" >shifted/rank0.json
gzip -dc "$real/rank1.json.gz" | sed 's/\("baseTimeNanoseconds": [0-9]*\)000000000,/\1700000000,/' >shifted/rank1.json
step "a clock that is 0.7 s late" sh -c "pipesim compare '$real' shifted | grep -Eq '^iteration .*[+-]0\.[0-9]+ %'"

printf '(min, max) time across ranks (ms):\n    forward-compute ...: (1.00, 2.00)\n' >timers.log
refuse 1 "timers.log: is a log of Megatron-LM's timers, which has no timeline; its OpenTelemetry spans or NVTX ranges would be right, and --costs-from takes the log" \
  pipesim compare timers.log timers.log
log=$G_TEST_SRCDIR/fuzz/corpus/megatron-log/all.log
refuse 1 "all.log: is a log of Megatron-LM's timers, which has no timeline" pipesim diagnose "$log"
finish

# files of other programs, as they look: a trace of PyTorch's profiler (ts since 1970) without pipeline ranges, alone or in a folder,
# a schedule of PyTorch 2.4, the timers of Megatron-LM in 2021
mkdir traces.d
printf '{"schemaVersion": 1, "traceEvents": [\n{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 1702000000000000, "dur": 12}]}' >traces.d/r.json
for file in traces.d traces.d/r.json; do
  refuse 1 "holds no complete range of an action, such as PP:0F0 (docs/traces.md)" pipesim diagnose $file
  refuse 1 "holds no complete range of an action, such as PP:0F0 (docs/traces.md)" pipesim predict -s 1f1b -p 2 -m 2 --costs-from $file
done
refuse 1 "r.json: is a trace, which has times and no schedule; diagnose" pipesim schedule validate traces.d/r.json
printf '0F0,0BW0\r\n' >bw.csv
refuse 1 "bw.csv:1:5: '0BW0' is a whole backward as PyTorch wrote it until 2.5; B would be right" pipesim schedule validate bw.csv
printf ' iteration 2/ 9 | lm loss: 6.7E+00 |\ntime (ms) | forward-compute: 400.10 | backward-compute: 700.20\n' >old.log
refuse 1 "old.log: is a log of Megatron-LM before 2023, whose timers ('time (ms) |') are those of one rank" pipesim diagnose old.log
refuse 1 "--timing-log-option all, would be right" pipesim predict -s 1f1b -p 2 -m 2 --costs-from old.log
refuse 1 "junk.csv: is no timeline: neither pipesim-timeline/1 nor a trace with traceEvents" pipesim compare junk.csv junk.csv
refuse 2 "--cluster: 'a,b' has one of , ; # or a line end in it; one name without them would be right" \
  pipesim plan --model llama-3-8b --cluster a,b --global-batch 8
