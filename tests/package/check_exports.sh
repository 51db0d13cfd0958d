#!/usr/bin/env bash
# check_exports.sh <library folder> <folder of headers>...
# Checks that the libraries export only jitstep's symbols, and that a header in these folders marks each class or
# function JITSTEP_API: the installed headers, and src/ for symbols that only jitstep's own programs need.
set -euo pipefail
libraries=$1
shift
failed=0
marked=$(grep -rhA1 --include='*.h' JITSTEP_API "$@" | grep -oE '[A-Za-z_][A-Za-z_0-9]*' | sort -u)
for library in "$libraries"/libjitstep*.so; do
  # Demangled, without the prefixes of class data: "vtable for ", "non-virtual thunk to ", ...
  names=$(nm -DC --defined-only "$library" | sed -E 's/^[0-9a-f]+ +. //' |
          sed -E 's/^(vtable|typeinfo name|typeinfo|VTT|(non-)?virtual thunk|guard variable|construction vtable) (for|to) //' |
          sort -u)
  [ "$(wc -l <<<"$names")" -gt 10 ] || { echo "$library exports almost nothing"; exit 1; }
  while IFS= read -r name; do
    case $name in
      jitstep::*) ;;
      *) echo "$(basename "$library") exports a symbol outside jitstep: $name"; failed=1; continue ;;
    esac
    plain=${name%%(*}                                 # without arguments
    outer=$(sed -E 's/^jitstep::(jit::|fields::)?//; s/[<>:].*//; s/\[abi.*//' <<<"$plain")
    grep -qxF "$outer" <<<"$marked" ||
      { echo "$(basename "$library") exports $name, which no header marks JITSTEP_API"; failed=1; }
  done <<<"$names"
  echo "$(basename "$library"): $(wc -l <<<"$names") names"
done
exit $failed
