#!/bin/sh
# completion.sh - writes completion for pipesim from what the programs print with --help, and from their errors, which list the
# values of an option.
#
#   completion.sh PIPESIM bash|zsh
set -eu
export LC_ALL=C.UTF-8 LANGUAGE= ASAN_OPTIONS=detect_leaks=0

pipesim=$1
shell=$2
known=$(mktemp)
trap 'rm -f "$known"' EXIT

# names COMMAND...: the "name" members of a list as JSON.
names ()
{
  "$pipesim" "$@" --json | sed -n 's/^ *"name": "\(.*\)",$/\1/p' | tr '\n' ' '
}

families=$(names schedule list)
models=$(names models)
clusters=$(names clusters)

# words COMMAND...: prints the options of a command, then its actions, and names that may follow it.
words ()
{
  "$pipesim" "$@" --help | awk -v families="$families" -v models="$models" -v clusters="$clusters" '
    /^Usage: / { n = split ($3 " " $4 " " $5, word, " "); list = / (ACTION|COMMAND)/ }
    /^Usage: / && /NAME\|FILE/ && !list { print families }
    /^Usage: pipesim models/ { print models }
    /^Usage: pipesim clusters/ { print clusters }
    /^Usage: / && word[2] ~ /^[a-z]+(\|[a-z]+)+$/ { gsub (/\|/, " ", word[2]); print word[2] }
    /^  -/ {
      sub (/^ +/, ""); at = index ($0, "  "); option = at ? substr ($0, 1, at - 1) : $0
      sub (/[=[].*$/, "", option); n = split (option, names, ", ")
      for (i = 1; i <= n; i++) print names[i]
    }
    list && /^  [a-z]/ { print $1 }
    /^pipesim [a-z]+ [a-z]+ [A-Z]/ { print $3 }' | tr '\n' ' ' | sed 's/  */ /g; s/ $//'
}

# values OPTION=ARGUMENT COMMAND...: prints the values that the option may have, if there is a list of them.
values ()
{
  option=$1
  shift
  case $option in
    --schedule=*) echo "$families all"; return ;;
    --model=*) echo "$models"; return ;;
    --cluster=*) echo "$clusters"; return ;;
    --zero=*) echo 0 1; return ;;
    --device=* | --transport=*) set -- exec ;;
    --to=FORMAT) set -- schedule convert 1f1b ;;
    *FILE* | *=[A-Z] | *=SIZE* | *=FACTOR* | *=RATIO | *=PERCENT | *=TEXT | *=TIME | *=COSTS | *=COLUMN*) return ;;
  esac
  if ! grep -qF -e "$option	" "$known"; then
    printf '%s\t%s\n' "$option" "$("$pipesim" "$@" "${option%%=*}" '?' 2>&1 </dev/null |
      sed -n 's/; did you mean.*//; s/.* is not one of //p; s/.* is no [a-z]*; there are //p' | tr -d ',' | head -1)" >>"$known"
  fi
  grep -F -e "$option	" "$known" | cut -f 2
}

# case_of COMMAND...: prints a line of the first case below.
case_of ()
{
  echo "    '$*') echo '$(words "$@")' ;;"
}

# values_of COMMAND...: prints lines of the second case below.
values_of ()
{
  "$pipesim" "$@" --help | sed -n 's/^  \(-[a-zA-Z], \)\{0,1\}\(--[a-z-]*=[^ ]*\).*/\1\2/p' | while read -r line; do
    found=$(values "${line#-?, }" "$@")
    letter=
    case $line in -?,*) letter=" | '$* ${line%%,*}'" ;; esac
    long=${line#-?, }
    [ -z "$found" ] || echo "    '$* ${long%%=*}'$letter) echo '$found' ;;"
  done
}

topics=$("$pipesim" help | awk '/^$/ { n++ } n == 4 && /^  [a-z]/ { print $1 }')
commands=$("$pipesim" help | awk '/^$/ { n++ } n == 2 && /^  [a-z]/ { print $1 }')

# each FUNCTION: calls it for every command and action.
each ()
{
  for command in $commands; do
    [ "$command" != help ] || continue
    "$1" "$command"
    for action in $("$pipesim" "$command" --help | awk '/^Usage: .* (ACTION|COMMAND)/ { list = 1 } list && /^  [a-z]/ { print $1 }
                                                      /^pipesim [a-z]+ [a-z]+ [A-Z]/ { print $3 }'); do
      "$1" "$command" "$action"
    done
  done
}

[ "$shell" != zsh ] || echo '#compdef pipesim'
cat <<END
# $shell completion of pipesim, made from its help; do not edit.
_pipesim_words ()
{
  case \$1 in
    '') echo '$(echo $commands) --help --version' ;;
    help) echo '$(echo $topics $commands)' ;;
END
each case_of
cat <<END
  esac
}

_pipesim_values ()
{
  case \$1 in
END
each values_of
cat <<END
  esac
}

END

if [ "$shell" = zsh ]; then
  cat <<'END'
_pipesim ()
{
  local place='' word previous=${words[CURRENT-1]} offered
  for word in ${words[2,CURRENT-1]}; do
    if [[ $(_pipesim_words "${place:+$place }$word") ]]; then
      place="${place:+$place }$word"
    fi
  done
  if [[ ${words[CURRENT]} == --*=* ]]; then
    previous=${words[CURRENT]%%=*}
    compset -P '*='
  fi
  offered=$(_pipesim_values "$place $previous")
  [[ -n $offered ]] && compset -P '*,'
  compadd -- ${=offered:-$(_pipesim_words "$place")}
  _files
}
_pipesim "$@"
END
else
  cat <<'END'
_pipesim ()
{
  local place='' word previous=${COMP_WORDS[COMP_CWORD-1]} current=${COMP_WORDS[COMP_CWORD]} words before=
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $(_pipesim_words "${place:+$place }$word") ]]; then
      place="${place:+$place }$word"
    fi
  done
  words=$(_pipesim_values "$place $previous")
  if [[ $words && $current == *,* ]]; then
    before=${current%,*},
  fi
  COMPREPLY=($(compgen -P "$before" -W "${words:-$(_pipesim_words "$place")}" -- "${current#"$before"}"))
}
complete -o default -F _pipesim pipesim
END
fi
