#!/usr/bin/env bash
# All tests, in two halves side by side: most of them wait for something most of the time, and there are two cores or
# more. The second half's report comes when the first one is done. Exits with 1 if either of them fails.
set -u
python=$1
cd "$(dirname "${BASH_SOURCE[0]}")/.."

report=$(mktemp)
trap 'rm -f "$report"' EXIT

"$python" -m pytest tests/client tests/system > "$report" 2>&1 &
other=$!
# Ctrl-C reaches both; without this a kill of the script alone would leave the other half running.
trap 'kill "$other" 2> /dev/null' TERM

echo "==> tests: all but client and system, which run beside them"
"$python" -m pytest tests --ignore=tests/client --ignore=tests/system
first=$?
echo "==> tests: client, system"
wait "$other"
second=$?
cat "$report"
[ "$first" -eq 0 ] && [ "$second" -eq 0 ]
