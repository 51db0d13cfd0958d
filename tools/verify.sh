#!/usr/bin/env bash
# The complete verification, in named parts (tools/verify_parts.txt). Runs each part that has not passed with its
# current files, and continues after a failure. Stop it at any time. The next run goes on with the missing parts.
#
#   tools/verify.sh                    runs all parts that are not up to date
#   tools/verify.sh --part NAME ...    runs only these parts
#   tools/verify.sh --status           prints the results
#   tools/verify.sh --write            writes the results to docs/project/verification.md
#
#   --parts FILE    another table of parts
#   --out FOLDER    folder of results and logs (default: .deps/verify)
#
# A result belongs to a commit, so the files of a part must be committed. Exit status: 0 all selected parts have passed,
# 1 a part has failed, 2 wrong usage.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
table="$root/tools/verify_parts.txt" out="$root/.deps/verify" action=run selected=()
page=docs/project/verification.md

usage() { sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p}' "${BASH_SOURCE[0]}"; }
fail() { echo "verify: error: $*" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit ;;
    --status | --write) action=${1#--} ;;
    --part | --parts | --out)
      [ $# -ge 2 ] || fail "$1 needs a value"
      case $1 in
        --part) selected+=("$2") ;;
        --parts) table=$(realpath "$2") ;;
        --out) out=$(realpath -m "$2") ;;
      esac
      shift ;;
    *) fail "there is no option $1. --help lists them." ;;
  esac
  shift
done

declare -A files commands
names=()
while IFS='|' read -r name some command; do
  names+=("$name") files[$name]=$some commands[$name]=$command
done < <(grep -v '^#' "$table" | sed 's/ *| */|/; s/ *| */|/')
[ ${#selected[@]} -gt 0 ] || selected=("${names[@]}")
for name in "${selected[@]}"; do
  [ -n "${commands[$name]:-}" ] || fail "there is no part $name. The parts are ${names[*]}."
done
cd "$root"
mkdir -p "$out"

# ---- results: one line per part in a file of its name, and one in the page ----------------------

# What every build reads, so that each part depends on it.
common=(CMakeLists.txt CMakePresets.json cmake tests/CMakeLists.txt tools/generate_classes tools/setup.sh tools/build.sh)

# on_files NAME GIT_COMMAND...: runs git on the part's files. The page is none of them, because it changes with each
# result.
on_files() {
  local paths
  read -ra paths <<<"${files[$1]}"
  git "${@:2}" -- "${paths[@]}" "${common[@]}" ":!$page"
}
same_files_as() { on_files "$2" diff --quiet "$1" 2>/dev/null; }
machine() { echo "$(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"; }
# The last result of a part: in the folder, or from another machine, in the page.
last_result() { cat "$out/$1" 2>/dev/null || sed -n "s/ | /\t/g; s/^| *$1\t\(.*\) |\$/\1/p" "$page" 2>/dev/null || true; }

# Reads the last result into result, commit, date, seconds and where (the machine).
load() {
  local line
  line=$(last_result "$1")
  IFS=$'\t' read -r result commit date seconds where <<<"${line:-$'not run\t-\t-\t-\t-'}"
}
# "passed", "failed" or "not run", and whether the part's files are still the same.
state() { if [ "$commit" = - ] || same_files_as "$commit" "$1"; then echo "$result"; else echo "$result, older files"; fi; }

# Two runs of a part would write one log.
run_locked() {
  [ -z "$(on_files "$1" status --porcelain)" ] || fail "commit the files of the part $1 first: ${files[$1]}"
  (
    flock -n 9 || { echo "verify: another run of this script runs the part $1" >&2; exit 1; }
    run_part "$1"
  ) 9>"$out/$1.lock"
}

run_part() {
  local start=$SECONDS commit result=passed
  commit=$(git rev-parse --short=12 HEAD)
  echo "verify: $1 runs, log in $out/$1.log"
  JITSTEP_VERIFY=1 bash -c "${commands[$1]}" >"$out/$1.log" 2>&1 </dev/null 9>&- || result=failed
  if ! same_files_as "$commit" "$1"; then
    echo "verify: $1 has no result, because its files changed while it ran"
    return 1
  fi
  printf '%s\t' "$result" "$commit" "$(date -u +%F)" $((SECONDS - start)) >"$out/$1.new"
  machine >>"$out/$1.new"
  mv "$out/$1.new" "$out/$1"
  echo "verify: $1 $result"
  [ "$result" = passed ] || { tail -n 20 "$out/$1.log"; return 1; }
}

status() {
  local row='%-27s %-21s %-12s %-10s %7s  %s\n'
  # shellcheck disable=SC2059
  printf "$row" part result commit date seconds machine
  for name in "${selected[@]}"; do
    load "$name"
    # shellcheck disable=SC2059
    printf "$row" "$name" "$(state "$name")" "$commit" "$date" "$seconds" "$where"
  done
}

# How many parts have a result.
results() {
  local count=0
  for name in "${names[@]}"; do
    load "$name"
    [ "$commit" = - ] || count=$((count + 1))
  done
  echo "$count"
}

write() {
  local text
  text=$({
    echo "# Verification"
    echo
    echo "\`tools/verify.sh\` runs every test, in parts. This page has the last result of each part."
    echo "$(results) of ${#names[@]} parts have a result. The script has not run the others."
    echo "A part does not run again while its files are the same."
    echo "\`tools/verify.sh --write\` writes it. A test fails if a result is more than 100 commits older than its files."
    echo
    echo "| part | result | commit | date | seconds | machine |"
    echo "|---|---|---|---|---:|---|"
    for name in "${names[@]}"; do
      load "$name"
      echo "| $name | $result | $commit | $date | $seconds | $where |"
    done
  })
  printf '%s\n' "$text" >"$page"
}

failures=0
run() {
  for name in "${selected[@]}"; do
    load "$name"
    if [ "$(state "$name")" = passed ]; then
      echo "verify: $name passed before, on $commit"
    else
      run_locked "$name" || failures=$((failures + 1))
    fi
  done
}

"$action"
[ $failures -eq 0 ]
