#!/usr/bin/env bash
# check_libraries.sh <library folder> <major.minor> [folder of torch's libraries]
# Checks that the sonames have the version, and that the run paths name only the own folder and torch's.
set -euo pipefail
folder=$1 version=$2 torch=${3:-}
check() {  # library, run path
  local file=$folder/$1.so soname run_path
  soname=$(readelf -d "$file" | sed -nE 's/.*\(SONAME\).*\[(.*)\]/\1/p')
  run_path=$(readelf -d "$file" | sed -nE 's/.*\((RUNPATH|RPATH)\).*\[(.*)\]/\2/p')
  echo "$1: $soname, run path $run_path"
  [ "$soname" = "$1.so.$version" ] || { echo "the soname should be $1.so.$version"; exit 1; }
  [ -e "$folder/$soname" ] || { echo "there is no $folder/$soname"; exit 1; }
  [ "$run_path" = "$2" ] || { echo "the run path should be $2"; exit 1; }
}
check libjitstep_jit '$ORIGIN'
if [ -e "$folder/libjitstep.so" ]; then check libjitstep "\$ORIGIN:$torch"; fi
