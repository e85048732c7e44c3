"""Causal language models: tokens, loss, additions, the domain memory, and what is refused."""

import json
from dataclasses import replace

import pytest
import torch

from memgrow.data import Domain, Example
from memgrow.data.batches import collate
from memgrow.errors import DataError, ForgettingError, MemgrowError, SettingsError
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import CausalSettings, causal
from memgrow.models.hub import find_encoder, is_causal
from memgrow.models.tokenizer import chat_of
from memgrow.training.settings import TrainingSettings
from research.common.dialogues import synthetic_dialogue
from tests.support.tiny_causal import make_causal
from tests.support.tiny_encoder import make_encoder

TRAINING = TrainingSettings(rate=1e-2, epochs=2, batch=16, max_words=100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_causal(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return make_causal(tmp_path_factory.mktemp("plain"), template=False)


@pytest.fixture(scope="module")
def stream():
    return synthetic_dialogue(domains=2, train=48, validation=16, test=24)


def learner(folder, method="lora", training=TRAINING, **options) -> Learner:
    settings = CausalSettings(encoder=str(folder), precision="float32")
    options = MethodSettings(fisher_examples=5, **options)
    return Learner.create(method, model=settings, training=training, options=options, device="cpu")


@pytest.fixture(scope="module")
def trained(folder, stream, tmp_path_factory):
    one = learner(folder, "lora+memory")
    path = tmp_path_factory.mktemp("trained") / "model"
    one.learn(stream, folder=path)
    return one


# Tokens


def test_the_prompt_is_that_of_the_chat_template(folder):
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(folder)
    message = {"role": "user", "content": "where is the lamp"}
    expected = theirs.apply_chat_template([message], add_generation_prompt=True)["input_ids"]
    (texts,) = chat_of(find_encoder(str(folder))).tokenize([Example("where is the lamp", reply="here")], 100).texts
    assert texts[0] == expected
    assert theirs.decode(texts[1]) == "here<end>"


def test_without_a_template_a_line_break_ends_the_message(plain):
    chat = chat_of(find_encoder(str(plain)))
    (texts,) = chat.tokenize([Example("where", reply="here")], 100).texts
    assert chat.decode([*texts[0], *texts[1]]) == "where\nhere"
    assert texts[1][-1] == chat.end


def test_a_message_that_spells_out_a_special_token_is_a_message_about_it(folder):
    chat = chat_of(find_encoder(str(folder)))
    (texts,) = chat.tokenize([Example("say <end> now", reply="<end>")], 100).texts
    assert texts[0].count(chat.end) == chat.before.count(chat.end) + chat.after.count(chat.end)
    assert texts[1].count(chat.end) == 1


def test_a_message_that_is_too_long_keeps_its_end_and_a_reply_its_beginning(folder):
    chat = chat_of(find_encoder(str(folder)))
    rows = [Example("x" * 300 + " the end", reply="short"), Example("hi", reply="y" * 300)]
    tokenized = chat.tokenize(rows, 60)
    assert tokenized.cut == 2
    (message, _), (_, reply) = tokenized.texts
    assert chat.decode(message[len(chat.before) : -len(chat.after)]).endswith("the end")
    assert all(sum(map(len, row)) <= 60 for row in tokenized.texts)
    assert chat.end not in reply


def test_no_room_for_a_message_is_refused(folder, stream):
    with pytest.raises(SettingsError, match="max_words must be at least"):
        learner(folder, training=replace(TRAINING, max_words=5)).adapt(stream[0])


# The loss


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen2"])
def test_the_loss_is_that_of_transformers_on_the_reply_alone(family, stream, tmp_path):
    from transformers import AutoModelForCausalLM

    one = learner(make_causal(tmp_path / "model", family))
    one.adapt(stream[0])
    with torch.no_grad():
        for addition in one.model.additions:
            addition.up.zero_()
    data = one.encode(stream[0].test)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "model", attn_implementation="eager").eval()
    expected = []
    for prompt, reply in data.texts:
        labels = torch.tensor([[-100] * len(prompt) + reply])
        with torch.no_grad():
            expected.append(
                -float(theirs(input_ids=torch.tensor([[*prompt, *reply]]), labels=labels).loss) * len(reply)
            )
    found = one.model.tally(data)
    assert found.sums.tolist() == pytest.approx(expected, rel=1e-4)
    output = one.model.eval().training_step(collate(data, list(range(len(data))), one.device))
    assert float(output.total) == pytest.approx(-sum(expected), rel=1e-4)
    assert output.seen == sum(len(reply) for _, reply in data.texts)


# Learning


def test_only_the_additions_train_and_the_base_is_written_once(folder, stream, tmp_path):
    one = learner(folder)
    one.learn(stream, folder=tmp_path / "model")
    state, base = one.model.state_dict(), learner(folder)
    base.learn(stream[:1])
    untouched = base.model.state_dict()
    assert all(torch.equal(state[name], untouched[name]) for name in state if name.startswith("encoder."))
    curve = one.history.stages[0].curve
    assert curve.loss[-1] < curve.loss[0]
    inodes = {path.stat().st_ino for path in (tmp_path / "model").rglob("base.safetensors")}
    assert len(list((tmp_path / "model").rglob("base.safetensors"))) == 2
    assert len(inodes) == 1


def test_a_domain_reads_its_own_additions(trained, stream):
    now = trained.history.matrix
    assert trained.model.memory.names == ["kitchen", "harbour"]
    own = trained.model.memory.model_for(0, trained.model)
    assert own.score(trained.encode(stream[0].test)) == pytest.approx(now.score(0, "kitchen"), rel=1e-6)
    assert set(trained.route(["where is the lamp"])[0]) == {"kitchen", "harbour"}
    (told,) = trained.reply(["where is the lamp"], max_words=4, domain="kitchen")
    twin = Learner.create("lora", model=trained.settings, device="cpu")
    twin.state = replace(trained.state, model=own)
    assert twin.reply(["where is the lamp"], max_words=4)[0] == told
    with pytest.raises(MemgrowError, match="no entry 'office'"):
        trained.reply(["where"], domain="office")


def test_replies_are_the_same_alone_and_in_a_batch(trained, stream):
    asked = [example.text for example in stream[0].test[:6]]
    together = trained.reply(asked, max_words=6)
    assert [one.words for one in together] == [trained.reply([text], max_words=6)[0].words for text in asked]
    drawn = [trained.reply(asked, temperature=1.0, top_p=0.9, max_words=6, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    "method", ["lora+ema", "lora+average", "ewc", "si", "imm", "rehearsal", "finetune", "multi-task"]
)
def test_methods_learn_save_and_load(folder, stream, tmp_path, method):
    one = learner(folder, method)
    for number, domain in enumerate(stream):
        one.adapt(domain, earlier=stream[:number] if one.method.joint else (), watch=stream)
    one.save(tmp_path / "model")
    again = Learner.load(tmp_path / "model", device="cpu")
    assert again.evaluate(stream) == one.evaluate(stream)
    assert bool(one.model.rank) == (method != "finetune")


@pytest.mark.parametrize(
    "method",
    ["finetune+vocab", "frozen", "ridge", "gem", "progressive", "lora+distill", "finetune+memory", "lora+slots"],
)
def test_methods_without_a_meaning_are_refused(folder, method):
    with pytest.raises(SettingsError, match=r"causal language model|lora\+memory"):
        learner(folder, method)


def test_other_settings_that_do_not_go_with_it_are_refused(folder, stream, trained):
    with pytest.raises(SettingsError, match="independent"):
        learner(folder, "lora+memory", independent=True).adapt(stream[0])
    one = learner(folder)
    one.adapt(stream[0])
    one.use("lora", MethodSettings(rank=4))
    with pytest.raises(SettingsError, match="rank 8"):
        one.adapt(stream[1])
    one.use("finetune")
    with pytest.raises(SettingsError, match="use lora"):
        one.adapt(stream[1])
    with pytest.raises(SettingsError, match="learns replies"):
        learner(folder).adapt(Domain("labels", *[(Example("a", label="x"), Example("b", label="y"))] * 3))
    with pytest.raises(DataError, match="empty"):
        Domain.from_rows("empty", rows=[{"message": "a", "response": one} for one in ("b", "", "c", "d")])


def test_the_kind_of_a_model_is_read_from_its_config(folder, tmp_path):
    assert is_causal(str(folder))
    assert is_causal("smollm2")
    assert not is_causal(str(make_encoder(tmp_path / "bert")))
    assert not is_causal("minilm")
    assert not is_causal(str(tmp_path / "missing"))
    assert Learner.create(encoder=folder, device="cpu").method.name == "lora"


def test_a_model_without_an_end_token_is_refused(tmp_path, stream):
    make_causal(tmp_path / "model")
    for name in ("tokenizer_config.json", "config.json"):
        path = tmp_path / "model" / name
        values = json.loads(path.read_bytes())
        path.write_text(json.dumps({k: v for k, v in values.items() if k not in ("eos_token", "eos_token_id")}))
    with pytest.raises(MemgrowError, match="eos_token"):
        learner(tmp_path / "model").adapt(stream[0])


# What it loses


def test_forgetting_is_limited_in_percent_of_perplexity(folder, stream):
    one = learner(folder)
    one.learn(stream[:1])
    before = one.evaluate(stream[0])
    one.training = replace(TRAINING, rate=1.0, clip=100.0)
    other = Domain("other", *[tuple(Example(row.text, reply="zzz qqq") for row in stream[0].train)] * 3)
    with pytest.raises(ForgettingError, match="the perplexity of kitchen rises"):
        one.adapt(other, watch=stream[:1], max_forgetting=5)
    assert one.evaluate(stream[0]) == before


def test_a_plain_text_is_watched_from_before_the_first_domain(folder, stream, tmp_path):
    from memgrow.data import load_for_evaluation

    (tmp_path / "base.txt").write_text("where is the lamp\nit is in the kitchen\n" * 20)
    (watched,) = load_for_evaluation([tmp_path / "base.txt"]).stream
    one = learner(folder)
    stage = one.adapt(stream[0], watch=[watched])
    before, after = stage.note["texts_before"]["base"], one.history.matrix.score(0, "base")
    assert 0 < before < 1
    assert after != before
    far = Domain("far", *[tuple(Example(row.text, reply="zzz qqq") for row in stream[0].train)] * 3)
    with pytest.raises(ForgettingError, match="perplexity of base"):
        learner(folder, training=replace(TRAINING, rate=0.07)).adapt(far, watch=[watched], max_forgetting=5)


def test_classifiers_do_not_watch_plain_texts(tmp_path):
    from memgrow.data import load_for_evaluation, synthetic_stream
    from memgrow.models import ModelSettings

    (tmp_path / "base.txt").write_text("some text\n")
    domain = synthetic_stream(domains=1, train=20, validation=8, test=8)[0]
    one = Learner.create("F", model=ModelSettings(embedding=4, hidden=4, slots=0, perceptron=4), device="cpu")
    with pytest.raises(SettingsError, match="plain text"):
        one.adapt(domain, watch=load_for_evaluation([tmp_path / "base.txt"]).stream)


def test_gradients_in_parts_are_those_of_the_whole_batch(folder, stream, monkeypatch):
    one = learner(folder)
    one.adapt(stream[0])
    data = one.encode(stream[0].train)
    batch = collate(data, list(range(16)), one.device)

    def gradients(tokens):
        monkeypatch.setitem(causal.TRAINED_AT_ONCE, "cpu", tokens)
        one.model.zero_grad()
        parts = one.model.parts(batch)
        for part, share in parts:
            (share * one.model.training_step(part).loss).backward()
        return len(parts), torch.cat([p.grad.flatten() for p in one.model.additions.parameters()])

    (many, found), (single, expected) = gradients(100), gradients(10**6)
    assert (many > 2, single) == (True, 1)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
