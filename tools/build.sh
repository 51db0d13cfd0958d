#!/usr/bin/env bash
# Configures and builds the given targets (default: all). Runs as many jobs in parallel as memory allows.
#
#   JITSTEP_PYTHON   1 (default): also builds the Python front end, if tools/setup.sh has installed what it needs. 0: not
#   JITSTEP_PRESET   preset: release (build/, the default), debug, clang, asan, tsan (build-NAME/)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=${JITSTEP_PRESET:-release}
build="$root/build"
[ "$preset" = release ] || build="$root/build-$preset"
grep -q "\"name\": \"$preset\"" "$root/CMakePresets.json" ||
  { echo "build: error: there is no preset $preset (JITSTEP_PRESET)" >&2; exit 2; }

# Compiling a source with torch's headers needs up to 2 GiB.
jobs=$(nproc)
kilobytes=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max) # of a container
if [ "$limit" != max ] && [ $((limit / 1024)) -lt "$kilobytes" ]; then kilobytes=$((limit / 1024)); fi
by_memory=$((kilobytes / (2 * 1024 * 1024)))
if [ "$by_memory" -lt "$jobs" ]; then jobs=$((by_memory > 1 ? by_memory : 1)); fi

third_party=()
if [ -n "${JITSTEP_THIRD_PARTY_DIR:-}" ]; then
  third_party=("-DJITSTEP_THIRD_PARTY_DIR=$JITSTEP_THIRD_PARTY_DIR")
fi
# Prints why the Python front end cannot be built. Prints nothing if it can.
missing_for_python() {
  local venv="$root/.deps/venv"
  case "$preset" in release | debug | clang) ;; *) echo "Python cannot load a module with sanitizers"; return 0 ;; esac
  compgen -G "$venv/lib/python3*/site-packages/torch/__init__.py" >/dev/null || { echo ".deps/venv has no torch"; return 0; }
  compgen -G "$venv/lib/python3*/site-packages/nanobind/__init__.py" >/dev/null || { echo ".deps/venv has no nanobind"; return 0; }
  "$venv/bin/python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || echo "Python has no headers (python3-dev)"
}

# The tests of the Python front end run with the others.
front_end=(-DJITSTEP_BUILD_PYTHON=OFF)
if [ "${JITSTEP_PYTHON:-1}" != 0 ]; then
  missing=$(missing_for_python)
  if [ -z "$missing" ]; then
    front_end=(-DJITSTEP_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$root/.deps/venv/bin/python")
  else
    echo "build: without the Python front end: $missing"
  fi
fi
mkdir -p "$build"
# Two runs of ninja in one folder would damage it.
exec 9>"$build/.lock"
flock -n 9 || { echo "build: waiting for another build in $build"; flock 9; }
log="$build/configure.log"
if ! cmake -S "$root" --preset "$preset" "${third_party[@]}" "${front_end[@]}" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
echo "build: ${*:-all targets} in ${build#"$PWD/"}, parallel jobs: $jobs"
targets=()
if [ $# -gt 0 ]; then targets=(--target "$@"); fi
exec cmake --build "$build" -j "$jobs" "${targets[@]}"
