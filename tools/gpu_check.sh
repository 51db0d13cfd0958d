#!/usr/bin/env bash
# Builds jitstep on a machine with an NVIDIA GPU and a CUDA build of torch. Needs no network. Compares results with the
# CPU's bit by bit, checks streams and memory, and measures speed.
#
#   tools/gpu_check.sh [--out DIR] [--dry-run] [--without-torch] [--sample] PART...
#     headers  copies headers of installed packages to .third_party/, for a machine without these packages
#     build    builds the libraries, the tests that need a GPU and the benchmark in build-gpu/
#     bits     runs ctest -L gpu: results must have the same bits as the CPU's
#     cuda     checks streams, capture and memory; then runs compute-sanitizer on a sample
#     speed    prints times next to torch's fused optimizer and the bandwidth of a copy
#     tune     runs jitstep tune on a few kernels and stores the records
#     python   tests and measures the Python package that $PYTHON imports (PYTHONPATH may name it)
#   Without PART: build bits cuda speed tune. Each part takes less than 9 minutes, python up to 14. All but headers,
#   build and python need a build. The summary goes to DIR/gpu_<name>_<date>.txt (default bench/results), and JSON files
#   to the same folder.
#
#   --dry-run         runs everything that needs no GPU, in an existing build (--build DIR, default build)
#   --without-torch   skips everything that needs a CUDA build of torch; uses an existing build
#   --sample          tests one kernel of each kind, and tunes with one trial
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
third_party=${JITSTEP_THIRD_PARTY_DIR:-$root/.third_party}
python=${PYTHON:-python3}
out="$root/bench/results" build="$root/build-gpu" dry_run='' without_torch='' sample='' parts=() failures=0

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }
while [ $# -gt 0 ]; do
  case "$1" in
    --out | --build)
      [ $# -ge 2 ] || { echo "gpu_check: $1 needs a folder" >&2; exit 2; }
      if [ "$1" = --out ]; then out=$2; else build=$2 build_given=1; fi
      shift ;;
    --dry-run) dry_run=1 ;;
    --without-torch) without_torch=1 ;;
    --sample) sample=1 ;;
    --help | -h) usage; exit 0 ;;
    headers | build | bits | cuda | speed | tune | python) parts+=("$1") ;;
    *) echo "gpu_check: there is no part or flag $1. --help lists them." >&2; exit 2 ;;
  esac
  shift
done
if [ ${#parts[@]} -eq 0 ]; then parts=(build bits cuda speed tune); fi
if [ -n "$dry_run$without_torch" ] && [ -z "${build_given:-}" ]; then build="$root/build"; fi
mkdir -p "$out" "$build" || exit 1
out=$(cd "$out" && pwd) build=$(cd "$build" && pwd)
logs="$build/gpu_check"
mkdir -p "$logs" || exit 1

gpu_name() {
  local name=none
  if command -v nvidia-smi >/dev/null 2>&1; then
    name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 | tr -cs 'A-Za-z0-9\n' '-')
  fi
  echo "${name:-none}"
}

stem="gpu_$(gpu_name)_$(date +%F)"
summary="$out/$stem.txt"
# Runs that measure nothing write no results.
if [ -n "$dry_run" ]; then
  out=$logs summary="$logs/dry_run.txt" && : >"$summary"
elif [ "${parts[*]}" = headers ]; then
  out=$logs summary="$logs/headers.txt" && : >"$summary"
fi
say() { printf '%s\n' "$*" | tee -a "$summary"; }

running=
trap '[ -z "$running" ] || kill "$running" 2>/dev/null; exit 130' INT TERM

# step NAME SECONDS COMMAND...: runs a command with a time limit. Its output goes to a log. Reports the result and the
# time.
step() {
  local name=$1 limit=$2 log="$logs/$1.log" start=$SECONDS status
  shift 2
  # In the background, so that the trap can end it.
  timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1 &
  running=$!
  wait "$running"
  status=$? running=
  if [ $status -eq 0 ]; then
    say "  ok      $name ($((SECONDS - start)) s)"
    return 0
  fi
  failures=$((failures + 1))
  case $status in
    124 | 137) say "  FAILED  $name: stopped at its limit of $limit s" ;;
    *) say "  FAILED  $name: exit $status after $((SECONDS - start)) s" ;;
  esac
  tail -n 60 "$log" | cut -c1-300 | tee "$out/${stem}_$name.log"
  return 1
}

