#!/usr/bin/env bash
# check_paths.sh <prefix> <torch's folder or ""> <folder>...
# Checks that no installed file names one of the folders. torch's folder may be inside one of them, and may be named.
set -euo pipefail
prefix=$1 torch=$2
shift 2
[ $# -gt 0 ] || { echo "no folder to look for"; exit 1; }
[ "$(find "$prefix" -type f | wc -l)" -gt 10 ] || { echo "almost no files in $prefix"; exit 1; }
failed=0
for folder in "$@"; do
  while IFS= read -r file; do
    if sed "s|${torch:-/nothing}||g" "$file" | grep -qaF "$folder"; then
      echo "${file#"$prefix/"} names $folder"
      failed=1
    fi
  done < <(grep -rlaF "$folder" "$prefix" || true)
done
exit $failed
