#!/usr/bin/env bash
# check_headers.sh <include folder> <compiler> alone                             those that need no torch
# check_headers.sh <include folder> <compiler> alone|together <torch's folder>   the others
# check_headers.sh <include folder> <compiler> too_old                           all, as C++17
# With `too_old` each says what is wrong and nothing else. Otherwise every installed header compiles (alone: each as the first of a file; together: all in one file, as torch's
# headers take long) and names no library that the package hides.
set -euo pipefail
folder=$1 compiler=$2 how=$3 torch=${4:-}
cd "$folder"
if grep -rnE '#include.*(nlohmann|openssl|CLI/|gtest)' .; then exit 1; fi

plain='jitstep/(jit/.*|args|library|version)\.h'
headers=$(find jitstep -name '*.h' | sort)
# A project that includes them by -I gets its own warnings.
flags=(-std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror -fsyntax-only -I.)
if [ "$how" = too_old ]; then
  for header in $(grep -xE "$plain" <<<"$headers"); do
    [ "$header" != jitstep/args.h ] || continue  # a template as well, which includes nothing
    said=$("$compiler" -std=c++17 -fsyntax-only -I. -include "$header" -x c++ /dev/null 2>&1) && exit 1
    first=$(grep -m1 'error:' <<<"$said")
    if ! grep -q 'C++20.*-std=c++20' <<<"$first" || [ "$(grep -c 'error:' <<<"$said")" -gt 2 ]; then
      printf '%s\n%s\n' "$header as C++17:" "$said"
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
