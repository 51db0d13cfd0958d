#!/usr/bin/env bash
# Makes this machine ready to build jitstep: Debian or Ubuntu packages that are missing, and PyTorch,
# NVRTC and matplotlib in .deps/venv. A second run takes under a second.
#
#   tools/setup.sh --docs            also installs what the documentation's site needs: doxygen, doxygen-awesome-css,
#                                    and MkDocs in .deps/docs, for `cmake --build build --target site`
#   tools/setup.sh --site-check      also installs a browser and Playwright, for tools/site_check.py
#
#   JITSTEP_NO_APT=1                 list missing packages instead of installing them
#   Torch_DIR or CMAKE_PREFIX_PATH   an existing LibTorch, used instead of downloading PyTorch
#   PIP_INDEX_URL, PIP_FIND_LINKS .. are pip's own and hold here too
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="$root/.deps/venv"
stamp="$root/.deps/stamp"
torch_requirement="torch==2.13.0"
docs_requirements=("mkdocs==1.6.1" "mkdocs-material==9.7.0" "codespell==2.4.3")
site_check_requirements=("playwright==1.65.2")
pip_requirements=("nvidia-cuda-nvrtc>=13.0,<13.1" "matplotlib")
datasets=/usr/share/datasets/fashion-mnist
text=/usr/share/games/fortunes

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

# ---- packages ----------------------------------------------------------------------------------

has_command() { command -v "$1" >/dev/null 2>&1; }
has_header() { compgen -G "/usr/include/$1" >/dev/null || compgen -G "/usr/include/*-linux-gnu/$1" >/dev/null ||
               [ -e "/usr/local/include/$1" ] || [ -e "${JITSTEP_THIRD_PARTY_DIR:-/nowhere}/$1" ]; }
# Debian has the standard library's venv in a separate package (ensurepip is the part that is missing).
python_makes_venvs() { python3 -c 'import ensurepip, venv' >/dev/null 2>&1; }

# Prints the packages that are missing. Optional ones do not stop the build.
missing_packages() {
  has_command "${CXX:-g++}" || echo g++
  has_command cmake || echo cmake
  has_command ninja || echo ninja-build
  has_command python3 || echo python3
  has_header nlohmann/json.hpp || echo nlohmann-json3-dev
  has_header CLI/CLI.hpp || echo libcli11-dev
  has_header gtest/gtest.h || [ -e "${JITSTEP_THIRD_PARTY_DIR:-/nowhere}/googletest" ] || echo libgtest-dev
  has_header openssl/evp.h || echo libssl-dev
  has_header zlib.h || echo zlib1g-dev
  python_makes_venvs || echo python3-venv
}
missing_optional_packages() {
  has_command ccache || echo ccache
  has_command doxygen || echo doxygen  # tests that every public declaration is documented
  has_command help2man || echo help2man  # writes the manual pages of the tool
  has_command clang++-14 || has_command clang++ || echo clang  # tests compile kernels with it as well
  [ -e "$datasets" ] || echo dataset-fashion-mnist
  [ -e "$text/computers" ] || echo fortunes
  [ -z "$with_docs" ] || [ -e /usr/share/doxygen-awesome-css ] || echo doxygen-awesome-css
  [ -z "$with_site_check" ] || has_command chromium || echo chromium
}

apt() {
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    has_command sudo || fail "not root and no sudo: have an administrator run: apt-get install $*"
    sudo=(sudo)
  fi
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@"
}

