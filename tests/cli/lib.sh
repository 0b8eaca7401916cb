# lib.sh - for command tests: makes a temporary folder, and has checks that print TAP. Source it; end with `finish`.

PATH=$(cd "$PIPESIM_BINDIR" && pwd):$PATH
export LC_ALL=C.UTF-8 G_DEBUG=fatal-criticals
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/folder"
cd "$work/folder" || exit 1
number=0
failed=0
newline='
'

# result NAME MESSAGE...: prints one test point. It has failed if there is a message.
result ()
{
  number=$((number + 1))
  name=$1
  shift
  if [ $# -eq 0 ]; then
    echo "ok $number - $name"
  else
    echo "not ok $number - $name"
    printf '%s\n' "not ok: $name" "$@" | sed 's/^/# /' >&2
    failed=1
  fi
}

# run NAME TEXT COMMAND...: exits with 0, and TEXT, where there is one, is in what it prints.
run ()
{
  name=$1
  text=$2
  shift 2
  "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
  code=$?
  set -- "$name"
  [ $code -eq 0 ] || set -- "$@" "exit code $code" "$(tail -20 "$work/stderr")"
  [ -z "$text" ] || cat "$work/stdout" "$work/stderr" | grep -qF -e "$text" || set -- "$@" "no '$text' in:" "$(cat "$work/stdout" "$work/stderr" | head -20)"
  result "$@"
}

# step NAME COMMAND...: exits with 0. What it prints stays in $work/stdout.
step ()
{
  name=$1
  shift
  run "$name" '' "$@"
}

skip ()
{
  number=$((number + 1))
  echo "ok $number - $1 # SKIP $2"
}

# refuse CODE TEXT COMMAND...: the command must exit with CODE and print nothing on stdout. It must print one line on stderr that
# holds TEXT and no control characters. It must change no file and make none.
refuse ()
{
  expected=$1
  text=$2
  shift 2
  before=$(find . -type f -printf '%p %s %C@\n')
  "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
  code=$?
  after=$(find . -type f -printf '%p %s %C@\n')
  said=$(cat "$work/stderr" && echo .) # the point keeps all ends of lines
  line=${said%"$newline".}
  case $* in
    *[[:cntrl:]]*) set -- "$(printf %s "$*" | tr '[:cntrl:]' ' ')" ;;
    *) set -- "$*" ;;
  esac
  set -- "$(printf %.150s "$1")"
  [ $code -eq "$expected" ] || set -- "$@" "exit code $code, not $expected"
  case $said in
    *"$newline"*"$newline"* | "$line") set -- "$@" "not one line on stderr:" ;;
  esac
  case $line in # the shell knows characters of one byte, grep those of U+0080 to U+009F, too
    *[![:print:]]*) ! printf %s "$line" | grep -q '[[:cntrl:]]' || set -- "$@" "control characters on stderr:" ;;
  esac
  case $line in *"$text"*) ;; *) set -- "$@" "no '$text' in:" ;; esac
  [ ! -s "$work/stdout" ] || set -- "$@" "stdout is not empty: $(head -1 "$work/stdout")"
  [ "$before" = "$after" ] || set -- "$@" "files changed: $before, and now: $after"
  [ $# -eq 1 ] || set -- "$@" "$said"
  result "$@"
}

# model_ini KEY=VALUE...: prints a small model with these keys.
model_ini ()
{
  echo '[model]'
  printf '%s\n' layers=4 hidden=32 heads=2 sequence=32 vocabulary=256 microbatch_size=1 precision=fp32 mlp=gelu flash_attention=false "$@" |
    awk -F = '{ value[$1] = $2 } END { for (key in value) print key " = " value[key] }'
}

finish ()
{
  echo "1..$number"
  exit $failed
}
