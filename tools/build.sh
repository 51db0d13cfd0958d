#!/usr/bin/env bash
# Configures and builds the given targets (default: all). Runs as many jobs in parallel as memory allows.
#
#   JITSTEP_PRESET   preset: release (build/, the default), debug, clang, asan, tsan (build-NAME/)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=${JITSTEP_PRESET:-release}
build="$root/build"
[ "$preset" = release ] || build="$root/build-$preset"

# Compiling a source with torch's headers needs up to 2 GiB.
jobs=$(nproc)
by_memory=$(awk '/^MemAvailable:/ {print int($2 / (2 * 1024 * 1024))}' /proc/meminfo)
if [ "$by_memory" -lt "$jobs" ]; then jobs=$((by_memory > 1 ? by_memory : 1)); fi

third_party=()
if [ -n "${JITSTEP_THIRD_PARTY_DIR:-}" ]; then
  third_party=("-DJITSTEP_THIRD_PARTY_DIR=$JITSTEP_THIRD_PARTY_DIR")
fi
# The Python front end, if tools/setup.sh has installed what it needs. Python cannot load a module with sanitizers.
python="$root/.deps/venv/bin/python"
front_end=()
case "$preset" in release | debug | clang)
  if "$python" -c 'import nanobind, os, sys, sysconfig
sys.exit(sys.version_info < (3, 10) or not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null; then
    front_end=(-DJITSTEP_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$python")
  fi ;;
esac
mkdir -p "$root/.deps"
if ! cmake -S "$root" --preset "$preset" "${third_party[@]}" "${front_end[@]}" >"$root/.deps/configure.log" 2>&1; then
  cat "$root/.deps/configure.log" >&2
  exit 1
fi
echo "build: ${*:-all targets} in ${build#"$PWD/"}, parallel jobs: $jobs"
targets=()
if [ $# -gt 0 ]; then targets=(--target "$@"); fi
exec cmake --build "$build" -j "$jobs" "${targets[@]}"
