"""A pretrained encoder reads texts as transformers does, and grows without changing a bit."""

import copy
import inspect
import json
import shutil
from dataclasses import replace

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from torch import nn

from memgrow.data import Example
from memgrow.data.batches import Encoded, collate, encode
from memgrow.data.text import Vocabulary
from memgrow.errors import ModelError, SettingsError
from memgrow.models import PretrainedEncoder, PretrainedSettings, build, rebuild, transformer
from memgrow.models.hub import EncoderFiles, read_encoder
from memgrow.models.tokenizer import max_tokens, tokenize_for, tokenizer_of
from memgrow.models.transformer import FastLinear
from tests.support.tiny_encoder import FAMILIES, POSITIONS, edit_config, make_encoder

LABELS = ("no", "yes")
TEXTS = (
    "the stew was fine",
    "a",
    "The sailor, who had seen it all before, left the boat by the old harbour and never came back again.",
    "naïve CAFÉ — ﬁne… 中文 \u200b😀 \x00 ß",
    "[SEP] and </s>",
)
PAIRS = (("a boat", "the boat sails at noon, they say"), ("the cook was in the kitchen", "no"), ("x", "y"))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, EncoderFiles]:
    folder = tmp_path_factory.mktemp("encoders")
    return {family: read_encoder(make_encoder(folder / family, family)) for family in FAMILIES}


@pytest.fixture(params=FAMILIES)
def files(request, made) -> EncoderFiles:
    return made[request.param]


@pytest.fixture
def folder(made, tmp_path):
    """A whole BERT, to be spoilt."""
    return shutil.copytree(made["bert"].weights.parent, tmp_path / "encoder")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Makes an encoder of another family, with BERT's tokenizer."""

    def made(family: str) -> EncoderFiles:
        return read_encoder(make_encoder(tmp_path_factory.mktemp("others") / family, family))

    return made


def make(files: EncoderFiles, domain: str | None = None, **settings) -> PretrainedEncoder:
    asked = PretrainedSettings(encoder=files.name, **{"dropout": 0.0, **settings})
    return PretrainedEncoder.create(asked, files, domain).eval()


def encoded(files: EncoderFiles, texts, longest: int = 400, pairs: str = "one") -> Encoded:
    examples = [Example(text) if isinstance(text, str) else Example(*text) for text in texts]
    settings = PretrainedSettings(encoder=files.name, pairs=pairs)
    return encode(tokenize_for(settings, examples, longest, files), Vocabulary())


@torch.no_grad()
def vectors(encoder: PretrainedEncoder, data: Encoded, order=None) -> torch.Tensor:
    batch = collate(data, order or range(len(data)), torch.device("cpu"))
    return encoder(batch.words, batch.lengths)


@torch.no_grad()
def naive(files: EncoderFiles, texts, pooling: str = "mean", longest: int = POSITIONS) -> torch.Tensor:
    """One input after another through what transformers makes of the folder."""
    from transformers import AutoModel, AutoTokenizer

    place = files.weights.parent
    tokenizer, model = AutoTokenizer.from_pretrained(place), AutoModel.from_pretrained(place).eval()
    known = inspect.signature(model.forward).parameters
    rows = []
    for text in texts:
        given = tokenizer(
            *((text,) if isinstance(text, str) else text),
            return_tensors="pt",
            truncation="longest_first",
            max_length=longest,
            split_special_tokens=True,
            return_token_type_ids=True,
        )
        states = model(**{name: value for name, value in given.items() if name in known})[0][0]
        rows.append(states.mean(0) if pooling == "mean" else states[0])
    return torch.stack(rows)


def close(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float = 2e-6) -> None:
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=1e-5)


# Reading


@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("texts", [TEXTS, PAIRS], ids=["texts", "pairs"])
def test_vectors_are_those_of_transformers(files, texts, pooling):
    close(vectors(make(files, pooling=pooling), encoded(files, texts)), naive(files, texts, pooling))


