#!/usr/bin/env bash
# Installs everything that building jitstep needs: missing Debian or Ubuntu packages, and PyTorch, NVRTC, matplotlib,
# jsonschema and codespell in .deps/venv. A second run takes less than a second.
#
# Options can be combined:
#
#   tools/setup.sh --docs            also installs what the documentation's site needs: doxygen, doxygen-awesome-css,
#                                    and MkDocs in .deps/docs, for `cmake --build build --target site`
#   tools/setup.sh --frameworks      also installs transformers, accelerate and lightning in .deps/venv, for the tests of
#                                    the Python front end that need them
#   tools/setup.sh --fuzz            also installs clang with the run time of its sanitizers, for tools/fuzz.sh
#   tools/setup.sh --tidy            also installs clang 14 and clang-tidy 14, for tools/tidy.sh
#   tools/setup.sh --site-check      also installs a browser and Playwright, for tools/site_check.py
#
#   JITSTEP_PYTHON=0                 leaves out what the Python front end needs
#   JITSTEP_NO_APT=1                 installs no packages, and lists missing ones
#   Torch_DIR or CMAKE_PREFIX_PATH   an existing LibTorch, used instead of downloading PyTorch
#   PIP_INDEX_URL, PIP_FIND_LINKS .. variables of pip, which work here too
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="$root/.deps/venv"
stamp="$root/.deps/stamp"
torch_requirement="torch==2.13.0"
docs_requirements=("mkdocs==1.6.1" "mkdocs-material==9.7.0")
site_check_requirements=("playwright==1.65.2")
pip_requirements=("nvidia-cuda-nvrtc>=13.0,<13.1" "matplotlib" "jsonschema" "codespell==2.4.3")
# For the build and the tests of the Python front end.
python_requirements=("nanobind>=2.4" "scikit-build-core>=0.11" "pytest>=8" "mypy>=1.11" "pyright>=1.1.380" "ruff>=0.6" "numpy" "expecttest" "tqdm")
frameworks_requirements=("transformers" "accelerate" "lightning")
datasets=/usr/share/datasets/fashion-mnist
text=/usr/share/games/fortunes
read -r -a cxx <<<"${CXX:-g++}"  # as CMake reads it: a program, and arguments

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

# ---- packages ----------------------------------------------------------------------------------

