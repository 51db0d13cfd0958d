#!/usr/bin/env bash
# Do the tests notice? Each patch in tests/mutants/ is a defect. It is applied to a copy of the tree, on its own;
# one of the suites that it names must fail, or it has survived. Fails if a mutant survives, does not apply or
# does not build, and before that if a suite fails without any mutant.
#
#   tools/mutate.sh [--table FILE] [--copy FOLDER] [NAME...]
#
#   NAME     mutants to try, by the patch's name without .patch (all when none is given)
#   --table  the Markdown table whose rows are renewed    (tests/mutants/RESULTS.md)
#   --copy   where the copy and its build folder lie      (build-mutants; kept, so that the next run is fast)
#
# A patch is what `git diff` writes, after comment lines:
#
#   # what: the sentence that says what is broken
#   # suites: PROGRAM:GTEST_FILTER [PROGRAM:GTEST_FILTER ...]    build:TARGET stands for a build that must fail
#   # equivalent: why no test can notice it                      optional; such a mutant must survive
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mutants="$root/tests/mutants"
table="$mutants/RESULTS.md"
copy="$root/build-mutants"
command="tools/mutate.sh"
suite_seconds=900

usage() { sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p}' "${BASH_SOURCE[0]}"; }
fail() { echo "mutate: error: $*" >&2; exit 2; }

names=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit ;;
    --table) table=$(realpath -m "$2"); shift ;;
    --copy) copy=$(realpath -m "$2"); shift ;;
    -*) usage >&2; exit 2 ;;
    *) names+=("$(basename "$1" .patch)") ;;
  esac
  shift
done
if [ ${#names[@]} -eq 0 ]; then
  for patch in "$mutants"/*.patch; do names+=("$(basename "$patch" .patch)"); done
fi

# ---- patches -----------------------------------------------------------------------------------

# field NAME KEY: what the patch says under a key; empty if nothing.
field() { sed -n "/^diff /q; s/^# $2: *//p" "$mutants/$1.patch"; }

check_patches() {
  local name
  for name in "${names[@]}"; do
    [ -e "$mutants/$name.patch" ] || fail "there is no $mutants/$name.patch"
    [ -n "$(field "$name" what)" ] || fail "$name.patch does not say '# what: ...'"
    [ -n "$(field "$name" suites)" ] || fail "$name.patch does not say '# suites: PROGRAM:GTEST_FILTER'"
  done
}

# All suites that are named, each once.
all_suites() { for name in "${names[@]}"; do field "$name" suites; done | tr -s ' ' '\n' | sort -u; }

# ---- the copy ----------------------------------------------------------------------------------

tree_files() { git -C "$root" ls-files -z --cached --others --exclude-standard; }

# Only what differs is written: that alone is built anew, and a mutant left by an interrupted run goes.
refresh_copy() {
  local file
  mkdir -p "$copy"
  [ -e "$copy/.deps" ] || ln -s "$root/.deps" "$copy/.deps"
  while IFS= read -r -d '' file; do
    if [ -e "$root/$file" ] && ! cmp -s "$root/$file" "$copy/$file"; then
      mkdir -p "$(dirname "$copy/$file")"
      cp --preserve=mode "$root/$file" "$copy/$file"
    fi
  done < <(tree_files)
  while IFS= read -r -d '' file; do
    [ -e "$root/$file" ] || rm -f "$copy/$file"
  done < <(cd "$copy" && find src include templates tests -type f -print0)
}

# The copy may lie in the tree of another repository, which is none of its business.
apply_patch() { (cd "$copy" && GIT_CEILING_DIRECTORIES=$(dirname "$copy") git apply "$@"); }

build() { "$copy/tools/build.sh" "$@" >"$log" 2>&1; }

# run_suite PROGRAM FILTER: fails as the suite does, or after a time limit. Kernels are compiled anew: what one
# mutant has cached is no business of the next.
run_suite() {
  local cache status=0
  cache=$(mktemp -d)
  (cd "$copy" && JITSTEP_CACHE_DIR=$cache timeout "$suite_seconds" "build/tests/$1" --gtest_filter="$2" --gtest_brief=1) \
    >"$log" 2>&1 || status=$?
  rm -rf "$cache"
  return $status
}

use_nvrtc() {
  local library
  library=$(compgen -G "$root/.deps/venv/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.*" | head -n 1 || true)
  if [ -n "$library" ] && [ -z "${JITSTEP_NVRTC:-}" ]; then export JITSTEP_NVRTC=${library%/*}; fi
}

# Without a mutant everything builds, and every suite has tests and passes.
check_suites() {
  local suite programs=()
  mapfile -t programs < <(all_suites | sed 's/^build://; s/:.*//' | sort -u)
  echo "mutate: building ${programs[*]} in $copy"
  build "${programs[@]}" || { tail -n 30 "$log" >&2; fail "the tree does not build"; }
  for suite in $(all_suites | grep -v '^build:'); do
    "$copy/build/tests/${suite%%:*}" --gtest_list_tests --gtest_filter="${suite#*:}" | grep -q '^  ' ||
      fail "$suite names no test"
    run_suite "${suite%%:*}" "${suite#*:}" || { tail -n 30 "$log" >&2; fail "$suite fails without any mutant"; }
  done
}

# ---- one mutant --------------------------------------------------------------------------------

# Prints what noticed the mutant that is in the copy, or nothing.
noticed_by() {
  local suite targets=() must_build=1
  for suite in $1; do
    targets+=("$(sed 's/^build://; s/:.*//' <<<"$suite")")
    case $suite in build:*) must_build= ;; esac
  done
  if ! build "${targets[@]}"; then
    if [ -z "$must_build" ]; then echo "the build"; else echo "error: it does not build, see $log"; fi
    return
  fi
  for suite in $1; do
    case $suite in build:*) continue ;; esac
    run_suite "${suite%%:*}" "${suite#*:}" || { echo "$suite"; return; }
  done
}

# try NAME: sets `verdict` and counts.
try() {
  local found equivalent
  equivalent=$(field "$1" equivalent)
  if ! apply_patch "$mutants/$1.patch" 2>"$log"; then
    verdict="error: it does not apply"
  else
    found=$(noticed_by "$(field "$1" suites)")
    apply_patch -R "$mutants/$1.patch"
    case $found in
      error:*) verdict=$found ;;
      "") verdict=${equivalent:+"no: $equivalent"} verdict=${verdict:-"NO: it survives"} ;;
      *) verdict=yes; [ -z "$equivalent" ] || verdict="error: noticed by $found, but said to be equivalent" ;;
    esac
  fi
  case $verdict in yes | no:*) ;; *) failures=$((failures + 1)) ;; esac
}

