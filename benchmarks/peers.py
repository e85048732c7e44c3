"""memgrow beside what people use instead: accuracy, forgetting, seconds, memory and disk on three streams of domains.

    python benchmarks/peers.py --data DATA --out RUNS      run what RUNS does not have yet, a JSON file a run
    python benchmarks/peers.py --table RUNS                merge the files into results/peers.json

`pip install -r benchmarks/peers-requirements.txt` installs the peers. DATA holds intents/clinc150.jsonl.gz and
topics/{agnews,amazon,dbpedia}.jsonl.gz; sentiment comes from `memgrow data get sentiment`. Every run is a process with
one thread; its times are processor seconds. All systems get the same rows. Trainer and SetFit train in bfloat16, as
memgrow does by itself on processors that have it: here it is three times as fast as float32.
"""

import argparse
import gzip
import json
import os
import pickle
import random
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import distributions
from itertools import product
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

RESULT = Path(__file__).resolve().parents[1] / "results/peers.json"
PACKAGES = {"memgrow", "torch", "transformers", "setfit", "adaptive-classifier", "scikit-learn"}
LONGEST = 256  # word pieces of a text that are read, by all systems on MiniLM
COMMON = ("system", "stream", "rows", "versions")  # of the records of a stream
EPOCHS, BATCH = 10, 16  # of Trainer
VALIDATION = 0.1  # of the rows are memgrow's validation rows


@dataclass(frozen=True)
class Rows:
    """The rows of a domain. Test rows are the same for all seeds."""

    name: str
    texts: list[str]
    labels: list[str]
    test: list[tuple[str, str]]


# The systems. `labels` are all labels of the stream: some systems must know them before the first domain.


class System:
    """What every system has. `settings` says what is changed from the system's defaults, and why."""

    settings: ClassVar[str]
    keeps_rows: ClassVar[bool] = False
    joint: ClassVar[bool] = False  # trains once, on the rows of all domains

    def __init__(self, encoder: str, labels: Sequence[str], seed: int) -> None: ...
    def learn(self, domain: Rows) -> None: ...
    def predict(self, texts: list[str]) -> list[str]: ...
    def save(self, folder: Path) -> None: ...


class Memgrow(System):
    """The default: fine-tuning with a moving average and the domain memory."""

    settings = "defaults; a tenth of the rows for validation"
    method: ClassVar[str | None] = None

    def __init__(self, encoder: str, labels: Sequence[str], seed: int) -> None:
        from memgrow import Learner

        self.learner = Learner.create(self.method, encoder=encoder, seed=seed, device="cpu")

    def learn(self, domain: Rows) -> None:
        from memgrow.data import Domain, Example

        rows = [Example(text, label=label) for text, label in zip(domain.texts, domain.labels, strict=True)]
        held = round(VALIDATION * len(rows))
        self.learner.adapt(Domain(domain.name, rows[held:], rows[:held]), threads=1)

    def predict(self, texts: list[str]) -> list[str]:
        return [one.label for one in self.learner.predict(texts)]

    def save(self, folder: Path) -> None:
        self.learner.save(folder)


class MemgrowWithoutMemory(Memgrow):
    settings = "`finetune+ema`: the default without the domain memory"
    method = "finetune+ema"


class MemgrowRidge(Memgrow):
    settings = "`ridge`: a closed-form head on frozen features, with its defaults"
    method = "ridge"


class Adaptive(System):
    settings = (
        "defaults, without ONNX: optimum 1.17.1 does not import with transformers 5; saved without its encoder (91 MB)"
    )
    keeps_rows = True

    def __init__(self, encoder: str, labels: Sequence[str], seed: int) -> None:
        import numpy as np
        from adaptive_classifier import AdaptiveClassifier

        np.random.seed(seed)
        self.model = AdaptiveClassifier(encoder, device="cpu", config={"max_length": LONGEST}, seed=seed)

    def learn(self, domain: Rows) -> None:
        self.model.add_examples(domain.texts, domain.labels)

    def predict(self, texts: list[str]) -> list[str]:
        return [found[0][0] for found in self.model.predict_batch(texts, k=1)]

    def save(self, folder: Path) -> None:
        self.model.save(str(folder), include_onnx=False)


