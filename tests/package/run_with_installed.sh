#!/usr/bin/env bash
# run_with_installed.sh <library folder> <program> [arguments]
# Runs a program of the build tree with the installed libraries. Fails if the loader would use others.
set -euo pipefail
folder=$1 program=$2
shift 2
export LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
found=$(ldd "$program" | sed -nE '/libjitstep_cuda_device/!s/.*(libjitstep[a-z_]*\.so[^ ]*) => (.+) \(0x.*/\2/p')
[ -n "$found" ] || { echo "$program links no jitstep library"; exit 1; }
while IFS= read -r library; do
  [ "$(dirname "$library")" = "$folder" ] || { echo "$program loads $library, not the one in $folder"; exit 1; }
done <<<"$found"
exec "$program" "$@"
