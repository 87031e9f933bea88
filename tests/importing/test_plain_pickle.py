"""Pickles made to harm: types with fields, memory that is asked for and not brought, opcodes that run code."""

import pickle
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfedeg.importing.plain_pickle import Array, PickleError, read_pickle

NDARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
FIELDS = b"cnumpy\ndtype\n(S'V8'\nI00\nI01\ntR(I3\nS'|'\nN(S'x'\nt(dS'x'\n"
FIELDS += b"(cnumpy\ndtype\n(S'O8'\nI00\nI01\ntRI0\ntsI8\nI1\nI0\ntb"
ATTACKS = {
    "a type with fields that hide an object": NDARRAY + b"(I1\n(I1\nt" + FIELDS + b"I00\nS'" + b"A" * 8 + b"'\ntb.",
    "an array of objects": NDARRAY + b"(I1\n(I1\ntcnumpy\ndtype\n(S'O8'\nI00\nI01\ntRI00\n(lI1\natb.",
    "addresses in place of objects": b"cnumpy.core.numeric\n_frombuffer\n(C\x08AAAAAAAA"
    b"cnumpy\ndtype\n(S'O8'\ntR(I1\ntS'C'\ntR.",
    "flags of a type of numbers": NDARRAY
    + b"(I1\n(I1\ntcnumpy\ndtype\n(S'i8'\ntR(I3\nS'<'\nNNNI8\nI8\nI63\ntbI00\nS'AAAAAAAA'\ntb.",
    "a call of a type": b"cnumpy\nndarray\n((I1000000000000\nttR.",
    "a shape that the bytes do not have": NDARRAY
    + b"(I1\n(I4294967296\nI4294967296\nttcnumpy\ndtype\n(S'i8'\ntRI00\nS''\ntb.",
    "code": b"cos\nsystem\n(S'touch evil'\ntR.",
    "code by its stack": b"\x80\x04\x8c\x02os\x94\x8c\x06system\x93\x8c\x0atouch evil\x85R.",
    "an instance": b"(S'x'\nios\nsystem\n.",
    "an object": b"cnumpy\ndtype\n)\x81.",
    "an extension": b"\x82\x01.",
    "a persistent id": b"Pmine\n.",
    "a name inside a module": b"cnumpy\nndarray.tofile\n.",
    "a text that is encoded again and again": b"X\x00\x01\x00\x00"
    + b"a" * 256
    + b"q\x00"
    + b"0c_codecs\nencode\n(h\x00tR" * 9
    + b".",
    "no end": b"]",
    "nothing": b"",
    "an empty stack": b"a.",
    "a number of 5,000 digits": b"I" + b"9" * 5000 + b"\n.",
    "a key that is a list": b"}]I1\ns.",
    "a mark that is missing": b"I1\nt.",
    "a text longer than the file": b"\x8d" + (1 << 60).to_bytes(8, "little") + b"abc.",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_refused_in_a_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PickleError) as refused:
        read_pickle(ATTACKS[name])
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "evil").exists()


def test_a_memo_index_costs_no_memory(tmp_path: Path) -> None:
    (tmp_path / "g.pkl").write_bytes(b"Nr\x00\x00\x00\x10.")
    words = [sys.executable, "-m", "pfedeg", "import", str(tmp_path / "g.pkl"), "--out", str(tmp_path / "out")]
    limit = 3 << 30
    done = subprocess.run(
        words, capture_output=True, text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "expected a list with a dict per client" in done.stderr


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("dtype", ["i8", ">i4", "u2", "?", "f4"])
def test_arrays_of_numbers_are_those_that_were_written(protocol: int, dtype: str) -> None:
    arrays = [np.arange(6).astype(dtype), np.arange(6).reshape(2, 3).astype(dtype), np.zeros((2, 0), dtype)]
    arrays.append(np.asfortranarray(arrays[1]))
    found = read_pickle(pickle.dumps(arrays, protocol))
    for written, read in zip(arrays, found, strict=True):
        assert isinstance(read, Array)
        assert read.values is not None
        assert read.values.dtype == written.dtype
        np.testing.assert_array_equal(read.values, written)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
)


@given(plain, st.integers(3, 5))
def test_plain_values_are_those_that_were_written(value: Any, protocol: int) -> None:
    assert read_pickle(pickle.dumps(value, protocol)) == value


@given(st.data())
def test_any_bytes_are_read_or_refused(data: st.DataObject) -> None:
    content = bytearray(
        pickle.dumps([{"train": {"edge_index_ori": np.arange(8).reshape(2, 4)}}], data.draw(st.integers(0, 5)))
    )
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(PickleError):
        read_pickle(bytes(content))
