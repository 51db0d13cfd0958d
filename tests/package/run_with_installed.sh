#!/usr/bin/env bash
# run_with_installed.sh <library folder> <program> [arguments]
# Runs a program of the build with the libraries that were installed; fails where it would take others.
set -euo pipefail
folder=$1 program=$2
shift 2
export LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
found=$(ldd "$program" | sed -nE 's/.*(libjitstep[a-z_]*\.so[^ ]*) => ([^ ]+) .*/\2/p')
[ -n "$found" ] || { echo "$program links no library of jitstep's"; exit 1; }
for library in $found; do
  [ "$(dirname "$library")" = "$folder" ] || { echo "$program takes $library, not that of $folder"; exit 1; }
done
exec "$program" "$@"