has_command() { command -v "$1" >/dev/null 2>&1; }
has_header() {
  local given=${JITSTEP_THIRD_PARTY_DIR:-/nowhere} folder
  for folder in /usr/include /usr/include/*-linux-gnu /usr/local/include "$given" "$given/include" "$given/single_include"; do
    if [ -e "$folder/$1" ]; then return 0; fi
  done
  return 1
}
# Debian ships the ensurepip module, which venv needs, in a separate package.
has_python_headers() {
  python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
    2>/dev/null
}
python_makes_venvs() { python3 -c 'import ensurepip, venv' >/dev/null 2>&1; }

# Whether clang can link a fuzzer. Debian packages the sanitizers' run time separately since version 12.
makes_fuzzers() {
  local clang
  clang=$(command -v clang++-14 || command -v clang++) || return 1
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    "$clang" -x c++ -fsanitize=address,fuzzer -o /dev/null - 2>/dev/null
}
# Asks apt, so that its lists must be current.
run_time_of_clang() {
  local clang version
  clang=$(command -v clang++-14 || command -v clang++) || clang=
  version=$("${clang:-false}" -dumpversion | cut -d. -f1) || version=14
  if apt-cache show "libclang-rt-$version-dev" >/dev/null 2>&1; then
    echo "libclang-rt-$version-dev"
  else
    echo "libclang-common-$version-dev"
  fi
}

# Prints missing packages. The build does not need the optional ones.
missing_packages() {
  has_command "${cxx[0]}" || echo g++
  has_command cmake || echo cmake
  has_command ninja || echo ninja-build
  has_command python3 || echo python3
  has_header nlohmann/json.hpp || echo nlohmann-json3-dev
  has_header CLI/CLI.hpp || echo libcli11-dev
  has_header gtest/gtest.h || [ -e "${JITSTEP_THIRD_PARTY_DIR:-/nowhere}/googletest" ] || echo libgtest-dev
  has_header zlib.h || echo zlib1g-dev
  python_makes_venvs || echo python3-venv
  [ -z "$with_fuzz" ] || has_command clang++-14 || has_command clang++ || echo clang
  if [ -n "$with_tidy" ]; then
    has_command clang++-14 || echo clang-14
    has_command run-clang-tidy-14 || echo clang-tidy-14
  fi
}
missing_optional_packages() {
  has_command ccache || echo ccache
  has_command doxygen || echo doxygen  # tests that every public declaration is documented
  has_command help2man || echo help2man  # writes the manual pages of the tool
  has_command clang++-14 || has_command clang++ || echo clang  # tests compile kernels with it as well
  [ -e "$datasets" ] || echo dataset-fashion-mnist
  [ -e "$text/computers" ] || echo fortunes
  [ -z "$with_python" ] || has_python_headers || echo python3-dev  # builds the Python front end
  [ -e /usr/include/gloo/algorithm.h ] || echo libgloo-dev
  [ -z "$with_docs" ] || [ -e /usr/share/doxygen-awesome-css ] || echo doxygen-awesome-css
  [ -z "$with_site_check" ] || has_command chromium || has_command chromium-browser || has_command google-chrome ||
    echo chromium
}

# Prints why no package can be installed. Prints nothing if packages can be.
cannot_install() {
  if [ "${JITSTEP_NO_APT:-0}" != 0 ]; then echo "JITSTEP_NO_APT is set";
  elif ! has_command apt-get; then echo "there is no apt-get";
  elif [ "$(id -u)" -ne 0 ] && ! has_command sudo; then echo "this user is not root, and there is no sudo"; fi
}

apt() {
  local sudo=()
  [ "$(id -u)" -eq 0 ] || sudo=(sudo)
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@"
}

apt_log="$root/.deps/apt.log"
updated=""
update_lists() {
  if apt update >>"$apt_log" 2>&1; then
    # apt-get only warns of an unreachable server.
    grep -q '^W: Failed to fetch' "$apt_log" || updated=1
    return 0
  fi
  say "warning: apt-get update failed ($apt_log). Trying to install anyway."
}

install_required() {
  apt install -y --no-install-recommends "$@" >>"$apt_log" 2>&1 && return 0
  tail -n 5 "$apt_log" >&2
  fail "apt-get could not install $* (log: $apt_log). Check the network connection. If you cannot use apt-get, install \
them in another way and set JITSTEP_NO_APT=1."
}

# Optional packages that this system does not have. They are not tried again.
unavailable="$root/.deps/unavailable"
install_optional() {
  apt install -y --no-install-recommends "$1" >>"$apt_log" 2>&1 && return 0
  say "warning: apt-get could not install the optional package $1 ($apt_log)"
  if [ -n "$updated" ] && ! apt-cache show "$1" >/dev/null 2>&1; then
    say "the package lists have no $1. To try again later, delete $unavailable."
    echo "$1" >>"$unavailable"
  fi
}

install_packages() {
  local required optional reason package
  mapfile -t required < <(missing_packages)
  mapfile -t optional < <(missing_optional_packages | grep -vxF -f <(cat "$unavailable" 2>/dev/null))
  [ $((${#required[@]} + ${#optional[@]})) -gt 0 ] || return 0
  : >"$apt_log"
  reason=$(cannot_install)
  if [ -n "$reason" ]; then
    [ ${#optional[@]} -eq 0 ] || say "optional packages that are not installed: ${optional[*]}"
    [ ${#required[@]} -eq 0 ] ||
      fail "these Debian packages are missing: ${required[*]}. They cannot be installed here: $reason. Ask an \
administrator to run apt-get install ${required[*]}, or install their contents in another way and set \
JITSTEP_THIRD_PARTY_DIR to a folder with nlohmann/json.hpp, CLI/CLI.hpp and googletest/."
    return 0
  fi
  say "installing with apt-get: ${required[*]} ${optional[*]} (JITSTEP_NO_APT=1 installs nothing)"
  update_lists
  [ ${#required[@]} -eq 0 ] || install_required "${required[@]}"
  for package in "${optional[@]}"; do install_optional "$package"; done
}

install_run_time_of_clang() {
  local reason
  reason=$(cannot_install)
  [ -z "$reason" ] ||
    fail "clang cannot link fuzzers, because the run time of its sanitizers is missing. It cannot be installed here: \
$reason. Ask an administrator to install libclang-rt-<version>-dev, or libclang-common-<version>-dev in old systems."
  update_lists
  install_required "$(run_time_of_clang)"
}

# Fails if the version `found` of `tool` is below `least`.
require_version() {
  local tool=$1 least=$2 found=$3
  [ "$(printf '%s\n%s\n' "$least" "$found" | sort -V | head -n 1)" = "$least" ] ||
    fail "$tool $found is too old. Install version $least or newer."
}

check_versions() {
  require_version cmake 3.22 "$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')"
  local least=11
  ! "${cxx[@]}" --version | grep -qi clang || least=14
  require_version "${cxx[*]}" "$least" "$("${cxx[@]}" -dumpversion)"
}

# ---- PyTorch and NVRTC -------------------------------------------------------------------------

is_libtorch() {
  [ -e "$1/include/torch/csrc/api/include/torch/torch.h" ] &&
    { compgen -G "$1/lib*/libtorch.so" || compgen -G "$1/lib/*-linux-gnu/libtorch.so"; } >/dev/null
}

# Prints the LibTorch that Torch_DIR or CMAKE_PREFIX_PATH names, with the same search as cmake/FindLibTorch.cmake. A
# CMAKE_PREFIX_PATH without LibTorch is ignored, because it may be for other libraries. Such a Torch_DIR is an error.
given_libtorch() {
  local prefixes prefix candidate
  IFS=':;' read -r -a prefixes <<<"${Torch_DIR:-${CMAKE_PREFIX_PATH:-}}"
  for prefix in "${prefixes[@]}"; do
    [ -n "$prefix" ] || continue
    for candidate in "$prefix" "$prefix/../.." "$prefix/../../.." "$prefix/torch" "$prefix/libtorch" \
                     "$prefix"/lib/python3*/site-packages/torch; do
      if is_libtorch "$candidate"; then (cd "$candidate" && pwd); return 0; fi
    done
  done
  [ -z "${Torch_DIR:-}" ] || fail "Torch_DIR=$Torch_DIR is not a LibTorch with include/ and lib/libtorch.so."
}

