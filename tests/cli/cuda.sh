#!/bin/sh
# cuda.sh - pipesim exec --device cuda from the command line, on the emulation in PIPESIM_MODULE_DIR: pipelines compute what
# one device computes, and what is missing is said in one line.
set -u
. "$(dirname "$0")/lib.sh"

# model NAME PRECISION MLP
model ()
{
  model_ini heads=1 sequence=12 feed_forward=64 vocabulary=40 precision=$2 mlp=$3 flash_attention=true >"$1.ini"
}

# equal MODEL SCHEDULE OPTION...: the run's losses and gradients are those of one device, bit for bit, or $close.
close=bit-equal
equal ()
{
  what="$*: $close"
  model=$1
  schedule=$2
  shift 2
  output=$(pipesim exec --schedule "$schedule" "$@" --model "$model.ini" --device cuda --check --steps 2 2>&1)
  case $output in
    *"check against one device: $close"*) result "$what" ;;
    *) result "$what" "$output" ;;
  esac
}

model gpt bf16 gelu
model gpt32 fp32 gelu
model llama bf16 swiglu
{ cat gpt.ini; echo 'tied = true'; } >tied.ini
equal gpt zb-h1 -p 2 -m 4
equal gpt32 1f1b -p 4 -m 4
equal llama zb-h1 -p 4 -m 4
equal gpt interleaved -p 2 -m 2 -v 2
equal tied zb-v -p 2 -m 2
equal gpt 1f1b -p 4 -m 4 --sm-shares 40,30,20,10
equal tied zb-h1 -p 4 -m 4 --layout '|Etttt|L|'
equal llama zb-v -p 2 -m 2 --recompute full
pipesim schedule convert zb-h1 -p 2 -m 4 --to native -o kept.json
sed 's/"B\([13]\)\.\([01]\)"/"R\1.\2", &/g' kept.json >some.json
equal llama some.json
equal gpt pipedream -p 2 -m 3
equal gpt32 pipedream -p 4 -m 4
equal llama pipedream-2bw -p 2 -m 4
equal gpt zb-h1 -p 2 -m 4 --sync bypass
equal gpt32 zb-v -p 2 -m 4 --sync bypass --clip 0.001
equal llama 1f1b -p 4 -m 4 --sync bypass --clip 0.001
equal llama 1f1b -p 2 -m 4 --clip 0.5
equal llama gpipe -p 2 -m 3 --serve prefill --prompt 12 --chunk 3
equal gpt zb-v -p 2 -m 2 --serve prefill --prompt 8 --chunk even-work:4
equal gpt32 zb-v -p 2 --serve prefill --prompt 12:12 --chunk 5:4:2
equal gpt seq1f1b -p 2 -m 2 --slices 1:7:1:3
equal tied slimpipe -p 2 -m 2 --slices even-work:5
# Slices that are no multiple of a tile of 128 rows.
sed 's/layers = 4/layers = 2/; s/sequence = 12/sequence = 150/' llama.ini >long.ini
equal long seq1f1b -p 2 -m 1 --slices 1:131:18
export PIPESIM_CUDA_GRAPHS=1
equal llama interleaved -p 2 -m 3 --serve prefill --prompt 12 --chunk 4
equal gpt32 pipedream -p 4 -m 4
equal gpt 1f1b -p 2 -m 4 --sync bypass --clip 0.001
equal llama seq1f1b -p 2 -m 2 --slices 5:4:3
unset PIPESIM_CUDA_GRAPHS
# Streams that are late: what does not wait for them is found.
export PS_EMULATED_DELAY_US=500
equal llama dualpipe-v -p 2 -m 4
equal gpt zb-v -p 2 -m 3 --serve prefill --prompt 12 --chunk 4
equal llama slimpipe -p 2 -m 4 --slices 7:4:1
equal gpt 1f1b -p 4 -m 4
equal tied zb-h1 -p 2 -m 4 --ahead 1 --clip 0.5
PS_EMULATED_GPUS=2 equal gpt zb-h1 -p 2 -m 4 --transport nccl
# Ops are given to the GPU before others have ended, but run one after the other, and memory is what it is then.
pipesim exec --schedule 1f1b -p 2 -m 4 --model gpt.ini --device cuda --steps 2 --trace ahead.json >ahead.txt 2>&1 \
  && pipesim exec --schedule 1f1b -p 2 -m 4 --model gpt.ini --device cuda --steps 2 --ahead 0 --trace waits.json >waits.txt 2>&1
