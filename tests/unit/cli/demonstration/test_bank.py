"""The bank of the demo: expected results follow from the seed, and wrong results are detected."""

from __future__ import annotations

from moldau.cli.demonstration.bank import (
    ACCOUNTS,
    CLOSING,
    WINDOW_MS,
    Alert,
    Bank,
    BankTransaction,
    Limit,
    expected_alerts,
)
from moldau.cli.demonstration.check import compare


def bank(seed: int = 1) -> Bank:
    return Bank(seed, begin_ms=1_700_000_003_000, seconds=30, a_second=500)


def test_the_same_seed_gives_the_same_day() -> None:
    assert list(bank().transactions()) == list(bank().transactions())
    assert bank().limits() == bank().limits()
    assert bank().alerts() != bank(2).alerts()


def test_a_day_has_alerts_and_quiet_windows() -> None:
    alerts = bank().alerts()
    windows = 30_000 // WINDOW_MS * ACCOUNTS
    assert windows * 0.05 < len(alerts) < windows * 0.95


def test_transactions_come_in_the_order_of_their_time_and_closing_ones_after_all_windows() -> None:
    times = [one.at_ms for one in bank().transactions()]
    assert times == sorted(times) and len(times) == bank().count
    for one in bank().closing(4):
        assert one.account == CLOSING and one.at_ms > times[-1] + 2 * WINDOW_MS


def test_the_limit_that_held_when_a_window_began_decides() -> None:
    limits = [Limit("a", 100, 0), Limit("a", 500, WINDOW_MS), Limit("a", 50, WINDOW_MS + 1)]
    transactions = [
        BankTransaction(0, "a", 101, 0),
        BankTransaction(1, "a", 400, WINDOW_MS),
        BankTransaction(2, "a", 60, 2 * WINDOW_MS),
        BankTransaction(3, "nobody's", 10_000, 0),
    ]
    assert expected_alerts(transactions, limits) == [Alert("a", 0, 101), Alert("a", 2 * WINDOW_MS, 60)]


def test_missing_duplicate_and_unexpected_alerts_are_named() -> None:
    one, two, three = (Alert("a", window, 1) for window in (1, 2, 3))
    assert compare([one, two], [two, one]).right
    verdict = compare([one, two], [two, two, three])
    assert (verdict.missing, verdict.doubled, verdict.unexpected) == ((one,), (two,), (three,))
    assert "1 missing" in str(verdict) and "1 doubled" in str(verdict) and "1 unexpected" in str(verdict)
