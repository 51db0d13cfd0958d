#!/usr/bin/env bash
# expect_output.sh <status> <extended regular expression> <command> [arguments]
# Fails unless the command ends with the status and its output matches. Blanks and ends of lines count as one blank.
# ctest's PASS_REGULAR_EXPRESSION ignores the status, so that a crash after the output would pass.
set -uo pipefail
status=$1 pattern=$2
shift 2
output=$("$@" 2>&1)
ended=$?
printf '%s\n' "$output"
[ "$ended" -eq "$status" ] || { echo "the command ended with $ended instead of $status"; exit 1; }
[[ $(tr -s '[:space:]' ' ' <<<"$output") =~ $pattern ]] || { echo "the output does not match: $pattern"; exit 1; }