for side in ahead waits; do
  sed -n '/"memory": \[/,/\]$/p' $side.json | grep -oE '\[[0-9]+, [0-9]+, [0-9]+\]' | awk -F '[][, ]+' '{ if ($4 > most[$2]) most[$2] = $4 } END { print most[0], most[1] }' >$side.peaks
done
[ -s waits.peaks ] && cmp -s ahead.peaks waits.peaks && set -- || set -- "$(cat ahead.peaks waits.peaks ahead.txt)"
result "memory of ops ahead" "$@"
# Devices that share layers add up in another order than one device does.
sed 's/heads = 1/heads = 2/' gpt32.ini >heads.ini
sed 's/heads = 1/heads = 4\nkv_heads = 2/' llama.ini >groups.ini
close=equal-within
equal heads 1f1b -p 2 -m 2 --tensor 2
equal groups dualpipe-v -p 2 -m 4 --tensor 2 --clip 0.5
unset PS_EMULATED_DELAY_US
equal heads seq1f1b -p 1 -m 2 --tensor 2
equal heads zb-h1 -p 1 -m 2 --tensor 2 --replicas 2 --recompute full --sync bypass --clip 0.001
close=bit-equal
refuse 1 "--offload: the cuda device keeps all activations" pipesim exec --schedule 1f1b -p 2 -m 4 --model gpt.ini --device cuda --offload 0.5
refuse 2 "--sm-shares: are for one copy of 2 devices; --replicas and --tensor make several" \
  pipesim exec --schedule 1f1b -p 2 -m 4 --model heads.ini --device cuda --tensor 2 --sm-shares 2,1
refuse 1 "device 0: shares GPU 0000:00:00.0 with device 0 of another copy; NCCL needs a GPU for each" \
  pipesim exec --schedule 1f1b -p 1 -m 4 --model heads.ini --device cuda --tensor 2 --transport nccl
refuse 2 "--tensor 4: does not divide kv_heads 2 of model" \
  pipesim exec --schedule 1f1b -p 1 -m 4 --model groups.ini --device cuda --tensor 4
refuse 1 "--zero 1: each device cuda holds the whole optimizer state" \
  pipesim exec --schedule 1f1b -p 2 -m 4 --model gpt.ini --device cuda --replicas 2 --zero 1

# Small parts choose other algorithms than the whole GPU, and here than large parts.
export PS_EMULATED_ALGORITHM=parts
equal gpt 1f1b -p 2 -m 2
equal gpt 1f1b -p 2 -m 2 --sm-shares 3,1
unset PS_EMULATED_ALGORITHM

# A training goes on from its checkpoint with the same losses, padded matrices, gated layers and rounded copies included.
for model in gpt gpt32 llama heads groups; do
  case $model in
    heads | groups) more='--tensor 2' alike=equal-within ;;
    *) more= alike=bit-equal ;;
  esac
  sed 's/vocabulary = 40/vocabulary = 257/' $model.ini >bytes.ini
  train="pipesim exec --schedule 1f1b -p 2 -m 2 --model bytes.ini --device cuda --text sums $more"
  { $train --steps 4 --losses whole.csv --save whole && $train --steps 2 --losses parts.csv --save half \
    && $train --steps 4 --losses parts.csv --load half --save parts --check; } >out.txt 2>&1
  set --
  grep -q $alike out.txt && cmp -s whole parts || set -- "$(cat out.txt)"
  [ "$(cut -d, -f1-3 whole.csv)" = "$(cut -d, -f1-3 parts.csv)" ] || set -- "$@" "$(cat whole.csv parts.csv)"
  result "$model: a training in two parts" "$@"
