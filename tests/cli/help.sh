#!/bin/sh
# help.sh - man pages and completion list every command, action and option that --help has.
set -u
. "$(dirname "$0")/lib.sh"
docs=$(cd "$PIPESIM_BINDIR/docs" && pwd)

# What --help of a command says it takes, one option on a line.
options ()
{
  pipesim "$@" --help | grep -oE '^  (-[a-zA-Z], )?--[a-z0-9-]+' | sed 's/^ *//; s/, /\n/'
}

# Options that file $1 lacks. Roff writes \- for -; what follows = or [ is a value.
missing ()
{
  page=$1
  shift
  options "$@" | sort -u >"$work/options"
  sed "s/\\\\-/-/g; s/[=[][^ ,']*//g" "$page" | tr " ,'" '\n\n\n' | sort -u | comm -23 "$work/options" - | sed "s|.*|$*: $page lacks &|"
}

check ()
{
  page=$docs/pipesim-$1.1
  if [ ! -f "$page" ]; then
    result "$*" "no man page $page"
    return
  fi
  grep "^    '$*')" "$docs/pipesim.bash" >"$work/words" || echo "no '$*' in pipesim.bash" >"$work/words"
  messages=$(missing "$page" "$@"; missing "$work/words" "$@")
  [ $# -eq 1 ] || sed 's/\\-/-/g' "$page" | grep -q "^\.B pipesim[- ]$1 $2 " || messages="$messages no action $2 in $page"
  if [ "$messages" ]; then
    result "$*" "$messages"
  else
    result "$*"
  fi
}

# check_sections PAGE: a man page has the sections that users look for.
check_sections ()
{
  wrong=
  for section in NAME SYNOPSIS DESCRIPTION EXAMPLES FILES ENVIRONMENT 'SEE ALSO'; do
    grep -qx "\.SH $section" "$1" || wrong="$wrong no $section;"
  done
  if [ "$wrong" ]; then result "sections of $(basename "$1")" "$wrong"; else result "sections of $(basename "$1")"; fi
}

for page in "$docs"/pipesim*.1; do
  check_sections "$page"
done

# shows WORDS NOT COMMAND...: the help of a command has these words and not those.
shows ()
{
  words=$1 others=$2
  shift 2
  pipesim "$@" --help >"$work/page"
  wrong=
  for word in $words; do grep -qF -e "$word" "$work/page" || wrong="$wrong no $word;"; done
  for word in $others; do ! grep -qE -e "^ .* $word([ =]|\$)|^  $word([ =]|\$)" "$work/page" || wrong="$wrong has $word;"; done
  if [ "$wrong" ]; then result "$* shows its options" "$wrong"; else result "$* shows its options"; fi
}

# Pages have the options that their command uses, under headings, with defaults.
shows '--devices Costs: Machine: Channels: Training: Output: [default:' '' predict
shows '--json' '--devices --costs --to --output' schedule list
shows '--devices --costs' '--to --output --json' schedule show
shows '--to --output [required]' '--json' schedule convert
shows '--layers --model' '--comm --blocking --replicas --offload' partition
shows '--moves --slices --joint --objective' '--defer-head --group' search
shows '--device --transport' '--cuda-graphs --adjacent-replicas' exec
for width in 60 80 120 300; do
  widest=$(COLUMNS=$width pipesim predict --help | sed '/^Examples:$/,$d' | awk 'length > w { w = length } END { print w }')
  if [ "$widest" -le $width ] && [ "$widest" -le 120 ]; then result "help in $width columns"; else result "help in $width columns" "is $widest wide"; fi
done

for topic in '' costs settings formats units bounds; do
  widest=$(COLUMNS=80 pipesim help $topic | awk 'length > w { w = length } END { print w }')
  if [ "$widest" -le 80 ]; then result "help $topic in 80 columns"; else result "help $topic in 80 columns" "is $widest wide"; fi
done
below=$(COLUMNS=80 pipesim help | grep -A 1 '^  costs\.db  ' | tail -n 1)
if [ "$below" = '                  and exec' ]; then result "a cut line goes on below its text"; else result "a cut line goes on below its text" "$below"; fi

# stateless COMMAND...: the options of a page that take a value and say neither a default nor that they are required.
stateless ()
{
  COLUMNS=120 pipesim "$@" --help | awk '
    function flush () { if (option ~ /=/ && text !~ /\[default: |\[required\]/) print option; option = "" }
    /^  -/ { flush (); option = $1 $2; text = $0; next } /^   / { text = text $0; next } { flush () }'
}

# A mistyped name is refused, and the right one is offered.
refuse 2 "did you mean --microbatches?" pipesim predict --microbaches 4
refuse 2 "did you mean --sequence?" pipesim plan --sequense 4
result "plan suggests no option that it does not take" $(pipesim plan --layout even 2>&1 | grep "did you mean")
refuse 2 "did you mean --profile?" pipesim calib show --profle x
refuse 2 "did you mean predict?" pipesim predcit
refuse 2 "did you mean full?" pipesim predict --recompute ful
refuse 2 "did you mean planned?" pipesim predict --comm-order planed
refuse 2 "did you mean iteration?" pipesim predict -s 1f1b -p 2 -m 2 --costs f=1ms,bw=2ms --columns itertion
refuse 2 "did you mean settings?" pipesim help settigns
refuse 2 "did you mean timeline?" pipesim plot timline x.json
refuse 2 "did you mean show?" pipesim schedule shw 1f1b
refuse 2 "did you mean show?" pipesim calib shwo
refuse 2 "only growth is known" "$G_TEST_SRCDIR/../run" bench growht
refuse 2 "did you mean zb-h1?" pipesim predict -s zbh1 -p 2 -m 2 --costs f=1ms,bw=2ms
refuse 2 "did you mean llama-3-8b?" pipesim models lama-3-8b
refuse 1 "did you mean h100-80gb?" pipesim predict -s 1f1b -p 2 -m 2 --model tiny-gpt --cluster h100-80g

for command in $(pipesim help | awk '/^$/ { n++ } n == 2 && /^  [a-z]/ && $1 != "help" { print $1 }'); do
  check "$command"
  silent=$(stateless "$command")
  if [ "$silent" ]; then result "defaults of $command" "not stated:" "$silent"; else result "defaults of $command"; fi
  for action in $(pipesim "$command" --help | awk '/^Usage: .* (ACTION|COMMAND)/ { list = 1 } list && /^  [a-z]/ { print $1 }
                                                   /^pipesim [a-z]+ [a-z]+ [A-Z]/ { print $3 }'); do
    check "$command" "$action"
    silent=$(stateless "$command" "$action")
    if [ "$silent" ]; then result "defaults of $command $action" "not stated:" "$silent"; else result "defaults of $command $action"; fi
  done
  grep -qF "pipesim\\-$command" "$docs/pipesim.1"
  case $? in 0) result "$command in pipesim(1)" ;; *) result "$command in pipesim(1)" "is not there" ;; esac
done

# complete LINE WORDS...: what bash offers at the end of LINE holds these words.
complete ()
{
  line=$1
  shift
  offered=$(bash -c '. "$1"; COMP_WORDS=($2); [ "${2% }" = "$2" ] || COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _pipesim; echo " ${COMPREPLY[*]} "' bash "$docs/pipesim.bash" "$line" 2>&1)
  set -- "complete '$line'" "$@"
  name=$1
  shift
  wrong=
  for word; do
    case $offered in *" $word "*) ;; *) wrong="no $word in:$offered" ;; esac
  done
  if [ "$wrong" ]; then result "$name" "$wrong"; else result "$name"; fi
}

