"""Results as tables: Arrow, pandas, CSV, and LaTeX that compiles."""

import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pfedeg.errors import InputError
from pfedeg.latex import SPECIAL, escape
from pfedeg.result_table import ResultTable

TABLE = ResultTable.of(
    ["client", "mrr", "triples", "note"],
    [["", 0.51234, 30, None], ["a_b & <c>", None, 10, "50 %"], ["Čedar {x}", 1, 20, "β ± 2"]],
)


def test_rows_are_dicts() -> None:
    assert len(TABLE) == 3
    assert next(iter(TABLE)) == {"client": "", "mrr": 0.51234, "triples": 30, "note": None}
    assert TABLE.column("triples") == [30, 10, 20]


def test_arrow_has_types() -> None:
    found = TABLE.to_arrow()
    assert [str(kind) for kind in found.schema.types] == ["string", "double", "int64", "string"]
    assert found.to_pylist()[1] == {"client": "a_b & <c>", "mrr": None, "triples": 10, "note": "50 %"}
    assert ResultTable.of(["x"], []).to_arrow().num_rows == 0


def test_pandas_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    def frame(rows: Any, columns: Any) -> Any:
        return rows, columns

    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=frame, __spec__=object()))
    assert TABLE.to_pandas() == (list(TABLE), list(TABLE.columns))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        InputError, match=r"to_pandas needs pandas: pip install 'pfedeg\[pandas\]'; to_arrow works with"
    ):
        TABLE.to_pandas()


@pytest.mark.full
def test_pandas() -> None:
    pytest.importorskip("pandas")
    frame = TABLE.to_pandas()
    assert list(frame.columns) == list(TABLE.columns)
    assert frame.loc[0, "mrr"] == 0.51234


def test_csv() -> None:
    assert TABLE.to_csv().splitlines() == [
        "client,mrr,triples,note",
        ",0.51234,30,",
        "a_b & <c>,,10,50 %",
        "Čedar {x},1,20,β ± 2",
    ]


def check_latex(source: str) -> list[list[str]]:
    """Check what a compiler would: balanced groups and environments, as many cells per row as columns; the cells."""
    text = re.sub(r"(?<!\\)%.*", "", source)
    bare = re.sub(r"\\[\\&%$#_{}]", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    opened: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert opened == []
    assert re.search(r"[#_^]", re.sub(r"\\label\{[^}]*\}|\$[^$]*\$", "", bare)) is None
    cells = []
    for kinds, body in re.findall(r"\\begin\{tabular\}\{([lr]+)\}(.*?)\\end\{tabular\}", text, re.S):
        lines = [line.strip() for line in body.strip().splitlines()]
        assert (lines[0], lines[2], lines[-1]) == ("\\toprule", "\\midrule", "\\bottomrule")
        for line in (lines[1], *lines[3:-1]):
            assert line.endswith("\\\\")
            found = re.split(r"(?<!\\)&", line.removesuffix("\\\\"))
            assert len(found) == len(kinds)
            cells.append([each.strip() for each in found])
    return cells


def test_latex_is_a_booktabs_table() -> None:
    source = TABLE.to_latex("100 % of #1_a", "tab:a", digits=2)
    assert check_latex(source) == [
        ["client", "note", "mrr", "triples"],
        ["", "--", "0.51", "30"],
        [r"a\_b \& \textless{}c\textgreater{}", r"50 \%", "--", "10"],
        [r"Čedar \{x\}", r"$\beta$ $\pm$ 2", "1", "20"],
    ]
    assert r"\caption{100 \% of \#1\_a}" in source
    assert r"\label{tab:a}" in source
    assert r"\begin{tabular}{llrr}" in source


def test_text_is_escaped() -> None:
    assert escape("a\\b~c^d\x1b") == r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d\textbackslash{}x1b"
    assert all(not set("&%#_").intersection(re.sub(r"\\.", "", escape(char))) for char in SPECIAL)
    assert escape("-0.0012 … -3 of 1-2, x-1") == r"$-$0.0012 \ldots{} $-$3 of 1-2, x-1"
    check_latex(TABLE.to_latex("".join(SPECIAL)))


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(InputError, match="unknown column 'mr'; did you mean 'mrr'"):
        TABLE.column("mr")
