#!/usr/bin/env bash
# check_headers.sh <include folder> <compiler> alone                             those that need no torch
# check_headers.sh <include folder> <compiler> alone|together <torch's folder>   the others
# Every installed header compiles (alone: each as the first of a file; together: all in one file, as torch's
# headers take long) and names no library that the package hides.
set -euo pipefail
folder=$1 compiler=$2 how=$3 torch=${4:-}
cd "$folder"
if grep -rnE '#include.*(nlohmann|openssl|CLI/|gtest)' .; then exit 1; fi

plain='jitstep/(jit/.*|args|library|version)\.h'
headers=$(find jitstep -name '*.h' | sort)
flags=(-std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only -I.)
if [ -n "$torch" ]; then
  headers=$(grep -vxE "$plain" <<<"$headers")
  flags+=(-isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include")
else
  headers=$(grep -xE "$plain" <<<"$headers")
fi
if [ "$how" = together ]; then
  sed 's/.*/#include "&"/' <<<"$headers" | "$compiler" "${flags[@]}" -x c++ -
else
  xargs -P2 -I{} "$compiler" "${flags[@]}" -include {} -x c++ /dev/null <<<"$headers"
fi
echo "$(wc -l <<<"$headers") headers"