cannot() {
  failures=$((failures + 1))
  say "  FAILED  $1 cannot run: $2"
}

# ---- this machine ------------------------------------------------------------------------------

torch_root() { "$python" -c 'import os, torch; print(os.path.dirname(torch.__file__))' 2>/dev/null; }

# Uses the NVRTC that pip installs next to torch. If there is none, the library searches for one itself.
use_nvrtc() {
  local torch found
  if [ -n "${JITSTEP_NVRTC:-}" ] || ! torch=$(torch_root); then return 0; fi
  found=$(compgen -G "$torch/../nvidia/*/lib/libnvrtc.so.*" | head -n 1)
  if [ -n "$found" ]; then export JITSTEP_NVRTC=${found%/*}; fi
}

describe_machine() {
  say "gpu_check ${parts[*]}, $(date '+%F %H:%M')${dry_run:+, dry run}"
  say "  GPU: $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | paste -sd';' || true)"
  say "  $("${CXX:-c++}" --version 2>/dev/null | head -n 1); $(cmake --version | head -n 1); $(nproc) processors"
  say "  revision $(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)"
  local tool
  for tool in nvidia-smi compute-sanitizer cmake ctest ninja "$python"; do
    command -v "$tool" >/dev/null 2>&1 || say "  not found: $tool"
  done
}

# ---- the parts ---------------------------------------------------------------------------------

part_headers() {
  mkdir -p "$third_party" || return 1
  local from
  for from in /usr/include/nlohmann /usr/include/CLI /usr/src/googletest; do
    if [ ! -e "$from" ]; then cannot headers "no $from"; continue; fi
    cp -rLT "$from" "$third_party/${from##*/}" || cannot headers "$from cannot be copied"
  done
  say "  $third_party: $(du -sh "$third_party" | cut -f1)"
}

part_build() {
  local torch generator=() own=()
  torch=$(torch_root) || { cannot build "$python cannot import torch"; return; }
  say "  torch $("$python" -c 'import torch; print(torch.__version__, "CUDA", torch.version.cuda)') in $torch"
  if command -v ninja >/dev/null 2>&1; then generator=(-G Ninja); fi
  if [ -d "$third_party" ]; then own=("-DJITSTEP_THIRD_PARTY_DIR=$third_party"); fi
  step configure 120 cmake -S "$root" -B "$build" "${generator[@]}" "${own[@]}" \
    -DCMAKE_BUILD_TYPE=Release "-DTorch_DIR=$torch/share/cmake/Torch" -DJITSTEP_WERROR=OFF \
    -DJITSTEP_BUILD_EXAMPLES=OFF -DJITSTEP_BUILD_BENCH=ON -DJITSTEP_INSTALL=OFF \
    -DCMAKE_POLICY_VERSION_MINIMUM=3.5 || return
  step compile 400 cmake --build "$build" -j "$(nproc)" \
    --target test_templates_gpu test_optim_gpu step_benchmark jitstep_tool
}

is_built() {
  local program programs=(tests/test_templates_gpu)
  if [ -z "$without_torch" ]; then programs+=(tests/test_optim_gpu bench/step_benchmark); fi
  for program in "${programs[@]}"; do
    [ -x "$build/$program" ] || { cannot "$1" "$build/$program is missing. Run the part build first"; return 1; }
  done
}

gpu_tests=(ctest --test-dir "$build" -L '^gpu$' --output-on-failure --no-tests=error)
count_tests() { grep -E 'tests passed|No tests were found|Total Tests' "$1" | sed 's/^/          /'; }

part_bits() {
  is_built bits || return
  local some=.
  if [ -n "$sample" ]; then some='\.Gpu(Sample|Formats|Arithmetic)'; elif [ -n "$without_torch" ]; then some='^test_templates_gpu'; fi
  local floats=()
  if [ -z "$sample" ]; then floats=(env JITSTEP_TEST_ALL_FLOATS=1); fi
  step bits 500 "${floats[@]}" "${gpu_tests[@]}" -R "$some" -E '\.Cuda' -j "$(nproc)"
  say "$(count_tests "$logs/bits.log")"
}

