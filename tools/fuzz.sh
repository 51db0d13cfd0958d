#!/usr/bin/env bash
# Builds the fuzzers with clang and runs each one: `tools/fuzz.sh [SECONDS]` (default 60 for each). New inputs go to
# build-fuzz/corpus/NAME, and the next run starts from them. Inputs that crash go to build-fuzz/crashes. Fails in the end
# if a fuzzer has failed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=${1:-60}
case "$seconds" in
  "" | *[!0-9]*) echo "usage: tools/fuzz.sh [SECONDS]" >&2; exit 2 ;;
esac
"$root/tools/setup.sh" --fuzz
cmake -S "$root" --preset fuzz -DCMAKE_CXX_COMPILER="$(command -v clang++-14 || command -v clang++)" >/dev/null
cmake --build "$root/build-fuzz"
cd "$root"
failed=()
for fuzzer in build-fuzz/tests/fuzz/*_fuzzer; do
  corpus="build-fuzz/corpus/${fuzzer##*/}"
  mkdir -p "$corpus" build-fuzz/crashes
  echo "${fuzzer##*/}: $seconds s"
  # Templates are examples of most of the texts that fuzzers read.
  "$fuzzer" -max_total_time="$seconds" -verbosity=0 -artifact_prefix=build-fuzz/crashes/ "$corpus" templates/rules \
    templates/codecs || failed+=("${fuzzer##*/}")
done
[ ${#failed[@]} -eq 0 ] || { echo "fuzz: failed: ${failed[*]}" >&2; exit 1; }
