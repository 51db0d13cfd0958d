#!/usr/bin/env bash
# The tests, from a fresh clone: set up, build everything, run what needs no GPU and no long time.
# Arguments go to ctest and replace that choice: `tools/test.sh -L long`, `tools/test.sh -R codec`.
#
# Each phase's time is printed. A test that hangs is stopped by its own limit (TIMEOUT in tests/CMakeLists.txt), so that
# a busy machine takes longer and fails nothing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# phase NAME COMMAND...: runs the command and says how long it took; fails as the command does.
phase() {
  local name=$1 start=$SECONDS status=0
  shift
  "$@" || status=$?
  echo "$name: $((SECONDS - start)) s"
  return "$status"
}

phase "set up" "$root/tools/setup.sh"
phase "build" "$root/tools/build.sh"

choice=("$@")
[ $# -gt 0 ] || choice=(-L cpu -LE long)
phase "tests" ctest --test-dir "$root/build" --output-on-failure --progress -j2 "${choice[@]}"
