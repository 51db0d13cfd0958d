#!/usr/bin/env bash
# Mutation testing. Applies one mutant after the other (tests/mutants/*.mutants, see tools/mutants.py) to a copy of the
# tree. One of the suites that a mutant names must fail, otherwise the mutant has survived. Prints the result of each.
# Fails if a mutant survives, does not fit the tree or does not build. Fails first if a suite fails without any mutant.
#
#   tools/mutate.sh [--from TABLE] [--shard I/N] [--table FILE] [--copy FOLDER] [--jobs N] [NAME...]
#
#   NAME     mutants to try (default: all)
#   --from   only those of tests/mutants/TABLE.mutants
#   --shard  only part I of N, such as 2/8
#   --table  also writes the results to FILE, as a Markdown table
#   --copy   folder of the copy and its build (default: build-mutants; it stays, so that the next run is fast). It must
#            be new, empty, or the folder of an earlier run
#   --jobs   tries N mutants at a time, each in its own copy: FOLDER, FOLDER-2, ... (default: 1)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
table=
copy="$root/build-mutants"
jobs=1
suite_seconds=900

usage() { sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p}' "${BASH_SOURCE[0]}"; }
fail() { echo "mutate: error: $*" >&2; exit 2; }

names=() choice=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit ;;
    --from | --shard | --table | --copy | --jobs)
      [ $# -ge 2 ] || fail "$1 needs a value"
      case $1 in
        --table) table=$(realpath -m "$2") ;;
        --copy) copy=$(realpath -m "$2") ;;
        --jobs) [[ $2 =~ ^[1-9][0-9]?$ ]] || fail "--jobs needs a number from 1 to 99, not '$2'"; jobs=$2 ;;
        *) choice+=("$1" "$2") ;;
      esac
      shift ;;
    -*) fail "there is no option $1. --help lists them." ;;
    *) names+=("$1") ;;
  esac
  shift
