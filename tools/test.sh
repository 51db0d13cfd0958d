#!/usr/bin/env bash
# The tests, from a fresh clone: set up, build everything, run what needs no GPU and no long time.
# Arguments go to ctest and replace that choice: `tools/test.sh -L long`, `tools/test.sh -R codec`.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/tools/setup.sh"
"$root/tools/build.sh"

choice=("$@")
if [ $# -eq 0 ]; then choice=(-L cpu -LE long); fi
exec ctest --test-dir "$root/build" "${choice[@]}" --output-on-failure --progress -j2
