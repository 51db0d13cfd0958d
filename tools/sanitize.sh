#!/usr/bin/env bash
# Builds everything with sanitizers and runs the tests: `tools/sanitize.sh asan` (addresses, leaks, undefined behavior)
# or `tools/sanitize.sh tsan` (threads). The kernels that the tests compile are also instrumented. Further arguments go
# to ctest: `tools/sanitize.sh tsan -R Threads`.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=${1:-}
case "$preset" in
  asan | tsan) shift ;;
  *) echo "usage: tools/sanitize.sh asan|tsan [arguments of ctest]" >&2; exit 2 ;;
esac
"$root/tools/setup.sh"
JITSTEP_PRESET=$preset "$root/tools/build.sh"
cd "$root"
exec ctest --preset "$preset" --progress -j2 "$@"
