#!/usr/bin/env bash
# Builds everything with sanitizers and runs the tests: `tools/sanitize.sh asan` (addresses, leaks, undefined behavior)
# or `tools/sanitize.sh tsan` (threads). The kernels that the tests compile are also instrumented. Further arguments go
# to ctest: `tools/sanitize.sh tsan -R Threads`.
#
# `tools/sanitize.sh python` does the same as asan for the Python module and its tests, in build-python-asan. Python and
# torch are not instrumented, and leaks are not checked: Python keeps objects until the end. Further arguments go to
# pytest: `tools/sanitize.sh python -k checkpoints`.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=${1:-}
case "$preset" in
  asan | tsan | python) shift ;;
  *) echo "usage: tools/sanitize.sh asan|tsan|python [arguments of ctest or pytest]" >&2; exit 2 ;;
esac

# Kernels are instrumented by a wrapper of the compiler. The run-time libraries come first in the process, because
# Python has none.
test_python() {
  local build="$root/build-python-asan" python="$root/.deps/venv/bin/python" library libraries=()
  cmake -S "$root" --preset asan -B "$build" -DJITSTEP_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$python" \
    -DJITSTEP_BUILD_TORCH=OFF -DJITSTEP_BUILD_TESTS=OFF -DJITSTEP_BUILD_EXAMPLES=OFF -DJITSTEP_INSTALL=OFF >/dev/null
  cmake --build "$build" -j "$(nproc)" --target jitstep_python
  printf '#!/bin/sh\nexec g++ -fsanitize=address,undefined -fno-sanitize-recover=all "$@"\n' >"$build/compiler"
  chmod +x "$build/compiler"
  for library in libasan.so libubsan.so libstdc++.so; do libraries+=("$(g++ -print-file-name=$library)"); done
  # the folder that ctest uses has the kernels of other compilers
  export JITSTEP_CXX="$build/compiler" JITSTEP_CACHE_DIR="$build/kernel_cache" PYTHONPATH="$build/python"
  export PYTHONMALLOC=malloc UBSAN_OPTIONS=print_stacktrace=1
  export ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1:new_delete_type_mismatch=0
  cd "$root"
  LD_PRELOAD="${libraries[*]}" exec "$python" -m pytest -q -p no:cacheprovider -m "not long" python/tests "$@"
}

"$root/tools/setup.sh"
if [ "$preset" = python ]; then test_python "$@"; fi
JITSTEP_PRESET=$preset "$root/tools/build.sh"
cd "$root"
exec ctest --preset "$preset" --no-tests=error --progress -j2 "$@"
