#!/usr/bin/env bash
# The tests, from a fresh clone: sets up, builds everything, and runs all tests except those that need a GPU or minutes.
# Arguments go to ctest and replace this selection: `tools/test.sh -L long`, `tools/test.sh -R codec`.
#
# Prints the time of each phase. ctest stops a test that hangs (TIMEOUT in tests/CMakeLists.txt). The limits are long,
# so that tests do not fail on a busy machine.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# phase NAME COMMAND...: runs the command and prints its time. Returns its exit status.
phase() {
  local name=$1 start=$SECONDS status=0
  shift
  "$@" || status=$?
  echo "$name: $((SECONDS - start)) s"
  return "$status"
}

case "${1:-}" in
  -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit ;;
esac
phase "set up" "$root/tools/setup.sh"
phase "build" "$root/tools/build.sh"

choice=("$@")
[ $# -gt 0 ] || choice=(-L cpu -LE long)
phase "tests" ctest --test-dir "$root/build" --no-tests=error --output-on-failure --progress -j2 "${choice[@]}"