done
sed 's/flash_attention = true/flash_attention = false/' gpt32.ini | sed 's/vocabulary = 40/vocabulary = 257/; $a tied = true' >cpu.ini
{ pipesim exec --schedule 1f1b -p 2 -m 2 --model cpu.ini --device cuda --text sums --steps 2 --save half \
  && pipesim exec --schedule 1f1b -p 2 -m 2 --model cpu.ini --device cpu --text sums --steps 4 --load half --losses cpu.csv \
  && pipesim exec --schedule seq1f1b -p 2 -m 2 --model cpu.ini --device cuda --text sums --steps 4 --load half --losses gpu.csv; } >out.txt 2>&1
if paste -d, cpu.csv gpu.csv | awk -F, 'NR > 1 { d = $2 / $6 - 1; good += d < 1e-5 && d > -1e-5 } END { exit !(NR == 3 && good == 2) }'; then
  result "and goes on on the cpu device, and here in slices"
else
  result "and goes on on the cpu device, and here in slices" "$(cat cpu.csv gpu.csv out.txt)"
fi

pipesim exec --schedule 1f1b -p 2 -m 2 --model gpt32.ini --device cuda --steps 1 --json >run.json 2>run.txt
grep -q '"origin": "emulated"' run.json && set -- || set -- "$(cat run.txt run.json)"
result "an emulated run is not called measured" "$@"

# clock EXPECTED OPTION...: what a run prints where the management library reads 1755 MHz.
clock ()
{
  expected=$1
  shift
  LD_LIBRARY_PATH=$FAKE_NVML FAKE_NVML_CLOCKS=1755 \
    pipesim exec --schedule 1f1b -p 2 -m 2 --model gpt32.ini --device cuda --steps 1 "$@" >run.txt 2>&1
  grep -q "$expected" run.txt && set -- || set -- "$(cat run.txt)"
  result "$expected" "$@"
}
clock '^clock 1755 MHz, median over the steps of the slowest device$'
clock '"clock_mhz": 1755,' --json
sed 's/layers = 4/layers = 7/' gpt.ini >seven.ini
pipesim exec --schedule gpipe -p 7 -m 1 --model seven.ini --device cuda --steps 1 >run.txt 2>idle.txt
pipesim exec --schedule gpipe -p 4 -m 1 --model seven.ini --device cuda --steps 1 >run.txt 2>full.txt
[ "$(cat idle.txt)" = 'warning: device cuda: 7 parts of 16 multiprocessors leave 20 of 132 idle; there is room for 1 more of 16' ] \
  && [ ! -s full.txt ] && set -- || set -- "$(cat idle.txt full.txt)"
result "what lies idle is said" "$@"

shares ()
{
  refuse "$1" "$2" pipesim exec --schedule 1f1b -p 2 -m 2 --model gpt.ini --device "${4:-cuda}" --sm-shares "$3" --transport "${5:-threads}"
}
shares 2 "--sm-shares: '1,2,3' has 3 shares for 2 devices" 1,2,3
shares 2 "--sm-shares: '' has 0 shares for 2 devices" ''
shares 2 "--sm-shares: '0' is not an integer from 1 to 1000000" 0,1
shares 2 "--sm-shares: 'x' is not an integer from 1 to 1000000" 1,x
shares 2 "--sm-shares: device cpu does not split an accelerator" 1,2 cpu
shares 2 "--sm-shares: with transport nccl every device has a GPU to itself" 1,2 cuda nccl
refuse 1 "device 0: cuda device: a GPU can't be split into unequal shares: the driver has none" \
  env PS_EMULATED_NO_GREEN_CONTEXTS=1 pipesim exec --schedule 1f1b -p 2 -m 2 --model gpt.ini --device cuda --sm-shares 1,2

sed 's/bf16/fp16/' gpt.ini >half.ini
refuse 1 "device 0: cuda device: model has precision = fp16" \
  pipesim exec --schedule gpipe -p 2 -m 2 --model half.ini --device cuda