done
git -C "$root" rev-parse --git-dir >/dev/null 2>&1 || fail "$root is not a clone of the repository. git lists the files of the copy."
mutants() { python3 "$root/tools/mutants.py" "$@"; }
mutants check
for name in "${names[@]}"; do mutants field "$name" what >/dev/null || exit 2; done
if [ ${#names[@]} -eq 0 ]; then
  selected=$(mutants list "${choice[@]}")
  mapfile -t names <<<"$selected"
fi

# field NAME KEY: the value of a key in the mutant's table entry. Empty if it has no such key.
field() { mutants field "$1" "$2"; }

# The suites that mutants name, without duplicates.
suites_of() { for name in "$@"; do field "$name" suites; done | tr -s ' ' '\n' | sort -u; }

# True if the mutant changes only templates, and no build notices it.
changes_templates() {
  local touched
  touched=$(mutants apply "$1" --touched)
  ! grep -qv '^templates/' <<<"$touched" && [[ $(field "$1" suites) != *build:* ]]
}

# ---- the copy ----------------------------------------------------------------------------------

# The files of the tree that exist.
tree_files() {
  (cd "$root" && git ls-files -z --cached --others --exclude-standard | xargs -0 -r sh -c \
    'for file; do [ ! -e "$file" ] || printf "%s\0" "$file"; done' sh)
}

# Writes only files that differ, so that only they are rebuilt. This also removes a mutant of an interrupted run.
refresh_copy() {
  local file
  mkdir -p "$copy"
  [ -e "$copy/.deps" ] || ln -s "$root/.deps" "$copy/.deps"
  while IFS= read -r -d '' file; do
    if ! cmp -s "$root/$file" "$copy/$file"; then
      mkdir -p "$(dirname "$copy/$file")"
      cp --preserve=mode "$root/$file" "$copy/$file"
    fi
  done < <(tree_files)
  # Other files were deleted in the tree. The build would compile some of them.
  LC_ALL=C comm -z -13 <(tree_files | LC_ALL=C sort -z) <(files_of_copy | LC_ALL=C sort -z) | (cd "$copy" && xargs -0 -r rm -f)
}
files_of_copy() {
  (cd "$copy" && find . \( -path ./build -o -path ./.deps -o -path "./kernels*" -o -path ./.mutate \) -prune \
    -o -type f -printf '%P\0')
}

# put_aside NAME saves the files that a mutant changes, and restore puts them back. The tree may have changed since.
put_aside() {
  rm -rf "$copy/.mutate/files" && mkdir "$copy/.mutate/files"
  (cd "$copy" && mutants apply "$1" --touched | xargs cp --parents --preserve=mode -t .mutate/files)
}
restore() { cp -r --preserve=mode "$copy/.mutate/files/." "$copy"; }

build() { "$copy/tools/build.sh" "$@" >"$log" 2>&1; }

# Kernels of the tree without a mutant.
kernels="$copy/kernels"

# run_suite PROGRAM FILTER CACHE: fails if the suite fails or exceeds the time limit. In the foreground, so that Ctrl-C
# reaches the suite.
run_suite() {
  (cd "$copy" && JITSTEP_CACHE_DIR=$3 timeout --foreground "$suite_seconds" "build/tests/$1" --gtest_filter="$2" --gtest_brief=1) \
    >"$log" 2>&1
}

# first_failure SUITE...: prints the first suite that fails in the copy, or nothing. The suites run on a copy of the
# cache: a mutant may damage the cache, and a kernel that a mutant did not change need not be compiled again.
first_failure() {
  local suite found='' cache="$copy/kernels_of_mutant"
  rm -rf "$cache" && mkdir -m 700 "$cache" || fail "cannot create $cache"
  cp -rp "$kernels/." "$cache"
  for suite in "$@"; do
    case $suite in build:*) continue ;; esac
    run_suite "${suite%%:*}" "${suite#*:}" "$cache" || { found=$suite; break; }
  done
  rm -rf "$cache"
  echo "$found"
}

use_nvrtc() {
  local library
  library=$(compgen -G "$root/.deps/venv/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.*" | head -n 1 || true)
  if [ -n "$library" ] && [ -z "${JITSTEP_NVRTC:-}" ]; then export JITSTEP_NVRTC=${library%/*}; fi
}

# Checks that without a mutant everything builds, and that every suite has tests and passes. The suites of mutants of
# templates must pass with the templates of a folder.
check_suites() {
  local name suite folder on_folder programs=() of_templates=()
  mapfile -t programs < <(suites_of "${names[@]}" | sed 's/^build://; s/:.*//' | sort -u)
  for name in "${names[@]}"; do ! changes_templates "$name" || of_templates+=("$name"); done
  on_folder=$(suites_of "${of_templates[@]}")
  echo "mutate: building ${programs[*]} in $copy"
  build "${programs[@]}" || { tail -n 30 "$log" >&2; fail "the tree does not build"; }
  for suite in $(suites_of "${names[@]}" | grep -v '^build:'); do
    folder=
    ! grep -qxF "$suite" <<<"$on_folder" || folder="$copy/templates"
    "$copy/build/tests/${suite%%:*}" --gtest_list_tests --gtest_filter="${suite#*:}" | grep -q '^  ' ||
      fail "$suite names no test"
    JITSTEP_TEMPLATES=$folder run_suite "${suite%%:*}" "${suite#*:}" "$kernels" ||
      { tail -n 30 "$log" >&2; fail "$suite fails without any mutant"; }
  done
}

# ---- one mutant --------------------------------------------------------------------------------

# noticed_by NAME: prints the suite that noticed the mutant in the copy, "the build", or nothing.
noticed_by() {
  local suite suites targets=() must_build=1
  read -ra suites < <(field "$1" suites)
  # The programs of the tree without a mutant can read changed templates. Only a mutant that survives needs a build.
  if changes_templates "$1"; then
    suite=$(JITSTEP_TEMPLATES="$copy/templates" first_failure "${suites[@]}")
    if [ -n "$suite" ]; then echo "$suite"; return; fi
  fi
  for suite in "${suites[@]}"; do
    targets+=("$(sed 's/^build://; s/:.*//' <<<"$suite")")
    case $suite in build:*) must_build= ;; esac
  done
  if ! build "${targets[@]}"; then
    if [ -z "$must_build" ]; then echo "the build"; else echo "error: it does not build, see $log"; fi
    return
  fi
  first_failure "${suites[@]}"
}

# try NAME: sets `verdict` and counts failures.
try() {
  local found equivalent
  equivalent=$(field "$1" equivalent)
  put_aside "$1"
  if ! mutants --tree "$copy" apply "$1" 2>"$log"; then
    verdict="error: it does not fit the tree"
  else
    found=$(noticed_by "$1")
    restore
    case $found in
      error:*) verdict=$found ;;
      "") verdict=${equivalent:+"no: $equivalent"} verdict=${verdict:-"NO: it survives"} ;;
      *) verdict=yes; [ -z "$equivalent" ] || verdict="error: noticed by $found, but declared equivalent" ;;
    esac
  fi
  case $verdict in yes | no:*) ;; *) failures=$((failures + 1)) ;; esac
}

