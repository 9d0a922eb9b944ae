"""Marker watches: a verification notices markers of its producer in its partition, and no others."""

from __future__ import annotations

from moldau.broker.txn.marker_watches import MarkerWatches


def test_a_marker_is_noticed_by_all_verifications_in_progress() -> None:
    watches = MarkerWatches()
    first, second = watches.begin("t", 0, 7), watches.begin("t", 0, 7)
    watches.marker_written("t", 0, 7)
    assert first.marker_written and second.marker_written


def test_markers_of_other_producers_and_partitions_are_ignored() -> None:
    watches = MarkerWatches()
    watch = watches.begin("t", 0, 7)
    watches.marker_written("t", 1, 7)
    watches.marker_written("t", 0, 8)
    watches.marker_written("u", 0, 7)
    assert not watch.marker_written


def test_a_verification_that_begins_after_a_marker_does_not_notice_it() -> None:
    watches = MarkerWatches()
    before = watches.begin("t", 0, 7)
    watches.marker_written("t", 0, 7)
    after = watches.begin("t", 0, 7)
    watches.end("t", 0, 7, before)  # must not end the later watch
    assert not after.marker_written
    watches.marker_written("t", 0, 7)
    assert after.marker_written


def test_a_watch_lasts_until_its_last_user_ends() -> None:
    watches = MarkerWatches()
    first = watches.begin("t", 0, 7)
    second = watches.begin("t", 0, 7)
    watches.end("t", 0, 7, first)
    watches.marker_written("t", 0, 7)
    assert second.marker_written