class SetFit(System):
    settings = (
        "`num_iterations=2`: by default all pairs of rows are trained on, which takes hours; bfloat16 in training"
    )

    def __init__(self, encoder: str, labels: Sequence[str], seed: int) -> None:
        from sentence_transformers import SentenceTransformer
        from setfit import SetFitModel
        from sklearn.linear_model import LogisticRegression

        body = SentenceTransformer(encoder, device="cpu")
        body.max_seq_length = LONGEST
        self.model, self.seed = SetFitModel(model_body=body, model_head=LogisticRegression(max_iter=1000)), seed

    def learn(self, domain: Rows) -> None:
        import torch
        from datasets import Dataset
        from setfit import Trainer, TrainingArguments

        with TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                folder, num_iterations=2, seed=self.seed, save_strategy="no", report_to="none", show_progress_bar=False
            )
            rows = Dataset.from_dict({"text": domain.texts, "label": domain.labels})
            with torch.autocast("cpu", torch.bfloat16):
                Trainer(model=self.model, args=arguments, train_dataset=rows).train()

    def predict(self, texts: list[str]) -> list[str]:
        return [str(one) for one in self.model.predict(texts)]

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(str(folder))


class Trainer(System):
    settings = f"{EPOCHS} epochs and batch {BATCH}, not 3 and 8, for so few rows; all labels known in advance; bfloat16"

    def __init__(self, encoder: str, labels: Sequence[str], seed: int) -> None:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer, set_seed

        set_seed(seed)
        self.labels, self.seed = list(labels), seed
        self.tokenizer = AutoTokenizer.from_pretrained(encoder, model_max_length=LONGEST)
        self.model = AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=len(labels)).float()

    def learn(self, domain: Rows) -> None:
        from transformers import Trainer as HuggingFaceTrainer
        from transformers import TrainingArguments

        encoded = self.tokenizer(domain.texts, truncation=True)["input_ids"]
        rows = [
            {"input_ids": one, "labels": self.labels.index(label)}
            for one, label in zip(encoded, domain.labels, strict=True)
        ]
        with TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                folder,
                num_train_epochs=EPOCHS,
                per_device_train_batch_size=BATCH,
                seed=self.seed,
                use_cpu=True,
                bf16=True,
                save_strategy="no",
                logging_strategy="no",
                report_to="none",
                disable_tqdm=True,
            )
            HuggingFaceTrainer(self.model, arguments, train_dataset=rows, processing_class=self.tokenizer).train()

    def predict(self, texts: list[str]) -> list[str]:
        import torch

        self.model.eval()
        found: list[str] = []
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            for start in range(0, len(texts), 32):
                inputs = self.tokenizer(texts[start : start + 32], padding=True, truncation=True, return_tensors="pt")
                found += [self.labels[best] for best in self.model(**inputs).logits.argmax(-1).tolist()]
        return found

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


class TrainerOnAll(Trainer):
    settings = f"{EPOCHS} epochs and batch {BATCH} on the rows of all domains at once"
    keeps_rows = True
    joint = True


class PartialFit(System):
    settings = (
        "`HashingVectorizer` of 2^18 features (2^20 take 1.3 GB with 150 labels), `SGDClassifier`, log loss, 10 passes"
    )

    def __init__(self, encoder: str, labels: Sequence[str], seed: int) -> None:
        from sklearn.feature_extraction.text import HashingVectorizer
        from sklearn.linear_model import SGDClassifier

        self.labels, self.vectorizer = list(labels), HashingVectorizer(n_features=2**18)
        self.model = SGDClassifier(loss="log_loss", random_state=seed)

    def learn(self, domain: Rows) -> None:
        features = self.vectorizer.transform(domain.texts)
        for _ in range(10):
            self.model.partial_fit(features, domain.labels, classes=self.labels)

    def predict(self, texts: list[str]) -> list[str]:
        return [str(one) for one in self.model.predict(self.vectorizer.transform(texts))]

    def save(self, folder: Path) -> None:
        folder.with_suffix(".pickle").write_bytes(pickle.dumps((self.vectorizer, self.model)))


