#!/bin/sh
# examples.sh - every --help has examples, and they do what they say on files that such a page speaks of.
set -u
. "$(dirname "$0")/lib.sh"

# examples COMMAND...: the examples of a page.
examples ()
{
  COLUMNS=120 pipesim "$@" --help | awk '/^[^ ]/ { inside = 0 } inside { sub (/^  /, ""); print } /^Examples:$/ { inside = 1 }'
}

# actions COMMAND: its actions, one on a line.
actions ()
{
  pipesim "$1" --help | awk '/^Usage: .* (ACTION|COMMAND)/ { list = 1 } list && /^  [a-z]/ { print $1 }'
}

# The files that examples read.
cat >spec.ini <<END
[sweep]
schedule = 1f1b, zb-h1
devices = 2, 4
microbatches = 8, 16
costs = f=1ms,b=1ms,w=1ms
bandwidth-factor = 0.1, 1
END
printf 'layer,time,activation_bytes,parameter_bytes\na,1ms,1000,1000\nb,2ms,1000,1000\nc,1ms,1000,1000\n' >layers.csv
pipesim predict -s 1f1b -p 4 -m 8 --costs f=1ms,b=1ms,w=1ms -o 1f1b.json >/dev/null
pipesim schedule convert 1f1b -p 4 -m 8 --to native -o schedule.json
pipesim exec -s 1f1b -p 2 -m 4 --model tiny-gpt --device cpu --steps 2 --trace run.json >/dev/null
mkdir traces
cp run.json traces
for profile in here here quick; do
  pipesim calib import --db costs.db --profile $profile --model tiny-gpt run.json 2>/dev/null
done
pipesim calib export --db costs.db --profile here -o a.json
pipesim calib export --db costs.db --profile here -o here.json
pipesim calib export --db costs.db --profile quick -o b.json

# try COMMAND...: runs the examples of a page. Exit code 3 is an answer, too. Some measure for minutes or need several processes.
try ()
{
  examples "$@" >"$work/examples"
  while read -r line; do
    case $line in
      "pipesim calib run "* | "pipesim calib check "* | mpirun*) skip "$line" "measures for minutes, or needs MPI" ; continue ;;
    esac
    sh -c "$line" >"$work/stdout" 2>"$work/stderr" </dev/null
    case $? in
      0 | 3) result "$line" ;;
      *) result "$line" "exit code $?" "$(cat "$work/stderr")" ;;
    esac
  done <"$work/examples"
}

# The order makes what later examples read.
for command in predict exec search schedule partition models clusters plan advise sweep pareto best sensitivity compare diagnose plot report; do
  case $command in
    schedule) for action in list show convert validate lint; do try schedule $action; done ;;
    sweep) pipesim sweep spec.ini --db results.db 2>/dev/null; rm results.db; try sweep
           pipesim sweep spec.ini --db part-1.db --shard 1/2 2>/dev/null; mv results.db kept.db; try sweep merge ;;
    *) try $command ;;
  esac
done
for action in list show export import diff run check; do try calib $action; done

# Every command has a page with examples, whatever is added.
for command in $(pipesim help | awk '/^$/ { n++ } n == 2 && /^  [a-z]/ && $1 != "help" { print $1 }'); do
  for page in "$command" $(actions "$command" | sed "s/^/$command /" | tr ' ' '+'); do
    page=$(echo "$page" | tr '+' ' ')
    [ -n "$(actions "$command")" ] && [ "$page" = "$command" ] && continue
    n=$(examples $page | wc -l)
    if [ "$n" -ge 3 ]; then result "$page: three examples"; else result "$page: three examples" "it has $n"; fi
  done
done
finish