refuse 1 "cuda device: no NVIDIA driver here" \
  env PS_EMULATED_DRIVER=0 pipesim exec --schedule gpipe -p 2 -m 2 --model gpt.ini --device cuda
refuse 1 "cuda device: there is no pipesim-cuda.so in nowhere" \
  env PIPESIM_MODULE_DIR=nowhere pipesim exec --schedule gpipe -p 2 -m 2 --model gpt.ini --device cuda
echo 'no module' >pipesim-cuda.so
refuse 1 "cuda device: can't be loaded" \
  env PIPESIM_MODULE_DIR=. pipesim exec --schedule gpipe -p 2 -m 2 --model gpt.ini --device cuda
# Costs belong to the parts that they were measured on. The cpu device's times stand for a GPU's: stages of device 0 get share
# 2, those of device 1 share 1, and the shape that both hold both.
sed "s/true/false/" gpt32.ini >plain.ini
pipesim calib run --db cpu.db --profile cpu --model plain.ini -p 2 --max-samples 2 --time-limit 500ms >run.txt 2>&1 || cat run.txt
pipesim calib export --db cpu.db --profile cpu -o cpu.json
sed -e 's/^"device": "cpu"/"device": "cuda"/' -e 's/^"name": "cpu"/"name": "even"/' cpu.json >even.json
awk '/^"name"/ { print "\"name\": \"parts\",\n\"shares\": \"2,1\","; next }
     !/"subject": "op"/ { print; next }
     { of_both = /"shape": "layers=1"/
       sub (/"cache"/, (/embedding/ || of_both ? "\"share\": 2" : "\"share\": 1") ", \"cache\""); print
       if (of_both) { sub (/"share": 2/, "\"share\": 1"); print } }' even.json >parts.json
for side in even parts; do pipesim calib import "$side.json" --db gpu.db; done >run.txt 2>&1 || cat run.txt

# on SHARES PROFILE SCHEDULE OPTION...: a run on such parts with such costs.
on ()
{
  pipesim exec --model plain.ini --device cuda --sm-shares "$1" --db gpu.db --profile "$2" --schedule "$3" -p 2 -m 2 --steps 1
}
for schedule in 1f1b interleaved; do
  on 20,10 parts $schedule >out.txt 2>&1 && grep -q "predicted" out.txt && set -- || set -- "$(cat out.txt)"
  result "$schedule on uneven parts, predicted" "$@"
done
refuse 2 "--sm-shares: 1,2 here, but profile 'parts' of gpu.db was measured with 2,1 shares" on 1,2 parts 1f1b
refuse 2 "--sm-shares: 2,1 here, but profile 'even' of gpu.db was measured with equal shares" on 2,1 even 1f1b
refuse 2 "--sm-shares: equal here, but profile 'parts' of gpu.db was measured with 2,1 shares" on 1,1 parts 1f1b
refuse 2 "--device: cpu, but profile 'even' of gpu.db was measured on device cuda" \
  pipesim exec --model plain.ini --device cpu --db gpu.db --profile even --schedule 1f1b -p 2 -m 2
refuse 2 "placement V: costs measured with unequal shares of an accelerator hold for placement loop only" on 2,1 parts zb-v
refuse 1 "profile 'parts' was measured on 2 devices with shares 2,1: it has no costs for 4" \
  pipesim predict --schedule 1f1b -p 4 -m 4 --db gpu.db --profile parts
refuse 1 "costs under unequal shares do not give the time of a single layer" pipesim partition --db gpu.db --profile parts -p 2
pipesim search --db gpu.db --profile parts -p 2 -m 2 --moves 100 >out.txt 2>&1 && grep -q '^skipped: .*placement V: costs measured' out.txt \
  && grep -q '^loop' out.txt && set -- || set -- "$(cat out.txt)"
result "a search on uneven parts passes over placement V" "$@"