# topic NAME WORD...: the page of a topic holds these words.
topic ()
{
  name=$1
  shift
  pipesim help "$name" >"$work/page" 2>&1 || result "help $name" "failed"
  wrong=
  for word; do
    grep -qwF -e "$word" "$work/page" || wrong="$wrong no $word;"
  done
  if [ "$wrong" ]; then result "help $name" "$wrong"; else result "help $name"; fi
}

families=$(pipesim schedule list --wide | sed -n 's/^\([a-z0-9][^ ]*\): .*/\1/p' | tr '\n' ' ')
if [ "$families" = "$(pipesim schedule list --json | sed -n 's/^ *"name": "\(.*\)",$/\1/p' | tr '\n' ' ')" ]; then result "all families"; else result "all families" "$families"; fi
topic settings --devices --costs --replicas --sync --comm
topic formats native torch-comms colossalai
topic costs wact reduce --db
topic units KiB TiB
topic bounds forwards
pipesim calib --help >"$work/one"; pipesim help calib >"$work/two"
if cmp -s "$work/one" "$work/two"; then result "help calib"; else result "help calib" "is not calib --help"; fi
pipesim predict --help >"$work/one"; pipesim --help predict >"$work/two"
if cmp -s "$work/one" "$work/two"; then result "--help predict"; else result "--help predict" "is not predict --help"; fi
pipesim help memory >"$work/one"; pipesim -h memory >"$work/two"
if cmp -s "$work/one" "$work/two"; then result "-h memory"; else result "-h memory" "is not help memory"; fi
refuse 2 "'nix' is neither a command nor a topic; topics are: costs" pipesim help nix