install_packages() {
  local required optional log="$root/.deps/apt.log"
  mapfile -t required < <(missing_packages)
  mapfile -t optional < <(missing_optional_packages)
  [ $((${#required[@]} + ${#optional[@]})) -gt 0 ] || return 0
  if [ -n "${JITSTEP_NO_APT:-}" ] || ! has_command apt-get; then
    [ ${#optional[@]} -eq 0 ] || say "optional packages that are not installed: ${optional[*]}"
    [ ${#required[@]} -eq 0 ] ||
      fail "missing Debian packages: ${required[*]}. Install them, or set \
JITSTEP_THIRD_PARTY_DIR to a folder with nlohmann/json.hpp, CLI/CLI.hpp and googletest/."
    return 0
  fi
  say "installing by apt: ${required[*]} ${optional[*]} (JITSTEP_NO_APT=1: install nothing)"
  apt update >"$log" 2>&1 || say "apt-get update reported errors ($log); trying all the same"
  if [ ${#required[@]} -gt 0 ]; then
    apt install -y --no-install-recommends "${required[@]}" >>"$log" 2>&1 || {
      tail -n 5 "$log" >&2
      fail "apt could not install ${required[*]} (whole log: $log). Is there a network? Without apt: \
install them in another way and set JITSTEP_NO_APT=1."
    }
  fi
  local package
  for package in "${optional[@]}"; do
    apt install -y --no-install-recommends "$package" >>"$log" 2>&1 ||
      say "warning: apt could not install $package ($log); the build goes on without it"
  done
}

# Fails when `tool` prints a version below `least`.
require_version() {
  local tool=$1 least=$2 found=$3
  [ "$(printf '%s\n%s\n' "$least" "$found" | sort -V | head -n 1)" = "$least" ] ||
    fail "$tool $found is too old: $least or newer is needed."
}

check_versions() {
  require_version cmake 3.22 "$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')"
  local cxx=${CXX:-g++} least=11
  ! "$cxx" --version | grep -qi clang || least=14
  require_version "$cxx" "$least" "$("$cxx" -dumpversion)"
}

# ---- PyTorch and NVRTC -------------------------------------------------------------------------

is_libtorch() { [ -e "$1/include/torch/csrc/api/include/torch/torch.h" ] && compgen -G "$1/lib*/libtorch.so" >/dev/null; }

# Prints the LibTorch that Torch_DIR or CMAKE_PREFIX_PATH names, as cmake/FindLibTorch.cmake reads
# them. A prefix path may be about other libraries; Torch_DIR may not.
given_libtorch() {
  local prefixes prefix candidate
  IFS=':;' read -r -a prefixes <<<"${Torch_DIR:-}:${CMAKE_PREFIX_PATH:-}"
  for prefix in "${prefixes[@]}"; do
    [ -n "$prefix" ] || continue
    for candidate in "$prefix" "$prefix/../.." "$prefix/../../.." "$prefix/torch" "$prefix/libtorch" \
                     "$prefix"/lib/python3*/site-packages/torch; do
      if is_libtorch "$candidate"; then (cd "$candidate" && pwd); return 0; fi
    done
  done
  [ -z "${Torch_DIR:-}" ] || fail "Torch_DIR=$Torch_DIR names no LibTorch with include/ and lib/libtorch.so."
}

# Creates the virtual environment again if its Python is gone, or if its creation was interrupted.
make_venv() {
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 && return 0
  say "making the Python environment .deps/venv"
  python3 -m venv --clear "$venv" >"$root/.deps/venv.log" 2>&1 || {
    tail -n 5 "$root/.deps/venv.log" >&2
    fail "python3 -m venv failed; on Debian and Ubuntu the package python3-venv brings it."
  }
}

announce_downloads() {
  say "downloading missing packages from PyPI into .deps/venv:"
  if [ "$1" = with_torch ]; then
    say "  PyTorch 2.13.0: 190 MB (0.7 GB unpacked) where pip is offered its CPU build, otherwise the"
    say "    CUDA build with NVIDIA's libraries, 2.7 GB (4.7 GB unpacked); to choose, set"
    say "    PIP_EXTRA_INDEX_URL to PyTorch's CPU index, or Torch_DIR to a LibTorch you have"
  fi
  say "  NVRTC 13.0: 90 MB (230 MB unpacked); matplotlib with numpy: 40 MB"
}

install_python_packages() {
  local given=$1 requirements=("${pip_requirements[@]}") quiet=(-qq --progress-bar off)
  if [ -n "$given" ]; then
    say "using the LibTorch in $given; PyTorch is not downloaded"
    announce_downloads without_torch
  else
    requirements=("$torch_requirement" "${requirements[@]}")
    announce_downloads with_torch
  fi
  if [ -t 1 ]; then quiet=(); fi
  "$venv/bin/python" -m pip install --disable-pip-version-check "${quiet[@]}" "${requirements[@]}" ||
    fail "pip could not install ${requirements[*]}. Is there a network, and is $(python3 --version) \
one that PyTorch 2.13 has wheels for (3.10 to 3.14)? An existing LibTorch is used with Torch_DIR=<LibTorch>."
}

install_docs() {
  local requirements=("${docs_requirements[@]}") docs="$root/.deps/docs"
  [ -z "$with_site_check" ] || requirements+=("${site_check_requirements[@]}")
  case " $(cat "$docs/stamp" 2>/dev/null) " in *" ${requirements[*]} "*) return 0 ;; esac
  say "installing in .deps/docs: ${requirements[*]}"
  python3 -m venv "$docs" || fail "python3 -m venv failed; on Debian and Ubuntu the package python3-venv brings it."
  "$docs/bin/python" -m pip install --disable-pip-version-check -qq "${requirements[@]}" ||
    fail "pip could not install ${requirements[*]}. Is there a network?"
  printf '%s\n' "${requirements[*]}" >"$docs/stamp"
}

# ---- main --------------------------------------------------------------------------------------

with_docs="" with_site_check=""
case "${1:-}" in
  "") ;;
  --docs) with_docs=1 ;;
  --site-check) with_docs=1 with_site_check=1 ;;
  *)
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
    case "$1" in -h | --help) exit 0 ;; *) exit 2 ;; esac
    ;;
esac
mkdir -p "$root/.deps"
if has_command flock; then
  exec 9>"$root/.deps/lock"
  flock 9
fi
install_packages
[ -z "$with_docs" ] || install_docs
given=$(given_libtorch)
wanted="${given:-$torch_requirement} ${pip_requirements[*]}"
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && [ -x "$venv/bin/python" ]; then
  exit 0
fi
check_versions
make_venv
install_python_packages "$given"
printf '%s\n' "$wanted" >"$stamp"
say "ready"
