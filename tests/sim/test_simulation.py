"""Whole clusters under faults: no anomaly for any seed, and the same seed gives the same run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from moldau.settings.authorization import KAFKA_AUTHORIZERS
from moldau.testing.simulation import __main__ as command
from moldau.testing.simulation.__main__ import report, run_all
from moldau.testing.simulation.scenario import Options, Result, simulate
from moldau.testing.simulation.world import World

SOAK_SEEDS = 5_000
SHORT_S = 30.0
"""A run starts as many seeds as it can in this many seconds."""

DIGEST = """
import sys
from moldau.testing.simulation.scenario import Options, simulate
result = simulate(int(sys.argv[1]), Options(faults_s=5.0))
print(result.digest, len(result.lines))
"""


def test_no_seed_has_an_anomaly(soak: bool, capsys: pytest.CaptureFixture[str]) -> None:
    within_s = float("inf") if soak else SHORT_S
    total = run_all(range(1, SOAK_SEEDS + 1), os.cpu_count() or 1, show=False, within_s=within_s)
    with capsys.disabled():
        print(f"\nsimulation: {total}")
    assert total.seeds > 0
    assert not total.failed, "\n\n".join(outcome.report for outcome in total.failed[:10])


def test_a_cluster_without_faults_serves_everything() -> None:
    result = simulate(7, Options(faults=False, faults_s=10.0, brokers=3))
    assert result.anomalies == []
    assert result.counts["acked"] > 50


def test_a_cluster_with_access_control_lives_through_faults() -> None:
    """Clients and brokers are anonymous here. Each of their requests is decided by the authorizer."""
    settings = {"authorizer.class.name": KAFKA_AUTHORIZERS[0], "allow.everyone.if.no.acl.found": "true"}
    result = simulate(12, Options(faults_s=5.0, brokers=3, settings=settings, secured=False))
    assert result.anomalies == []
    assert result.counts["acked"] > 20


def test_in_a_secured_cluster_without_faults_rights_are_used_and_denied() -> None:
    result = simulate(7, Options(faults=False, faults_s=20.0, brokers=3, secured=True))
    assert result.anomalies == []
    assert result.counts["acked"] > 50
    assert result.counts["allowed"] > 5
    assert result.counts["denied"] > 10


@pytest.mark.parametrize(("seed", "secured"), [(3, False), (4, True)])
def test_one_of_four_seeds_simulates_a_secured_cluster(seed: int, secured: bool) -> None:
    assert ("denied" in simulate(seed, Options(faults_s=1.0)).counts) is secured


@pytest.mark.parametrize("seed", ["11", "12"], ids=["plain", "secured"])
def test_the_same_seed_gives_the_same_trace_in_every_process(seed: str) -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", DIGEST, seed],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for hash_seed in ("0", "1", "77")
    }
    assert len(told) == 1
    assert int(told.pop().split()[1]) > 30


def test_other_seeds_give_other_traces() -> None:
    assert simulate(1, Options(faults_s=1.0)).digest != simulate(2, Options(faults_s=1.0)).digest


def test_a_failed_seed_shows_the_error_the_history_and_how_to_replay_it() -> None:
    def spoil(world: World) -> None:
        world.loop.call_later(3.0, world.anomaly, "made up", "for this test")

    result = simulate(5, Options(faults_s=2.0), spoil)
    told = report(result)
    assert "made up: for this test (at 3.000 s)" in told
    assert "ANOMALY" in told
    assert "replay: make sim SEED=5" in told


def test_a_seed_that_does_not_end_is_reported_with_its_stack_and_does_not_block_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def spin_when_nobody_can_stop_it(world: World) -> None:
        def spin() -> None:
            while True:
                pass

        world.loop.call_later(1.0, spin)

    def spinning(seed: int) -> Result:
        return simulate(seed, Options(faults_s=2.0), spin_when_nobody_can_stop_it if seed == 1 else None)

    monkeypatch.setattr(command, "simulate", spinning)
    monkeypatch.setattr(command, "MOST_CPU_S", 2.0)
    still, other = command.run_seed(1), command.run_seed(2)
    assert "in spin" in still.report
    assert "not finished after 2 s" in still.report
    assert [anomaly.kind for anomaly in still.anomalies] == ["the simulation failed"]
    assert other.anomalies == []


def test_the_command_replays_a_seed_with_its_trace(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "Options", lambda: Options(faults_s=3.0))
    assert command.main(["--seed", "3"]) == 0
    told = capsys.readouterr().out
    assert "broker-1.1     starts" in told
    assert "nemesis" in told
    assert "seed 3:" in told