class Refit(System):
    settings = "`TfidfVectorizer` and `LogisticRegression`, fitted to all rows so far; 1,000 iterations"
    keeps_rows = True

    def __init__(self, encoder: str, labels: Sequence[str], seed: int) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        self.model = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000, random_state=seed))
        self.texts: list[str] = []
        self.labels: list[str] = []

    def learn(self, domain: Rows) -> None:
        self.texts += domain.texts
        self.labels += domain.labels
        self.model.fit(self.texts, self.labels)

    def predict(self, texts: list[str]) -> list[str]:
        return [str(one) for one in self.model.predict(texts)]

    def save(self, folder: Path) -> None:
        folder.with_suffix(".pickle").write_bytes(pickle.dumps((self.model, self.texts, self.labels)))


SYSTEMS: dict[str, type[System]] = {
    "memgrow": Memgrow,
    "memgrow, ridge": MemgrowRidge,
    "memgrow, no memory": MemgrowWithoutMemory,
    "adaptive-classifier": Adaptive,
    "SetFit": SetFit,
    "Trainer": Trainer,
    "scikit-learn, partial_fit": PartialFit,
    "scikit-learn, refit": Refit,
    "Trainer, all rows": TrainerOnAll,
}


@dataclass(frozen=True)
class Stream:
    about: str
    train: int  # rows of a domain; of a label where `by_label`
    test: int  # rows of a domain at most
    by_label: bool = False


STREAMS = {
    "sentiment": Stream("films, products, editorials, tweets: the same two labels", 150, 300),
    "intents": Stream("CLINC150 in ten domains: 15 new labels each", 5, 60, by_label=True),
    "topics": Stream("AG News, Amazon, DBpedia: new labels each", 150, 150),
}


def domains_of(stream: str, data: Path, seed: int) -> list[Rows]:
    """The domains of a stream; a seed draws other training rows."""
    size, found = STREAMS[stream], []
    for name, rows in _read(stream, data):
        train, test = ([row for row in rows if (row["split"] == "test") == is_test] for is_test in (False, True))
        random.Random(seed).shuffle(train)
        random.Random(0).shuffle(test)
        if size.by_label:
            drawn: dict[str, list[dict[str, str]]] = defaultdict(list)
            for row in train:
                drawn[row["label"]].append(row)
            train = [row for label in sorted(drawn) for row in drawn[label][: size.train]]
            random.Random(seed).shuffle(train)
        else:
            train = train[: size.train]
        texts, labels = ([row[field] for row in train] for field in ("text", "label"))
        found.append(Rows(name, texts, labels, [(row["text"], row["label"]) for row in test[: size.test]]))
    return found


def _read(stream: str, data: Path) -> Iterator[tuple[str, list[dict[str, str]]]]:
    if stream == "sentiment":
        from memgrow.data.corpora import open_corpus  # here, as it would count as memory of scikit-learn

        for domain in open_corpus("sentiment", domains=["films", "products", "editorials", "tweets"]).stream:
            parts = {"train": [*domain.train, *domain.validation], "test": domain.test}
            split = [(one, part) for part, rows in parts.items() for one in rows]
            yield domain.name, [{"text": one.text, "label": one.label or "", "split": part} for one, part in split]
    elif stream == "intents":
        by_domain: dict[str, list[dict[str, str]]] = defaultdict(list)
        for row in _lines(data / "intents/clinc150.jsonl.gz"):
            by_domain[row["domain"]].append(row)
        yield from sorted(by_domain.items())
    else:
        yield from ((name, _lines(data / f"topics/{name}.jsonl.gz")) for name in ("agnews", "amazon", "dbpedia"))