# Creates the virtual environment. Replaces one that is incomplete, or whose Python no longer exists.
make_venv() {
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 && return 0
  say "creating the Python environment .deps/venv"
  python3 -m venv --clear "$venv" >"$root/.deps/venv.log" 2>&1 || {
    tail -n 5 "$root/.deps/venv.log" >&2
    fail "python3 -m venv failed. On Debian and Ubuntu, install the package python3-venv."
  }
}

announce_downloads() {
  say "downloading missing packages from PyPI to .deps/venv:"
  if [ "$1" = with_torch ]; then
    say "  PyTorch 2.13.0: 190 MB (0.7 GB unpacked) if pip finds the CPU build, otherwise the CUDA build with"
    say "    NVIDIA's libraries, 2.7 GB (4.7 GB unpacked). To choose, set PIP_EXTRA_INDEX_URL to PyTorch's"
    say "    CPU index, or Torch_DIR to an existing LibTorch."
  fi
  say "  NVRTC 13.0: 90 MB (230 MB unpacked); matplotlib with numpy: 40 MB; jsonschema: 2 MB"
}

install_python_packages() {
  local given=$1 requirements=("${pip_requirements[@]}") quiet=(-qq --progress-bar off)
  if [ -n "$given" ]; then
    say "using the LibTorch in $given instead of downloading PyTorch"
    announce_downloads without_torch
  else
    requirements=("$torch_requirement" "${requirements[@]}")
    announce_downloads with_torch
  fi
  if [ -t 1 ]; then quiet=(); fi
  "$venv/bin/python" -m pip install --disable-pip-version-check "${quiet[@]}" "${requirements[@]}" ||
    fail "pip could not install ${requirements[*]}. Check the network connection. PyTorch 2.13 has wheels for \
Python 3.10 to 3.14, and this is $(python3 --version). Or set Torch_DIR=<LibTorch> to use an existing LibTorch."
}

