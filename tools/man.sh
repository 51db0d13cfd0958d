#!/usr/bin/env bash
# Writes the manual pages of the tool with help2man.
#
#   tools/man.sh HELP2MAN TOOL FOLDER
set -euo pipefail

help2man=$1 tool=$2 folder=$3
mkdir -p "$folder"
# help2man needs a program without arguments and prints its name in the page. So each command gets a script with the
# page's name.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# page NAME SUMMARY COMMAND...: a page of `jitstep COMMAND...`.
page() {
  local name=$1 summary=$2
  shift 2
  printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$tool" "$*" >"$work/$name"
  chmod +x "$work/$name"
  "$help2man" --no-info --section 1 --version-string "$version" --name "$summary" \
    --output "$folder/$name.1" "$work/$name"
}

version=$("$tool" --version | cut -d' ' -f2)
page jitstep "fused optimizer kernels for LibTorch"
for command in list show inspect memory convert tune bench check compile doctor cache completion; do
  page "jitstep-$command" "$("$tool" "$command" --help | head -1)" "$command"
done
