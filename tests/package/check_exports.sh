#!/usr/bin/env bash
# check_exports.sh <library folder> <folder of headers>...
# Every symbol the libraries show is jitstep's, and its class or function is marked JITSTEP_API in a
# header of these folders: the installed ones, and src/ for what our own programs alone link to.
set -euo pipefail
libraries=$1
shift
failed=0
marked=$(grep -rhA1 --include='*.h' JITSTEP_API "$@" | grep -oE '[A-Za-z_][A-Za-z_0-9]*' | sort -u)
for library in "$libraries"/libjitstep*.so; do
  # Demangled, without what belongs to a class: "vtable for ", "non-virtual thunk to ", ...
  names=$(nm -DC --defined-only "$library" | sed -E 's/^[0-9a-f]+ +. //' |
          sed -E 's/^(vtable|typeinfo name|typeinfo|VTT|(non-)?virtual thunk|guard variable|construction vtable) (for|to) //' |
          sort -u)
  [ "$(wc -l <<<"$names")" -gt 10 ] || { echo "$library shows hardly anything"; exit 1; }
  while IFS= read -r name; do
    case $name in
      jitstep::*) ;;
      *) echo "$(basename "$library") shows what is not jitstep's: $name"; failed=1; continue ;;
    esac
    plain=${name%%(*}                                 # without arguments
    outer=$(sed -E 's/^jitstep::(jit::|fields::)?//; s/[<>:].*//; s/\[abi.*//' <<<"$plain")
    grep -qxF "$outer" <<<"$marked" ||
      { echo "$(basename "$library") shows $name, which no header marks JITSTEP_API"; failed=1; }
  done <<<"$names"
  echo "$(basename "$library"): $(wc -l <<<"$names") names"
done
exit $failed