# With torch's version, so that pip does not replace it.
install_frameworks() {
  say "installing in .deps/venv: ${frameworks_requirements[*]}"
  "$venv/bin/python" -m pip install --disable-pip-version-check -qq "$torch_requirement" "${frameworks_requirements[@]}" ||
    fail "pip could not install ${frameworks_requirements[*]}. Check the network connection."
}

install_docs() {
  local requirements=("${docs_requirements[@]}") docs="$root/.deps/docs"
  [ -z "$with_site_check" ] || requirements+=("${site_check_requirements[@]}")
  if "$docs/bin/python" -c 'import mkdocs' 2>/dev/null; then
    case " $(cat "$docs/stamp" 2>/dev/null) " in *" ${requirements[*]} "*) return 0 ;; esac
  fi
  say "installing in .deps/docs: ${requirements[*]}"
  python3 -m venv --clear "$docs" || fail "python3 -m venv failed. On Debian and Ubuntu, install the package python3-venv."
  "$docs/bin/python" -m pip install --disable-pip-version-check -qq "${requirements[@]}" ||
    fail "pip could not install ${requirements[*]}. Check the network connection."
  printf '%s\n' "${requirements[*]}" >"$docs/stamp"
}

# ---- main --------------------------------------------------------------------------------------

with_docs="" with_site_check="" with_frameworks="" with_fuzz="" with_tidy=""
for option in "$@"; do
  case "$option" in
    --docs) with_docs=1 ;;
    --site-check) with_docs=1 with_site_check=1 ;;
    --frameworks) with_frameworks=1 ;;
    --fuzz) with_fuzz=1 ;;
    --tidy) with_tidy=1 ;;
    *)
      case "$option" in -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;; esac
      echo "setup: error: there is no option $option. --help lists them." >&2
      exit 2
      ;;
  esac
done
mkdir -p "$root/.deps"
if has_command flock; then
  exec 9>"$root/.deps/lock"
  flock 9
fi
given=$(given_libtorch)
with_python=1
[ "${JITSTEP_PYTHON:-1}" != 0 ] || with_python=""
# The tests of the Python front end need a torch in .deps/venv.
[ -z "$given" ] || with_python=""
[ -z "$with_python" ] || pip_requirements+=("${python_requirements[@]}")
install_packages
[ -z "$with_fuzz" ] || makes_fuzzers || install_run_time_of_clang
[ -z "$with_docs" ] || install_docs
[ -z "$with_frameworks" ] || [ -n "$with_python" ] ||
  fail "--frameworks needs the Python front end. Unset JITSTEP_PYTHON, Torch_DIR and CMAKE_PREFIX_PATH."
wanted="${given:-$torch_requirement} ${pip_requirements[*]}"
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
  check_versions
  rm -f "$stamp"
  make_venv
  install_python_packages "$given"
  printf '%s\n' "$wanted" >"$stamp"
elif [ -z "$with_frameworks" ]; then
  exit 0
fi
[ -z "$with_frameworks" ] || install_frameworks
say "ready"
