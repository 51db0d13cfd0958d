#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy on all sources except the tests, with the commands and precompiled
# headers of the preset `clang`. Arguments select files by regular expressions: `tools/tidy.sh src/jit/manifest`.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/tools/setup.sh" --tidy
JITSTEP_PRESET=clang "$root/tools/build.sh" jitstep
if [ $# -eq 0 ]; then set -- "^$root/(src|tools|examples|bench)/"; fi
exec run-clang-tidy-14 -quiet -p "$root/build-clang" "$@"