# ---- the table ---------------------------------------------------------------------------------

# Rows of mutants that were not tried this time stay as they are; those without a patch go.
write_table() {
  local rows old=()
  [ ! -e "$table" ] || mapfile -t old < <(grep -E '^\| `' "$table")
  rows=$(printf '%s\n' "${new_rows[@]}" "${old[@]}" | awk -F'`' '!seen[$2]++' | while IFS= read -r row; do
    name=${row#*\`} name=${name%%\`*}
    [ ! -e "$mutants/$name.patch" ] || printf '%s\n' "$row"
  done | sort)
  {
    echo "# Mutants: defects that the tests must notice"
    echo
    echo "Written by \`$command\` on $(date +%F), $(nproc) processors of"
    echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(c++ --version | head -n 1)."
    echo "A mutant is a patch in this folder; \`tools/mutate.sh --help\` describes its form."
    echo
    echo "| mutant | what is broken | suites | noticed | date |"
    echo "|---|---|---|---|---|"
    printf '%s\n' "$rows"
  } >"$table.new"
  mv "$table.new" "$table"
}

check_patches
"$root/tools/setup.sh"
refresh_copy
log="$copy/mutate.log"
use_nvrtc
check_suites
failures=0 new_rows=()
for name in "${names[@]}"; do
  start=$SECONDS
  try "$name"
  printf '%-40s %s (%d s)\n' "$name" "$verdict" $((SECONDS - start))
  suites=$(field "$name" suites)
  new_rows+=("| \`$name\` | $(field "$name" what | sed 's/|/\\|/g') | \`${suites// /\` \`}\` | $verdict | $(date +%F) |")
done
write_table
echo "mutate: ${#names[@]} mutants, $failures not as they should be; $table"
[ $failures -eq 0 ]
