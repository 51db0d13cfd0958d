#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy on all sources except the tests, with the commands and precompiled
# headers of the preset `clang`. Arguments select files by regular expressions: `tools/tidy.sh src/jit/manifest`.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/tools/setup.sh" --tidy
# All targets, because clang-tidy reads their precompiled headers.
JITSTEP_PRESET=clang "$root/tools/build.sh"
if [ $# -eq 0 ]; then
  # The path may have characters with a meaning in regular expressions.
  set -- "^$(python3 -c 'import re, sys; print(re.escape(sys.argv[1]))' "$root")/(src|tools|examples|bench|tuning|python/src)/"
fi
python3 -c 'import json, re, sys
files = [entry["file"] for entry in json.load(open(sys.argv[1]))]
sys.exit(not any(re.search("|".join(sys.argv[2:]), file) for file in files))' \
  "$root/build-clang/compile_commands.json" "$@" || { echo "tidy: error: no source file matches $*" >&2; exit 1; }
exec run-clang-tidy-14 -quiet -p "$root/build-clang" "$@"
