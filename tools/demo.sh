#!/usr/bin/env bash
# The demo, from a fresh clone: sets up, builds, trains Fashion-MNIST with several optimizers and plots their losses.
# Arguments go to the program, and --help lists them once it is built. Results go to build/demo or --out FOLDER.
#
#   tools/demo.sh --python ...    trains the same data set from Python, with examples/fashion_mnist.py, and plots nothing
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

case "${1:-}" in
  -h | --help)
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
    if [ -x "$root/build/examples/fashion_mnist" ]; then exec "$root/build/examples/fashion_mnist" --help; fi
    exit ;;
esac

if [ "${1:-}" = --python ]; then
  export JITSTEP_PYTHON=1
  shift
  "$root/tools/setup.sh"
  if ! compgen -G "$root/.deps/venv/lib/python3*/site-packages/torch/__init__.py" >/dev/null; then
    echo "demo: --python needs PyTorch in .deps/venv. Unset Torch_DIR and CMAKE_PREFIX_PATH." >&2
    exit 1
  fi
  "$root/tools/build.sh" jitstep_python
  PYTHONPATH="$root/build/python" exec "$root/.deps/venv/bin/python" "$root/examples/fashion_mnist.py" "$@"
fi

out="$root/build/demo"
out_given=
previous=
for argument in "$@"; do
  case "$previous" in --out) out=$argument out_given=1 ;; esac
  case "$argument" in --out=*) out=${argument#--out=} out_given=1 ;; esac
  previous=$argument
done

"$root/tools/setup.sh"
"$root/tools/build.sh" fashion_mnist

if [ -z "$out_given" ]; then set -- "$@" --out "$out"; fi
json="$out/fashion_mnist.json"
rm -f "$json"
status=0
"$root/build/examples/fashion_mnist" "$@" || status=$?
if [ -e "$json" ]; then
  "$root/.deps/venv/bin/python" "$root/tools/plot_losses.py" "$json" "$out/fashion_mnist.png"
  echo "Loss curves: $out/fashion_mnist.png"
fi
exit "$status"
