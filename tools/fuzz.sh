#!/usr/bin/env bash
# Builds the fuzzers with clang and runs each one: `tools/fuzz.sh [SECONDS]` (default 60 for each). New inputs go to
# build-fuzz/corpus/NAME, and the next run starts from them.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=${1:-60}
"$root/tools/setup.sh" --fuzz
cmake -S "$root" --preset fuzz -DCMAKE_CXX_COMPILER="$(command -v clang++-14 || command -v clang++)" >/dev/null
cmake --build "$root/build-fuzz"
cd "$root"
for fuzzer in build-fuzz/tests/fuzz/*_fuzzer; do
  corpus="build-fuzz/corpus/${fuzzer##*/}"
  mkdir -p "$corpus"
  echo "${fuzzer##*/}: $seconds s"
  # Templates are examples of most of the texts that fuzzers read.
  "$fuzzer" -max_total_time="$seconds" -verbosity=0 "$corpus" templates/rules templates/codecs
done
