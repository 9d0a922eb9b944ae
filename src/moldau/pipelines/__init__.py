"""Declarative pipelines: projects for Spark Declarative Pipelines that read and write topics.

`moldau pipeline new|run|status|stop|graph` creates a project, runs it and shows it. The code of a pipeline uses

    from moldau.pipelines import read_topic, write_topic

which connect to the brokers that `moldau pipeline run -b` names. docs/pipelines.md is the guide.
"""

from __future__ import annotations

from moldau.pipelines.topics import read_topic, write_topic

__all__ = ["read_topic", "write_topic"]
