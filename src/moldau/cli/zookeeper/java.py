"""Where Java and ZooKeeper's classes are on this machine, or what to install."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path


class NotInstalled(Exception):
    """What is missing, and what to do about it."""


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
            "ZooKeeper runs on Java, which is not installed here; install Java 17 (on Debian or Ubuntu: "
            "apt install openjdk-17-jre-headless), or use an ensemble that runs elsewhere (--zookeeper HOST:PORT)"
        )
    return found


def zookeeper_jars() -> Path:
    """The directory of jars with ZooKeeper's server among them."""
    advice = "install it (pip install 'moldau[spark]'), or use an ensemble that runs elsewhere (--zookeeper HOST:PORT)"
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise NotInstalled(f"ZooKeeper's server is taken from PySpark's package, which is not installed here; {advice}")
    jars = Path(pyspark.origin).parent / "jars"
    if not any(jars.glob("zookeeper-[0-9]*.jar")):
        raise NotInstalled(f"there is no ZooKeeper in {jars}: this PySpark is not a complete one; {advice}")
    return jars
