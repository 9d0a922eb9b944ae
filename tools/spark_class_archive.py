"""Archive of the classes that Spark's JVM loads, with which a JVM starts at half the cost.

    python tools/spark_class_archive.py     # prints the options for Spark's JVMs; empty without Java

Java calls it class data sharing: the archive has the classes parsed and verified, and a JVM maps it. `make test` starts
dozens of JVMs, so `tools/run_tests.py` makes the archive once (in build/, one per version of Spark and Java) and names
it in SPARK_SUBMIT_OPTS. A JVM that cannot use it, for example with another class path, starts as without it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 300
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""The JVM says nothing about classes that it cannot archive."""
TRAINING = """
from pyspark.sql import SparkSession, functions as f

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "2")
spark = builder.config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
rows = spark.range(10).selectExpr("id", "to_json(struct(id)) AS value")
rows = rows.withColumn("parsed", f.from_json("value", "id BIGINT"))
rows = rows.mapInArrow(lambda batches: batches, "id BIGINT, value STRING, parsed STRUCT<id: BIGINT>")
rows.join(spark.range(5), "id").groupBy("parsed.id").count().orderBy("id").collect()
stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
stream = stream.groupBy(f.window("timestamp", "1 minute")).count()
query = stream.writeStream.outputMode("update").foreachBatch(lambda frame, number: frame.collect()).start()
query.processAllAvailable()
query.stop()
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()  # it writes the archive when it ends
"""


def spark_jvm_options() -> str:
    """Options that let a JVM use the archive, which is made now if there is none. Empty if it cannot be made."""
    archive = _archive()
    if archive is None:
        return ""
    if not archive.exists() and not _make(archive):
        return ""
    return f'-XX:SharedArchiveFile="{archive}" {QUIET}'


def _archive() -> Path | None:
    """Where the archive of this Spark and this Java is."""
    java = shutil.which("java")
    try:
        import pyspark
    except ImportError:
        return None
    if java is None:
        return None
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    name = re.sub(r"[^\w.]+", "-", f"spark-{pyspark.__version__}-java-{version.splitlines()[1]}")
    return ROOT / "build" / f"{name}.jsa"


def _make(archive: Path) -> bool:
    archive.parent.mkdir(exist_ok=True)
    made = archive.with_suffix(f".{os.getpid()}")
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": f'-XX:ArchiveClassesAtExit="{made}" {QUIET}',
    }
    done = subprocess.run(
        [sys.executable, "-c", TRAINING], capture_output=True, env=environment, timeout=TIMEOUT_S, check=False
    )
    if done.returncode or not made.exists():
        sys.stderr.write(f"no archive of Spark's classes: {done.stderr.decode(errors='replace')[-2000:]}\n")
        made.unlink(missing_ok=True)
        return False
    made.replace(archive)
    return True


if __name__ == "__main__":
    print(spark_jvm_options())
