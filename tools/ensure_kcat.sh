#!/bin/sh
# Make kcat (librdkafka's command line) available where that can be done: it is the load generator of the
# benchmarks and one of the clients in the compatibility tests. Never fails: where kcat cannot be had, it says so,
# and the tests that need it are skipped and counted at the end of the test run.

command -v kcat >/dev/null 2>&1 && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "kcat is missing: installing it with apt-get"
    export DEBIAN_FRONTEND=noninteractive
    timeout 300 sh -c 'apt-get -qq update && apt-get -qq -y install kcat' >/dev/null 2>&1
    command -v kcat >/dev/null 2>&1 && exit 0
fi

cat >&2 <<'WARNING'
*******************************************************************************
WARNING: kcat is not installed and could not be installed from here.
         The tests and benchmarks that use it will be SKIPPED.
         Install it with your package manager (Debian, Ubuntu: apt-get install kcat).
*******************************************************************************
WARNING
exit 0