def test_padding_and_the_order_of_a_batch_never_matter(files):
    encoder, data = make(files), encoded(files, TEXTS)
    together = vectors(encoder, data)
    turned = vectors(encoder, data, [4, 2, 0, 1, 3])
    close(turned, together[[4, 2, 0, 1, 3]])
    alone = torch.cat([vectors(encoder, data, [number]) for number in range(len(TEXTS))])
    close(alone, together)


@pytest.mark.parametrize("family", FAMILIES)
def test_any_text_and_any_pair_has_the_pieces_that_transformers_gives_it(made, family):
    from transformers import AutoTokenizer

    files = made[family]
    theirs = AutoTokenizer.from_pretrained(files.weights.parent)
    asked = {"truncation": "longest_first", "max_length": 16, "split_special_tokens": True}

    @hypothesis.settings(max_examples=60, deadline=None)
    @hypothesis.given(st.lists(st.text(max_size=30), min_size=1, max_size=2))
    def check(texts: list[str]) -> None:
        (row,) = encoded(files, [tuple(texts)], longest=16).texts[0]
        # In a list, as it takes an empty second text alone for none.
        assert [row] == theirs([texts[0] if len(texts) == 1 else tuple(texts)], **asked)["input_ids"]

    check()


def test_the_texts_of_a_pair_may_be_read_apart(files):
    data = encoded(files, PAIRS, pairs="two")
    assert [len(texts) for texts in data.texts] == [2, 2, 2]
    firsts, seconds = vectors(make(files, pairs="two"), data).chunk(2)
    close(firsts, naive(files, [pair[0] for pair in PAIRS]))
    close(seconds, naive(files, [pair[1] for pair in PAIRS]))


def test_a_text_that_spells_out_a_special_piece_forges_none(files):
    special = {tokenizer_of(files)._tokenizer.token_to_id(piece) for piece in FAMILIES[files.name].specials}
    for text in ("a [SEP] b", "a </s> b", "[CLS] [PAD] <pad> <s> <mask> [MASK]"):
        (row,) = encoded(files, [text]).texts[0]
        assert not special & set(row[1:-1]) - {tokenizer_of(files)._tokenizer.token_to_id(FAMILIES[files.name].unknown)}


@pytest.mark.parametrize("longest", [12, 400])
def test_long_texts_are_cut_and_counted(files, longest):
    settings = PretrainedSettings(encoder=files.name)
    texts = ["a boat", "the boat " * 100]
    tokens = tokenize_for(settings, [Example(text) for text in texts], longest, files)
    allowed = min(longest, POSITIONS)
    assert tokens.cut == 1
    assert len(tokens.texts[1][0]) == allowed
    found = vectors(make(files), encode(tokens, Vocabulary()))
    close(found, naive(files, texts, longest=allowed))


def test_products_in_bfloat16_leave_the_weights_in_float32_and_are_near_those_of_float32(made):
    encoder, data = make(made["bert"], precision="bfloat16"), encoded(made["bert"], TEXTS)
    before, ours = dict(encoder.state_dict()), vectors(encoder, data)
    close(ours, vectors(make(made["bert"]), data), 2e-2)
    batch = collate(data, range(len(TEXTS)), torch.device("cpu"))
    encoder.train()(batch.words, batch.lengths).sum().backward()
    for name, parameter in encoder.backbone.named_parameters():
        assert parameter.dtype == torch.float32
        assert parameter.grad is None or parameter.grad.dtype == torch.float32
        assert torch.equal(parameter, before[f"backbone.{name}"])


# Growing


def grow(model, slots: int, domain: str) -> None:
    model.grow(slots=slots, domain=domain)
    model.encoder.start_slots(domain, encoded(model.encoder.files, TEXTS))


def outputs(model) -> dict[str, torch.Tensor]:
    """All that a model says of texts, to the bit."""
    data = encoded(model.encoder.files, TEXTS)
    model.eval()
    return {"vectors": vectors(model.encoder, data), "logits": model.logits(data)}