def _lines(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


# One run, in its own process


def run(name: str, stream: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Learn a stream and measure. Each domain is tested when it has been learned, and at the end."""
    domains = domains_of(stream, given.data, seed)
    labels = sorted({label for domain in domains for label in domain.labels})
    system, stages = SYSTEMS[name](str(given.encoder), labels, seed), domains
    if system.joint:
        texts, answers = ([one for domain in domains for one in getattr(domain, what)] for what in ("texts", "labels"))
        stages = [Rows("all", texts, answers, [])]
    seconds, learned = [], {}
    for domain in stages:
        began = time.process_time()
        system.learn(domain)
        seconds.append(round(time.process_time() - began, 2))
        if domain.test:
            learned[domain.name] = accuracy(system, domain)
        print(name, stream, seed, domain.name, learned.get(domain.name), seconds[-1], flush=True)
    began = time.process_time()
    end = {domain.name: accuracy(system, domain) for domain in domains}
    predicting = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # before the model is saved
    with TemporaryDirectory() as place:
        system.save(Path(place) / "model")
        disk = sum(file.stat().st_size for file in Path(place).rglob("*") if file.is_file())
    lost = [learned[domain.name] - end[domain.name] for domain in domains[:-1] if learned]
    return {
        "system": name,
        "stream": stream,
        "seed": seed,
        "average": round(fmean(end.values()), 2),
        "forgetting": round(fmean(lost), 2) if lost else None,
        "learned": learned,
        "end": end,
        "seconds": {"domains": seconds, "learning": round(sum(seconds), 2)},
        "texts a second": round(sum(len(domain.test) for domain in domains) / predicting, 1),
        "peak MB": round(peak / 1024),
        "disk MB": round(disk / 1e6, 1),
        "rows": {domain.name: [len(domain.texts), len(domain.test)] for domain in domains},
        "versions": {one.name: one.version for one in distributions() if one.name in PACKAGES},
    }


def accuracy(system: System, domain: Rows) -> float:
    found = system.predict([text for text, _ in domain.test])
    return round(100 * fmean(one == label for one, (_, label) in zip(found, domain.test, strict=True)), 2)


def run_all(given: argparse.Namespace) -> None:
    """Each run in a process of its own, which writes its record when it has ended."""
    given.out.mkdir(parents=True, exist_ok=True)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

    def do(job: tuple[int, str, str]) -> None:
        seed, stream, name = job
        file = given.out / f"{name}.{stream}.{seed}.json".replace(" ", "-").replace(",", "")
        if given.only not in f"{name}.{stream}.{seed}" or file.exists():
            return
        options = [f"--{what}={getattr(given, what)}" for what in ("data", "encoder")]
        words = [sys.executable, __file__, *options, "--one", name, stream, str(seed), "--out", str(file)]
        if subprocess.run(words, env=environment, check=False).returncode:
            print(f"{name}, {stream}, seed {seed}: failed", file=sys.stderr)

    with ThreadPoolExecutor(given.workers) as pool:
        list(pool.map(do, product(range(given.seeds), STREAMS, SYSTEMS)))


def merge(folder: Path) -> None:
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    versions = records[0]["versions"]
    streams: dict[str, Any] = {name: {"about": one.about, "systems": {}} for name, one in STREAMS.items()}
    for record in sorted(records, key=lambda one: list(SYSTEMS).index(one["system"])):
        stream = streams[record["stream"]]
        stream["rows"] = record["rows"]
        kept = {key: value for key, value in record.items() if key not in COMMON}
        stream["systems"].setdefault(record["system"], []).append(kept)
    value = {
        "command": "benchmarks/peers.py --table RUNS",
        "encoder": "all-MiniLM-L6-v2",
        "versions": versions,
        "settings": {name: one.settings for name, one in SYSTEMS.items()},
        "keeps rows": [name for name, one in SYSTEMS.items() if one.keeps_rows],
        "streams": streams,
    }
    RESULT.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with intents/ and topics/")
    parser.add_argument("--encoder", type=Path, default=Path.home() / ".cache/memgrow/encoders/minilm")
    parser.add_argument("--out", type=Path, help="folder of the runs")
    parser.add_argument("--seeds", type=int, default=1, help="of each system and stream")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time")
    parser.add_argument("--only", default="", help="runs whose name, as SYSTEM.STREAM.SEED, holds this text")
    parser.add_argument("--one", nargs=3, metavar=("SYSTEM", "STREAM", "SEED"), help=argparse.SUPPRESS)
    parser.add_argument("--table", type=Path, metavar="RUNS", help="merge these runs into results/peers.json")
    given = parser.parse_args()
    if given.table:
        merge(given.table)
    elif not (given.data and given.out):
        parser.error("give --data and --out, or --table")
    elif given.one:
        name, stream, seed = given.one
        record = run(name, stream, int(seed), given)
        given.out.write_text(json.dumps(record) + "\n", encoding="utf-8")
    else:
        run_all(given)


if __name__ == "__main__":
    main()
