"""Record codec parity: native code and reference agree on every result and every error message."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from moldau.records import (
    BatchError,
    BatchInfo,
    BatchRecord,
    Codec,
    RecordColumns,
    encode_batch,
    errors,
    reference,
    reseal,
)
from tests.unit.records.strategies import batches, header_lists, mutated_batches, record_lists, timestamps

try:
    from moldau.records import _native
except ImportError:
    _native = None  # type: ignore[assignment]

needs_native = pytest.mark.skipif(_native is None, reason="the native twin is not built")


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result, or the error with its message."""
    try:
        result = function(*args, **kwargs)
    except BatchError as error:
        return type(error), str(error), error.record_index
    except ValueError as error:
        return type(error), str(error)
    except (TypeError, AttributeError) as error:
        return type(error)
    if isinstance(result, RecordColumns):
        columns = [getattr(result, name) for name in result.__slots__]
        return RecordColumns, [bytes(one) if isinstance(one, memoryview) else (one.typecode, one) for one in columns]
    return type(result), result


def both(name: str, *args: Any, **kwargs: Any) -> Any:
    """The outcome, after checking that it is the same for both."""
    expected = outcome(getattr(reference, name), *args, **kwargs)
    assert outcome(getattr(_native, name), *args, **kwargs) == expected
    return expected


def test_the_native_codec_is_built_if_there_is_a_compiler() -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    assert _native is not None


def test_the_environment_can_ask_for_the_reference() -> None:
    code = "import moldau.records as r; assert not r.NATIVE and r.check_batch.__module__.endswith('reference')"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "MOLDAU_PURE": "1"}, check=True)


@needs_native
@given(
    batch=batches(),
    before=st.binary(max_size=9),
    after=st.binary(max_size=9),
    flags=st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_both_codecs_agree_on_valid_batches(batch: bytearray, before: bytes, after: bytes, flags: list[bool]) -> None:
    buf = memoryview(bytearray(before + batch + after))
    require_keys, allow_control, allow_gaps = flags
    both(
        "check_batch",
        buf,
        len(before),
        require_keys=require_keys,
        allow_control=allow_control,
        allow_gaps=allow_gaps,
    )
    assert both("decode_batch", buf, len(before))[0] is list
    assert both("walk", buf, len(before))[0] is RecordColumns
    assert both("check_batch", buf, len(before), allow_control=True, allow_gaps=True)[0] is BatchInfo


@needs_native
@given(
    batch=mutated_batches(), pos=st.just(0) | st.integers(-3, 80), flags=st.lists(st.booleans(), min_size=3, max_size=3)
)
def test_both_codecs_agree_on_mutated_batches(batch: bytearray, pos: int, flags: list[bool]) -> None:
    require_keys, allow_control, allow_gaps = flags
    result = both(
        "check_batch", batch, pos, require_keys=require_keys, allow_control=allow_control, allow_gaps=allow_gaps
    )
    event(result[1].partition(" ")[0] if isinstance(result[1], str) else "taken")
    both("decode_batch", batch, pos)
    both("walk", batch, pos)


@needs_native
@given(
    appends=st.lists(
        st.tuples(
            st.integers(-1, 5) | st.integers(2**31 - 2, 2**31),
            timestamps | st.integers(-(2**64), 2**64),
            st.none() | st.binary(max_size=300) | st.binary(max_size=20).map(bytearray) | st.binary().map(memoryview),
            st.none() | st.binary(max_size=300),
            header_lists | st.just([("bad", 5)]) | st.just([(7, b"")]) | st.just([("\ud800", b"")]),
        ),
        max_size=8,
    ),
    base=st.none() | timestamps,
)
def test_builders_write_the_same_bytes_and_refuse_the_same_records(appends: list[Any], base: int | None) -> None:
    ours, theirs = reference.RecordsBuilder(base), _native.RecordsBuilder(base)
    for append in appends:
        assert outcome(theirs.append, *append) == outcome(ours.append, *append)
    for name in ("count", "size", "base_timestamp", "max_timestamp", "last_offset_delta"):
        assert getattr(theirs, name) == getattr(ours, name)
    assert theirs.records() == ours.records()


@needs_native
@given(records=record_lists(max_size=3), data=st.data())
def test_both_codecs_agree_on_every_single_byte_change(records: list[BatchRecord], data: st.DataObject) -> None:
    batch = encode_batch(records)
    at = data.draw(st.integers(21, len(batch) - 1))
    for value in (0x00, 0x01, 0x03, 0x7F, 0x80, 0xFF):
        changed = bytearray(batch)
        changed[at] = value
        reseal(changed, 0, len(changed))
        both("check_batch", changed, 0)
        both("decode_batch", changed)


@needs_native
def test_the_native_codec_reports_every_fault_of_the_reference() -> None:
    """All single-byte changes of one rich batch cause every record error that one byte can cause."""
    batch = encode_batch(
        [
            BatchRecord(0, 2**62, b"key", b"value" * 20, (("name", b"content"), ("null", None))),
            BatchRecord(1, 5, b"", None, ()),
        ]
    )
    seen: set[str] = set()
    for at in range(21, len(batch)):
        for value in range(256):
            changed = bytearray(batch)
            changed[at] = value
            reseal(changed, 0, len(changed))
            for allow_gaps in (False, True):
                result = both("check_batch", changed, 0, require_keys=True, allow_gaps=allow_gaps)
                if result[0] is not BatchInfo:
                    seen.add(result[1])
    words = " ".join(seen)
    for fault in errors._MESSAGES.values():
        phrase = max((part.strip(" ,;") for part in fault.replace("}", "{").split("{")[::2]), key=len)
        assert phrase in words


@needs_native
@pytest.mark.parametrize("codec", Codec)
def test_both_codecs_accept_bytes_bytearrays_and_views(codec: Codec) -> None:
    batch = bytes(encode_batch([BatchRecord(0, 1, b"k", b"v")], codec=codec))
    for buf in (batch, bytearray(batch), memoryview(batch), memoryview(bytearray(batch))):
        assert both("decode_batch", buf)[1] == [BatchRecord(0, 1, b"k", b"v")]


def test_engines_have_the_same_names() -> None:
    def public(module: ModuleType) -> set[str]:
        return {"check_batch", "walk", "decode_batch", "RecordsBuilder"} & set(dir(module))

    assert len(public(reference)) == 4
    if _native is not None:
        assert public(_native) == public(reference)