def steps(model, count: int = 3) -> None:
    """A few steps of training, in which everything moves."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = collate(replace(encoded(model.encoder.files, TEXTS), labels=[0, 1, 0, 1, 0]), range(5), torch.device("cpu"))
    model.train()
    for _ in range(count):
        optimizer.zero_grad()
        model.training_step(batch).loss.backward()
        optimizer.step()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_growing_changes_no_bit_of_any_output(files, precision):
    torch.manual_seed(0)
    settings = PretrainedSettings(encoder=files.name, dropout=0.0, precision=precision, best=2, key_size=4)
    model = build("text", settings, 0, len(LABELS), "first", files)
    for number, slots in enumerate((3, 1, 7)):
        steps(model)
        before = outputs(model)
        grow(model, slots, f"domain {number}")
        after = outputs(model)
        assert all(torch.equal(before[name], after[name]) for name in before)
    before = outputs(model)
    steps(model)
    assert not torch.equal(before["vectors"], outputs(model)["vectors"])
    assert model.banks[0].domains == ("domain 0", "domain 1", "domain 2")
    assert all(memory.bank.values.count_nonzero() for memory in model.encoder.memories)  # and so the newest slots learn


def test_a_model_is_rebuilt_from_its_shape_without_the_encoders_weights(files):
    torch.manual_seed(0)
    settings = PretrainedSettings(encoder=files.name, slots=4, dropout=0.0)
    model = build("text", settings, 0, len(LABELS), "first", files)
    grow(model, 3, "second")
    steps(model)
    shape = json.loads(json.dumps(model.shape()))
    again = rebuild("text", settings, len(LABELS), shape, files=replace(files, weights=None))
    again.load_state_dict(model.state_dict())
    before, after = outputs(model), outputs(again)
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(("asked", "places"), [("auto", [0]), ("1", [0]), ("2", [1]), ("1,2", [0, 1]), ("2,1", [0, 1])])
def test_memories_stand_after_the_layers_that_are_asked_for(files, asked, places):
    torch.manual_seed(0)
    encoder = make(files, "first", slots=2, memory_layers=asked)
    assert len(encoder.memories) == len(places)
    data = encoded(files, TEXTS)
    (layers,) = (m for m in encoder.backbone.modules() if isinstance(m, nn.ModuleList) and len(m) == 2)
    plain = []
    for layer in layers:
        layer.register_forward_hook(lambda m, g, output: plain.append(output[0] if type(output) is tuple else output))
    with encoder.memory_inputs() as inputs:
        vectors(encoder, data)
    assert all(torch.equal(states, plain[place]) for states, place in zip(inputs, places, strict=True))


# What is refused


WRONG_SETTINGS = (
    *({"hidden": 64}, {"embedding": 5}, {"layers": 2}, {"cell": "lstm"}, {"pooling": "last"}, {"memory": "tape"}),
    *({"pairs": "three"}, {"precision": "float16"}, {"memory_layers": "0"}, {"memory_layers": "three"}),
    *({"key_size": 1}, {"best": 0}, {"slots": -1}, {"perceptron": -1}, {"dropout": 1.0}),
)


@pytest.mark.parametrize("settings", WRONG_SETTINGS, ids=str)
def test_wrong_settings_are_refused(settings):
    with pytest.raises(SettingsError, match=next(iter(settings))):
        PretrainedSettings(**settings)


def test_code_in_an_encoders_folder_is_never_run(folder, tmp_path, monkeypatch):
    trace = tmp_path / "ran"
    # Where transformers would put the code: it has read HF_HOME by now.
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "home"))
    expected = vectors(make(read_encoder(folder)), encoded(read_encoder(folder), TEXTS))
    known = "BertModel as Model, BertConfig as Config, BertTokenizer as Pieces"
    (folder / "theirs.py").write_text(f"open({str(trace)!r}, 'w')\nfrom transformers import {known}\n")
    edit_config(folder, auto_map={"AutoModel": "theirs.Model", "AutoConfig": "theirs.Config"})
    theirs = {"AutoTokenizer": ["theirs.Pieces", "theirs.Pieces"]}
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "auto_map": theirs}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    files = read_encoder(folder)
    close(vectors(make(files), encoded(files, TEXTS)), expected)
    assert not trace.exists()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # in DeBERTa
@pytest.mark.parametrize("family", ["electra", "mpnet", "xlm-roberta", "deberta-v2"])
def test_other_families_are_tried_before_they_are_taken(other, family):
    """Among them kin of RoBERTa, whose positions begin later: a text as long as may be is read."""
    files = other(family)
    texts = [*TEXTS, "the boat " * 100]
    longest = max_tokens(400, files)
    assert longest == POSITIONS
    close(vectors(make(files), encoded(files, texts)), naive(files, texts, longest=longest), 1e-5)


@pytest.mark.parametrize("family", ["fnet", "longformer", "xmod", "albert"])
def test_a_family_that_cannot_be_read_is_refused(other, family):
    with pytest.raises(ModelError, match="ModernBERT and other encoders work"):
        make(other(family))


@pytest.mark.parametrize("size", ["type_vocab_size", "max_position_embeddings"])
def test_a_configuration_takes_no_more_room_than_its_weights(folder, size, monkeypatch):
    monkeypatch.setattr("transformers.AutoModel.from_pretrained", lambda *_, **__: pytest.fail("it takes the room"))
    edit_config(folder, **{size: 10**9})
    with pytest.raises(ModelError, match="weights"):
        make(read_encoder(folder))


# Tokenizers


# Many texts


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_many_texts_get_the_answers_of_each_alone(files, precision, monkeypatch):
    settings = PretrainedSettings(encoder=files.name, slots=4, best=4, precision=precision)
    model, data = build("text", settings, 0, len(LABELS), "first", files).eval(), encoded(files, TEXTS * 4)
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        batches = [collate(data, [index], model.device) for index in range(len(data))]
        alone = torch.cat([model(batch.words, batch.lengths) for batch in batches])
    tolerance = {"float32": 1e-5, "bfloat16": 2e-2}[precision]
    for count in (50, 1 << 10):
        monkeypatch.setitem(transformer.TOKENS_AT_ONCE, "cpu", count)
        torch.testing.assert_close(model.logits(data), alone, rtol=tolerance, atol=tolerance)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_kept_bfloat16_weights_give_the_same_bits_and_follow_every_change(files: EncoderFiles, monkeypatch) -> None:
    monkeypatch.setattr(PretrainedEncoder, "_half", True)
    encoder = make(files)
    words, lengths = torch.randint(5, 20, (3, 7)), torch.tensor([7, 3, 5])

    def assert_same() -> None:
        plain = copy.deepcopy(encoder)
        for module in plain.modules():
            if isinstance(module, FastLinear):
                module.__class__ = nn.Linear
        with torch.no_grad():
            assert torch.equal(encoder(words, lengths), plain(words, lengths))

    assert_same()
    assert_same()
    linear = next(one for one in encoder.modules() if isinstance(one, FastLinear))
    assert linear._kept[1] is not None
    with torch.no_grad():
        linear.weight.mul_(1.5)
    assert_same()
    encoder.load_state_dict({name: 0.9 * tensor for name, tensor in encoder.state_dict().items()})
    assert_same()
    for fused in (False, True):
        encoder.train()
        encoder(words, lengths).square().sum().backward()
        torch.optim.Adam(encoder.parameters(), lr=0.1, fused=fused).step()
        encoder.eval()
        assert_same()


def test_the_product_of_prediction_is_that_of_torch(files: EncoderFiles, monkeypatch) -> None:
    monkeypatch.setattr(PretrainedEncoder, "_half", False)
    encoder = make(files)
    words, lengths = torch.randint(5, 20, (3, 7)), torch.tensor([7, 3, 5])
    with torch.no_grad():
        found = encoder(words, lengths)
        monkeypatch.setattr(FastLinear, "forward", nn.Linear.forward)
        torch.testing.assert_close(found, encoder(words, lengths), rtol=1e-5, atol=1e-5)
