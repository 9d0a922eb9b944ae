#!/bin/sh
# Installs the programs that the tests use and pip cannot install: kcat (a client, and the load generator of the
# benchmarks), Java 17 (for Spark, ZooKeeper and Apache Kafka's own tools), Maven (which downloads Apache Kafka's jars),
# PostgreSQL and MariaDB (for the connectors of databases; the tests start servers of their own) and versitygw (an S3
# server, built by Go from its module proxy). Uses apt-get if possible. Never fails: it prints a
# warning for each program that is still missing. The tests that need the program are skipped, and the test run counts
# them at its end.

VERSITYGW=github.com/versity/versitygw/cmd/versitygw@v1.8.0
if ! command -v versitygw >/dev/null 2>&1; then
    if command -v go >/dev/null 2>&1 && [ -w /usr/local/bin ]; then
        echo "Building versitygw (a few minutes)"
        GOBIN=/usr/local/bin timeout 900 go install "$VERSITYGW" >/dev/null 2>&1
    fi
    command -v versitygw >/dev/null 2>&1 || cat >&2 <<WARNING
*******************************************************************************
WARNING: versitygw is not installed and could not be built from here.
         The tests of S3 sinks will be SKIPPED.
         With Go: go install $VERSITYGW
*******************************************************************************
WARNING
fi

# Debian keeps the servers of databases off the PATH of ordinary users.
found() {
    command -v "$1" >/dev/null 2>&1 || ls /usr/sbin/"$1" /usr/lib/postgresql/*/bin/"$1" 2>/dev/null | grep -q .
}

missing=""
packages=""
for pair in kcat:kcat javac:openjdk-17-jdk-headless mvn:maven postgres:postgresql mariadbd:mariadb-server; do
    found "${pair%%:*}" && continue
    missing="$missing ${pair%%:*}"
    packages="$packages ${pair#*:}"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing with apt-get:$packages"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086  # split the list into package names
    timeout 600 sh -c 'apt-get -qq update && apt-get -qq -y --no-install-recommends install "$@"' sh $packages >/dev/null 2>&1
fi

for program in $missing; do
    found "$program" || cat >&2 <<WARNING
*******************************************************************************
WARNING: $program is not installed and could not be installed from here.
         The tests and benchmarks that use it will be SKIPPED.
         Debian, Ubuntu: apt-get install$packages
*******************************************************************************
WARNING
done
exit 0
