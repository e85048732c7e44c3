"""What is answered to those who ask: predictions, explanations, the model card."""

from pathlib import Path

import pytest

from memgrow.learner import Learner
from memgrow.service.published import encoder_name
from tests.service.conftest import PAIR, Serve


def test_a_prediction_is_that_of_the_learner(serve: Serve) -> None:
    served = serve()
    learner = served.service.publisher.current.learner
    (expected,) = learner.predict([(PAIR["premise"], PAIR["hypothesis"])])
    text = "\t".join(PAIR.values())
    answer = served.client.post("/predict", json={"inputs": [PAIR, text]}).json()
    assert answer["version"] == 2
    for found in answer["predictions"]:
        assert found["label"] == expected.label
        assert found["probabilities"] == pytest.approx(expected.probabilities, abs=1e-6)


def test_an_explanation_shares_each_word_among_the_domains(serve: Serve) -> None:
    answer = serve().client.post("/explain", json={"input": PAIR}).json()
    assert [word["word"] for word in answer["words"]] == " ".join(PAIR.values()).split()
    assert {word["text"] for word in answer["words"]} == {0, 1}
    for word in answer["words"]:
        assert sum(word["shares"]) == pytest.approx(1.0, abs=1e-5)
        assert len(word["shares"]) == len(answer["domains"])
    assert answer["label"] in answer["probabilities"]


def test_the_card_tells_of_versions_and_history(serve: Serve, learnt_two: str) -> None:
    served = serve()
    card, history = served.client.get("/model").json(), Learner.load(learnt_two, "cpu").history
    assert (card["kind"], card["task"], card["method"], card["version"]) == ("classifier", "pair", "F+M+V", 2)
    assert card["domains"] == list(history.domains)
    assert [one["number"] for one in card["versions"]] == [2, 1]
    assert card["matrix"] == history.matrix.to_json()
    assert served.client.get("/health").json() == {"status": "ok", "version": 2}


def test_pages_need_nothing_from_elsewhere(serve: Serve) -> None:
    client = serve().client
    for path in ("/", "/docs"):
        page = client.get(path)
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        assert "http://" not in page.text
        assert "https://" not in page.text
    assert "/predict" in client.get("/docs").text
    assert "/predict" in client.get("/openapi.json").json()["paths"]


def test_nobody_is_told_where_an_encoder_lies(tmp_path: Path) -> None:
    assert encoder_name(str(tmp_path / "mine")) == "mine"
    assert [encoder_name(name) for name in ("minilm", "owner/name", None)] == ["minilm", "owner/name", None]