# ---- the table ---------------------------------------------------------------------------------

write_table() {
  {
    echo "# Mutants of $(git -C "$root" rev-parse --short HEAD), $(date +%F)"
    echo
    echo "$(nproc) processors of $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(c++ --version | head -n 1)."
    echo
    echo "| mutant | what is broken | suites | noticed |"
    echo "|---|---|---|---|"
    printf '%s\n' "${rows[@]}"
  } >"$table"
}

# ---- several jobs ------------------------------------------------------------------------------

# folder_of JOB: the copy of a job, counted from 1.
folder_of() { if [ "$1" = 1 ]; then echo "$copy"; else echo "$copy-$1"; fi; }

# lines_of_jobs TABLE...: a line of arguments for each job, which tries every N-th mutant and writes its table.
lines_of_jobs() {
  local job i tables=("$@")
  for ((job = 0; job < $#; job++)); do
    printf '"%s" --table "%s"' "$(folder_of $((job + 1)))" "${tables[job]}"
    for ((i = job; i < ${#names[@]}; i += $#)); do printf ' %s' "${names[i]}"; done
    printf '\n'
  done
}

# Runs this script once per job. Fails if a job fails.
run_jobs() {
  local job tables=() status=0
  for ((job = 1; job <= jobs && job <= ${#names[@]}; job++)); do tables+=("$(folder_of "$job")/.mutate/table"); done
  rm -f "${tables[@]}"
  lines_of_jobs "${tables[@]}" | xargs -P "$jobs" -L 1 "$root/tools/mutate.sh" --copy || status=1
  [ -z "$table" ] || { mapfile -t rows < <(grep -h '^| `' "${tables[@]}"); write_table; }
  exit $status
}

[ "$jobs" = 1 ] || run_jobs

# ---- one job -----------------------------------------------------------------------------------

# A run deletes what the tree does not have.
[ ! -e "$copy" ] || [ -d "$copy/.mutate" ] || [ -z "$(ls -A "$copy")" ] ||
  fail "$copy has files that are not of an earlier run, and this run would delete them. Name a new or an empty folder."
"$root/tools/setup.sh"
mkdir -p "$copy/.mutate"
exec 8>"$copy/.mutate/lock"
flock -n 8 || fail "another run uses $copy. Wait for it, or choose another folder with --copy."
refresh_copy
rm -rf "$kernels" && mkdir -m 700 "$kernels"
log="$copy/.mutate/log"
use_nvrtc
check_suites
failures=0 rows=()
for name in "${names[@]}"; do
  start=$SECONDS
  try "$name"
  printf '%-40s %s (%d s)\n' "$name" "$verdict" $((SECONDS - start))
  suites=$(field "$name" suites)
  rows+=("| \`$name\` | $(field "$name" what | sed 's/|/\\|/g') | \`${suites// /\` \`}\` | $verdict |")
done
[ -z "$table" ] || write_table
echo "mutate: ${#names[@]} mutants, $failures failures"
[ $failures -eq 0 ]