part_cuda() {
  is_built cuda || return
  if [ -z "$without_torch" ]; then
    step streams_and_memory 200 "${gpu_tests[@]}" -R '\.Cuda' -j 1
    say "$(count_tests "$logs/streams_and_memory.log")"
  fi
  if ! command -v compute-sanitizer >/dev/null 2>&1; then
    cannot compute-sanitizer "it is not on PATH"
    return
  fi
  local tool
  for tool in memcheck racecheck initcheck synccheck; do
    step "$tool" 75 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      "$build/tests/test_templates_gpu" --gtest_filter='GpuSample.*'
  done
}

part_speed() {
  if [ -n "$without_torch" ]; then
    say "          skipped, because speed is compared with torch"
    return
  fi
  is_built speed || return
  step kernels 60 "$build/bench/step_benchmark" --kernels "$(architecture)"
  step speed 450 "$build/bench/step_benchmark" --device cuda:0 --json "$out/$stem.json"
  cat "$logs/speed.log" "$logs/kernels.log" | tee -a "$summary"
}

part_tune() {
  if [ ! -x "$build/tools/jitstep" ]; then cannot tune "$build/tools/jitstep is missing. Run the part build first"; return; fi
  local what=(--states 'fp32,int8,int4' --sizes '4k,1M,16M' --budget 300s)
  if [ -n "$sample" ]; then what=(--sizes 1k --strategy random --trials 1 --budget 5m); fi
  step tune 450 "$build/tools/jitstep" tune --target "$(architecture)" "${what[@]}" --force \
    --records "$out/${stem}_tuning.jsonl" || return
  rm -f "$out/${stem}_tuning.jsonl.lock"
  tee -a "$summary" <"$logs/tune.log"
}

part_python() {
  if ! "$python" -c 'import jitstep' 2>/dev/null; then
    cannot python "$python cannot import jitstep. Install it, or set PYTHONPATH to its folder"
    return
  fi
  local tests="$root/python/tests/test_cuda.py"
  step python_tests 500 "$python" -m pytest -q -p no:cacheprovider -m 'long or not long' "$tests"
  say "          $(tail -n 1 "$logs/python_tests.log")"
  step python_speed 300 "$python" "$root/bench/python_gpu.py" --json "$out/${stem}_python.json"
  tee -a "$summary" <"$logs/python_speed.log"
}

architecture() {
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | sed 's/^/sm_/; s/\.//'
}

# Checks everything that needs no GPU: this script, the list of tests, the benchmark's kernels and flags.
dry_run() {
  if command -v shellcheck >/dev/null 2>&1; then step shellcheck 30 shellcheck "$0"; fi
  is_built 'the dry run' || return
  step list 60 ctest --test-dir "$build" -N -L '^gpu$'
  say "$(count_tests "$logs/list.log")"
  grep -q '\.GpuSample' "$logs/list.log" || cannot sanitizers "no test GpuSample is listed"
  grep -q '\.Cuda' "$logs/list.log" || cannot cuda "no test Cuda... is listed"
  step kernels 120 "$build/bench/step_benchmark" --kernels sm_90
  # Three blocks of AdamW with int8 or int4 state on a multiprocessor are faster than two without spills.
  if awk 'NF == 4 && $3 ~ /^[0-9]+$/ { ++kernels; if ($4 > ($1 ~ /^adamw_int[48]_/ ? 128 : 0)) spills = 1 }
    END { exit spills || !kernels }' "$logs/kernels.log"; then
    say "  ok      no kernel of the benchmark spills more than allowed on sm_90"
  else
    cannot speed "a kernel spills, or none is listed"
  fi
}

use_nvrtc
export JITSTEP_CACHE_DIR=${JITSTEP_CACHE_DIR:-$build/kernel_cache}
describe_machine
if [ -n "$dry_run" ]; then
  dry_run
else
  for part in "${parts[@]}"; do
    say "$part"
    failed_before=$failures
    "part_$part" || [ $failures -gt $failed_before ] || cannot "$part" "see above"
  done
fi
if [ $failures -eq 0 ]; then say "all passed"; else say "$failures failed"; fi
[ $failures -eq 0 ]
