"""Locations of Java and of ZooKeeper's classes on this machine, or advice what to install."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path


class NotInstalled(Exception):
    """A missing program or package, and what to do about it."""


def java_program() -> str:
    """The path of the `java` program."""
    home = os.environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        if program.is_file():
            return str(program)
    found = shutil.which("java")
    if found is None:
        raise NotInstalled(
            "ZooKeeper needs Java, which is not installed; install Java 17 (on Debian or Ubuntu: apt install "
            "openjdk-17-jre-headless), or use an existing ensemble (--zookeeper HOST:PORT)"
        )
    return found


def zookeeper_jars() -> Path:
    """The directory with the jars of ZooKeeper's server."""
    advice = "install it (pip install 'moldau[spark]'), or use an existing ensemble (--zookeeper HOST:PORT)"
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise NotInstalled(f"ZooKeeper's server comes from the PySpark package, which is not installed; {advice}")
    jars = Path(pyspark.origin).parent / "jars"
    if not any(jars.glob("zookeeper-[0-9]*.jar")):
        raise NotInstalled(f"there is no ZooKeeper in {jars}: this PySpark package is incomplete; {advice}")
    return jars
