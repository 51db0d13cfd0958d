#!/usr/bin/env bash
# check_headers.sh <include folder> <compiler>                   the headers that need no torch
# check_headers.sh <include folder> <compiler> <torch's folder>  the others
# Every installed header compiles alone and names no library that the package hides.
set -euo pipefail
folder=$1 compiler=$2 torch=${3:-}
cd "$folder"
if grep -rnE '#include.*(nlohmann|openssl|CLI/|gtest)' .; then exit 1; fi

plain='jitstep/(jit/.*|args|library|version)\.h'
headers=$(find jitstep -name '*.h' | sort)
include=(-I.)
if [ -n "$torch" ]; then
  headers=$(grep -vxE "$plain" <<<"$headers")
  include+=(-isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include")
else
  headers=$(grep -xE "$plain" <<<"$headers")
fi
xargs -P2 -I{} "$compiler" -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only \
  "${include[@]}" -include {} -x c++ /dev/null <<<"$headers"
echo "$(wc -l <<<"$headers") headers"