# What was measured runs: the algorithms of a profile, also of one that came as text, whatever this process would choose. Those
# of another library or GPU are passed over.
PS_EMULATED_ALGORITHM=1 PS_CALIB_DB=chosen.db "$PIPESIM_BINDIR/test-cuda-calib" -p /cuda-calib/profile >run.txt 2>&1 || cat run.txt
pipesim calib export --db chosen.db -o chosen.json
origin='^"choices": "Y2hvaWNlcyAxLCBjdUJMQVNMdCAwLCBlbXVs' # base64 of "choices 1, cuBLASLt 0, emul"
sed "s/$origin/\"choices\": \"Y2hvaWNlcyAxLCBjdUJMQVNMdCA5LCBlbXVs/" chosen.json >library.json # cuBLASLt 9
sed "s/$origin/\"choices\": \"Y2hvaWNlcyAxLCBjdUJMQVNMdCAwLCBlbXVt/" chosen.json >gpu.json     # emum
sed 's/^"choices": "[^"]*/"choices": "YWJj/' chosen.json >short.json
sed 's/^"choices": "/&!/' chosen.json >damaged.json
for name in chosen library gpu short; do pipesim calib import --db chosen.db --profile $name $name.json; done >run.txt 2>&1 || cat run.txt

# losses PROFILE ALGORITHM: of a run with that profile in a process that would choose ALGORITHM
losses ()
{
  PS_EMULATED_ALGORITHM=$2 pipesim exec --db chosen.db --profile "$1" --schedule 1f1b -p 1 -m 1 --device cuda --steps 2 --check --json 2>&1 \
    | grep -E '"(losses|check)":'
}
backwards=$(losses library 1)
for profile in p chosen; do
  found=$(losses $profile 0)
  [ -n "$found" ] && [ "$found" = "$backwards" ] && set -- || set -- "$found, not $backwards"
  result "choices of profile $profile are run" "$@"
done
for profile in library gpu; do
  found=$(losses $profile 0)
  case $found in "$backwards") set -- "$found" ;; *'"check": "bit-equal"'*) set -- ;; *) set -- "$found" ;; esac
  result "choices of another $profile are passed over" "$@"
done
refuse 1 "cuda device: 3 bytes are no choices of algorithms" \
  pipesim exec --db chosen.db --profile short --schedule 1f1b -p 1 -m 1 --device cuda
refuse 1 "damaged.json: choices: are no base64" pipesim calib import --db chosen.db --profile damaged damaged.json

# Every GPU command of docs/running.md runs as it stands there, for one step of a smaller model of the same kind and precision.
source=$G_TEST_SRCDIR/..

# shrink NAME
shrink ()
{
  sed -E 's/^layers = .*/layers = 8/; s/^hidden = .*/hidden = 32/; s/^(heads|kv_heads|microbatch_size) = .*/\1 = 1/;
    s/^sequence = .*/sequence = 4/; s/^(feed_forward|vocabulary) = .*/\1 = 40/' "$source/data/models/$1.ini" >"$1.ini"
}

sed -n 's/^    \(.*--device cuda.*\)/\1/p' "$source/docs/running.md" >commands
while read -r command; do
  name=$(echo "$command" | sed -n 's/.*--model \([^ ]*\).*/\1/p')
  shrink "$name"
  set -- $(echo "$command" | sed "s/.*pipesim //; s/--model $name/&.ini/") --steps 1
  PS_EMULATED_GPUS=4 pipesim "$@" >out.txt 2>&1 && set -- || set -- "$(cat out.txt)"
  result "docs: $command" "$@"
done <commands
grep -q -- '--device cuda .*--transport nccl' commands && set -- || set -- "no line of it runs NCCL"
result "docs: several GPUs" "$@"

refuse 2 "--sm-shares: needs all 2 devices at the same time; --sharing says 1" \
  pipesim calib run --db costs.db --profile none --model gpt.ini -p 2 --sharing 1 --device cuda --sm-shares 1,2
refuse 2 "the times of device cuda are not worth measuring" \
  pipesim calib run --db costs.db --profile none --model gpt.ini -p 2 -v 1 --device cuda --sm-shares 1,2
refuse 2 "the times of device cuda are not worth measuring" \
  pipesim calib run --db costs.db --profile none --model gpt.ini -p 2 --device cuda
finish
