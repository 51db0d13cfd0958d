#!/usr/bin/env bash
# check_headers.sh <include folder> <compiler> alone                             headers that need no torch
# check_headers.sh <include folder> <compiler> alone|together <torch's folder>   the other headers
# check_headers.sh <include folder> <compiler> too_old                           all headers, as C++17
# `alone` compiles each header as the first one of a file. `together` compiles all in one file, because torch's headers
# take long. No header may include a library that the package hides. With `too_old`, each header must give one clear
# error.
set -euo pipefail
export LC_ALL=C  # compilers translate "error:"
folder=$1 compiler=$2 how=$3 torch=${4:-}
cd "$folder"
if grep -rnE '#include.*(nlohmann|CLI/|gtest)' .; then exit 1; fi

plain='jitstep/(jit/.*|hyper_params|reports|version)\.h'
headers=$(find jitstep -name '*.h' | sort)
# A project that includes the headers by -I applies its own warnings to them.
flags=(-std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror -fsyntax-only -I.)
if [ "$how" = too_old ]; then
  headers=$(grep -xE "$plain" <<<"$headers" || true)
  [ "$(wc -l <<<"$headers")" -gt 10 ] || { echo "almost no headers in $folder"; exit 1; }
  for header in $headers; do
    [ "$header" != jitstep/hyper_params.h ] || continue  # also a template file, which includes nothing
    errors=$("$compiler" -std=c++17 -fsyntax-only -I. -include "$header" -x c++ /dev/null 2>&1) && exit 1
    first=$(grep -m1 'error:' <<<"$errors")
    if ! grep -q 'C++20.*-std=c++20' <<<"$first" || [ "$(grep -c 'error:' <<<"$errors")" -gt 2 ]; then
      printf '%s\n%s\n' "$header as C++17:" "$errors"
      exit 1
    fi
  done
  exit
fi
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
