"""Names in questions: labels and decoded IRIs are understood, and what is ambiguous is told with its candidates."""

from dataclasses import replace

import pytest

from pfedeg.errors import InputError
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.training.link_prediction import look_up

EX = "http://example.org/"
NAMES = [f"{EX}S%C3%A3o%20Paulo", f"{EX}a%2fb", f"{EX}a%2Fb", f"{EX}PE", "Peru", f"{EX}x1", f"{EX}x2"]
LABELS = {f"{EX}PE": "Perú", f"{EX}x1": "Springfield ", f"{EX}x2": "Springfield", f"{EX}near%20to": "close to"}
GRAPH = replace(
    KnowledgeGraph.from_names([(name, f"{EX}near%20to", NAMES[0]) for name in NAMES]),
    labels=LABELS | {"a name elsewhere": "Perú"},
)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (f"{EX}S%C3%A3o%20Paulo", NAMES[0]),
        (f"{EX}São Paulo", NAMES[0]),
        (f"{EX}Sa\u0303o Paulo", NAMES[0]),
        ("Perú", f"{EX}PE"),
        (" Perú ", f"{EX}PE"),
        ("Peru", "Peru"),
        (f"{EX}%50E", f"{EX}PE"),
    ],
)
def test_an_entity_by_its_name_label_or_decoded_iri(asked: str, name: str) -> None:
    assert GRAPH.entities[look_up("entity", asked, GRAPH)] == name


@pytest.mark.parametrize("asked", ["close to", f"{EX}near to", f"{EX}near%20to"])
def test_a_relation_likewise(asked: str) -> None:
    assert look_up("relation", asked, GRAPH) == 0


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("Springfield", f"entity 'Springfield': 2 have this label; choose one: {EX}x1, {EX}x2"),
        (f"{EX}a/b", f"entity '{EX}a/b': 2 have this decoded IRI; choose one: {EX}a%2Fb, {EX}a%2fb"),
        ("close to", "unknown entity 'close to'"),
        ("Perú!", "unknown entity 'Perú!'; did you mean 'Perú'"),
        (" ", "the entity is missing"),
    ],
)
def test_what_is_ambiguous_or_unknown_is_told(asked: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        look_up("entity", asked, GRAPH)
    assert str(caught.value).startswith(message)