if command -v bash >/dev/null; then
  complete 'pipesim ' predict plan calib --version
  complete 'pipesim pre' predict
  complete 'pipesim schedule ' list show convert
  complete 'pipesim schedule convert --t' --to
  complete 'pipesim help ' units predict
  complete 'pipesim sweep ' merge --db
  complete 'pipesim predict --schedule zb-' zb-h1 zb-v
  complete 'pipesim calib run --pr' --profile --precision
  complete 'pipesim calib run --w' --within
  complete 'pipesim predict --schedule 1f1b,zb-' 1f1b,zb-h1
  complete 'pipesim exec -s zb-' zb-h1
  complete 'pipesim schedule show zb' zb-h1
  complete 'pipesim predict --model ' llama-3-70b
  complete 'pipesim plan --cluster h' h100-80gb
  complete 'pipesim predict --comm ' latency pair
  complete 'pipesim predict --comm-order pl' planned
  complete 'pipesim predict --recompute ' none full
  complete 'pipesim exec --device ' cpu paced
  complete 'pipesim calib run --transport ' threads
  complete 'pipesim predict --to ' megatron
  complete 'pipesim schedule convert zb-h1 --to ' torch-compute
  complete 'pipesim plot ' timeline memory
  complete 'pipesim models ti' tiny-gpt
else
  skip completion "no bash"
fi

# offers LINE WORDS...: what zsh offers at the end of LINE, with compadd printing instead, holds these words.
offers ()
{
  line=$1
  shift
  offered=$(zsh -fc 'compset () { : }; _files () { : }; compadd () { shift; echo " $* " }
    words=(${=2}); [[ $2 = *\  ]] && words+=(""); CURRENT=$#words; . $1' zsh "$docs/_pipesim" "$line" 2>&1)
  wrong=
  for word; do
    case $offered in *" $word "*) ;; *) wrong="no $word in:$offered" ;; esac
  done
  if [ "$wrong" ]; then result "zsh '$line'" "$wrong"; else result "zsh '$line'"; fi
}

if command -v zsh >/dev/null; then
  offers 'pipesim ' predict plan
  offers 'pipesim schedule ' list convert
  offers 'pipesim predict --comm ' latency pair
  offers 'pipesim predict --model ' llama-3-70b
  offers 'pipesim calib run --' --within --profile
else
  skip 'completion for zsh' "no zsh"
fi
if command -v man >/dev/null && man --version >/dev/null 2>&1; then
  for page in "$docs"/pipesim*.1; do
    warnings=$(MANROFFSEQ='' man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null | grep -v "can't break line\|cannot adjust line\|cannot break line" | head -3)
    if [ "$warnings" ]; then result "man $(basename "$page")" "$warnings"; else result "man $(basename "$page")"; fi
  done
else
  skip man "no man"
fi
finish
