#!/usr/bin/env bash
# The tests, from a fresh clone: set up, build everything, run what needs no GPU and no long time.
# Arguments go to ctest and replace that choice: `tools/test.sh -L long`, `tools/test.sh -R codec`.
#
# Each phase's time is printed. Without arguments the tests are stopped after 40 minutes, three times what they
# take on two free cores: by then something hangs. A single test is stopped much earlier (TIMEOUT in tests/CMakeLists.txt).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
budget=2400

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

run=(ctest --test-dir "$root/build" --output-on-failure --progress -j2)
if [ $# -gt 0 ]; then
  phase "tests" "${run[@]}" "$@"
  exit
fi
status=0
phase "tests" timeout "$budget" "${run[@]}" -L cpu -LE long || status=$?
if [ "$status" -eq 124 ]; then
  echo "tests: stopped after $((budget / 60)) minutes, their budget; the last test named above may hang" >&2
fi
exit "$status"
