"""Definitions of a pipeline: the files of the project, registered with Spark and kept to be registered again.

Spark Connect accepts one run per graph. A continuous pipeline runs many updates, so the commands of the first
registration are kept and sent again for each update. The files are read once: a change counts after a restart.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry

from moldau.pipelines.errors import PipelineError, SourceLine
from moldau.pipelines.graph import (
    MATERIALIZED_VIEW,
    SINK,
    TABLE,
    VIEW,
    DataFlow,
    GraphNode,
    PipelineGraph,
    graph_of,
    topic_id,
)
from moldau.pipelines.plain_words import error_in_python_file, error_in_sql_file
from moldau.pipelines.project import PipelineProject
from moldau.pipelines.sql_files import definitions_in

FORMATS: Final = ("moldau", "kafka")
TOPIC_OPTIONS: Final = ("subscribe", "subscribepattern", "assign")
COMMANDS: Final = ("define_output", "define_flow", "define_sql_graph_elements")


class PipelineDefinitions(GraphElementRegistry):
    """All definitions of a project: registered with Spark, as commands to repeat, and as a graph."""

    def __init__(self, project: PipelineProject, spark: Any, graph_id: str) -> None:
        self._project = project
        self._client = _RecordingClient(spark.client)
        self._spark_registry = SparkConnectGraphElementRegistry(spark, graph_id)
        self._spark_registry._client = self._client
        self._nodes: list[GraphNode] = []
        self._flows: list[DataFlow] = []
        self._written: dict[str, str] = {}

    @property
    def graph(self) -> PipelineGraph:
        return graph_of(self._nodes, self._flows, self._written)

    def register_again(self, spark: Any, graph_id: str) -> None:
        """Register the same definitions in another graph, or in another session."""
        for kept in self._client.commands:
            command = type(kept)()
            command.CopyFrom(kept)
            kind = command.pipeline_command.WhichOneof("command_type")
            getattr(command.pipeline_command, kind).dataflow_graph_id = graph_id
            spark.client.execute_command(command)

    # What the code of a pipeline calls, through pyspark.pipelines.

    def register_output(self, output: Output) -> None:
        where = self._place()
        kind = VIEW
        if isinstance(output, MaterializedView):
            kind = MATERIALIZED_VIEW
        elif isinstance(output, StreamingTable):
            kind = TABLE
        elif isinstance(output, Sink):
            kind = SINK
            topic = (output.options or {}).get("topic")
            if output.format in FORMATS and topic:
                self._written[output.name] = topic
        self._nodes.append(GraphNode(output.name, kind, output.name, where))
        self._spark_registry.register_output(output)

    def register_flow(self, flow: Flow) -> None:
        where = self._place()
        self._spark_registry.register_flow(flow)
        relation = self._client.commands[-1].pipeline_command.define_flow.relation_flow_details.relation
        self._flows.append(DataFlow(flow.name, flow.target, tuple(inputs_of(relation)), where))

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        self._flows.append(DataFlow(flow.name or flow.target, flow.target, (flow.source,), self._place()))
        self._spark_registry.register_auto_cdc_flow(flow)

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        found = definitions_in(sql_text, str(file_path))
        try:
            self._spark_registry.register_sql(sql_text, file_path)
        except Exception as error:
            raise error_in_sql_file(error, str(file_path), sql_text) from error
        self._nodes += found.nodes
        self._flows += found.flows

    def _place(self) -> SourceLine | None:
        """The line of the project's code that is being run."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            file = Path(frame.f_code.co_filename)
            if file.is_relative_to(self._project.root):
                return SourceLine(str(file.relative_to(self._project.root)), frame.f_lineno)
            frame = frame.f_back
        return None


def load_definitions(project: PipelineProject, spark: Any, graph_id: str) -> PipelineDefinitions:
    """Run the Python files of the project and register its SQL files. Mistakes are PipelineErrors with their place."""
    from pyspark.pipelines import cli

    spark_cli: Any = cli

    definitions = PipelineDefinitions(project, spark, graph_id)
    content = {
        "name": project.name,
        "storage": project.storage,
        "libraries": [{"glob": {"include": one}} for one in project.includes],
    }
    quiet: Any = lambda message: None  # noqa: E731 - replaces a function of one argument
    shown, spark_cli.log_with_curr_timestamp = spark_cli.log_with_curr_timestamp, quiet
    try:
        spec = cli.unpack_pipeline_spec(content)
        cli.register_definitions(project.spec, definitions, spec, spark, graph_id)
    except PipelineError:
        raise
    except Exception as error:
        raise error_in_python_file(error, project.root) from error
    finally:
        spark_cli.log_with_curr_timestamp = shown
    if not definitions.graph.flows:
        raise PipelineError(
            f"no datasets: no file of {', '.join(project.includes)} defines one", where=SourceLine(project.spec.name)
        )
    return definitions


def inputs_of(message: Any) -> Iterator[str]:
    """The ids of the nodes that a relation reads: topics, and tables by name."""
    name = message.DESCRIPTOR.full_name
    if name == "spark.connect.Read":
        yield from _read_inputs(message)
        return
    if name == "spark.connect.SQL":
        found = definitions_in(f"CREATE TEMPORARY VIEW _ AS {message.query}", "")
        yield from (one for flow in found.flows for one in flow.inputs)
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for one in value if hasattr(value, "__len__") and not hasattr(value, "DESCRIPTOR") else (value,):
            yield from inputs_of(one)


def _read_inputs(read: Any) -> Iterator[str]:
    if read.HasField("named_table"):
        yield read.named_table.unparsed_identifier
    elif read.data_source.format in FORMATS:
        options = {name.lower(): value for name, value in read.data_source.options.items()}
        text = next((options[name] for name in TOPIC_OPTIONS if name in options), "")
        if "subscribe" in options:
            yield from (topic_id(topic.strip()) for topic in text.split(","))
        else:
            yield topic_id(text)


class _RecordingClient:
    """Spark's client, which keeps the commands that define datasets and flows."""

    def __init__(self, client: Any) -> None:
        self._spark_client = client
        self.commands: list[Any] = []

    def execute_command(self, command: Any, *arguments: Any) -> Any:
        answer = self._spark_client.execute_command(command, *arguments)
        if command.pipeline_command.WhichOneof("command_type") in COMMANDS:
            self.commands.append(command)
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark_client, name)
