#!/usr/bin/env bash
# check_headers.sh <include folder> <compiler> [torch's folder]
# Every installed header compiles alone, those of jitstep::jit without torch, and names no library
# that the package hides.
set -euo pipefail
folder=$1 compiler=$2 torch=${3:-}
cd "$folder"
if grep -rnE '#include.*(nlohmann|openssl|CLI/|gtest)' .; then exit 1; fi

compile() {  # options for the compiler; headers come one a line
  xargs -P2 -I{} "$compiler" -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only \
    -I. "$@" -include {} -x c++ /dev/null
}
plain=$(ls jitstep/jit/*.h jitstep/args.h jitstep/version.h)
front=$(ls jitstep/*.h | grep -vxE 'jitstep/(args|version)\.h' || true)
compile <<<"$plain"
if [ -n "$front" ]; then
  compile -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include" <<<"$front"
fi
echo "$(wc -l <<<"$plain") headers without torch, $(grep -c . <<<"$front" || true) with it"
