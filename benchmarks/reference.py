"""Speed of training and prediction on a CPU, through the public API, to compare two versions of the source.

    python benchmarks/reference.py --out speed.json
    python benchmarks/reference.py --against OLD/src NEW/src --rounds 5 --out ratios.json

The second form runs the first in processes that alternate between the two sources, and prints medians and ratios.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

THREADS = "2"
TEXTS, ASKED = 200, 500  # of the encoder: training rows, texts to label
WORDS = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--against", nargs=2, metavar=("OLD", "NEW"), help="two src folders to compare")
    parser.add_argument("--rounds", type=int, default=5, help="processes for each of the two")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to see that it runs")
    given = parser.parse_args()
    figures = compare(*given.against, given.rounds, given.quick) if given.against else measure(given.quick)
    text = json.dumps(figures, indent=1) + "\n"
    print(text, end="")
    if given.out:
        given.out.write_text(text, encoding="utf-8")


def compare(old: str, new: str, rounds: int, quick: bool) -> dict[str, Any]:
    """Median seconds of each part by both sources, and new / old."""
    runs: dict[str, list[dict[str, float]]] = {old: [], new: []}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "figures.json")
        for number in range(rounds):
            for source in (old, new) if number % 2 == 0 else (new, old):
                command = [sys.executable, __file__, "--out", str(out), *(["--quick"] if quick else [])]
                environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": THREADS}
                subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
                runs[source].append(json.loads(out.read_text())["seconds"])
    medians = {
        source: {part: statistics.median(run[part] for run in runs[source]) for part in runs[source][0]}
        for source in runs
    }
    ratios = {part: round(medians[new][part] / medians[old][part], 3) for part in medians[old]}
    by_round = {
        part: [round(b[part] / a[part], 3) for a, b in zip(runs[old], runs[new], strict=True)] for part in ratios
    }
    return {"ratios": ratios, "by_round": by_round, "old": medians[old], "new": medians[new], "rounds": rounds}


def measure(quick: bool) -> dict[str, Any]:
    """Seconds of each part, in this process."""
    os.environ.setdefault("OMP_NUM_THREADS", THREADS)
    import torch

    import memgrow
    from memgrow import Learner, MethodSettings, ModelSettings, PretrainedSettings, TrainingSettings, synthetic_stream

    warnings.simplefilter("ignore")  # a model that has learned nothing of use is none of our business
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    share = 10 if quick else 1
    seconds: dict[str, float] = {}
    domain, asked = random_texts(TEXTS // share, ASKED // share)
    with tempfile.TemporaryDirectory() as folder:
        make_encoder(Path(folder))
        model = PretrainedSettings(encoder=folder, precision="float32")
        training = TrainingSettings(rate=2e-5, batch=16, epochs=1, new_rate=1e-3)
        Learner.create("F", model=model, training=training, device="cpu").adapt(random_texts(16, 0)[0])  # warm-up
        learner = Learner.create("F", model=model, training=training, device="cpu")
        seconds["encoder adapt"] = timed(learner.adapt, domain)
        seconds["encoder predict"] = timed(learner.predict, asked)
    steps = -(-len(domain.train) // training.batch)
    stream = synthetic_stream(domains=2, train=2000 // share, validation=200, test=200)
    small = synthetic_stream(domains=2, train=64, validation=16, test=16)
    pairs = [(row.text, row.pair) for domain in stream for row in domain.train] * 2
    for name, method, slots in (("slots", "F+M+V", 60), ("no slots", "F+V", 0)):
        model = ModelSettings(embedding=50, hidden=64, slots=slots, perceptron=64)
        training = TrainingSettings(rate=1e-3, batch=32, epochs=3, patience=3)
        options = MethodSettings(slots=slots or None)
        Learner.create(method, model=model, training=training, options=options, device="cpu").learn(small)  # warm-up
        learner = Learner.create(method, model=model, training=training, options=options, device="cpu")
        seconds[f"BiLSTM, {name}: adapt"] = timed(learner.learn, stream)
        seconds[f"BiLSTM, {name}: predict"] = timed(learner.predict, pairs)
    return {
        "seconds": {part: round(time, 4) for part, time in seconds.items()},
        "encoder steps/s": round(steps / seconds["encoder adapt"], 3),
        "memgrow": str(Path(memgrow.__file__).parent),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def timed(work: Callable[..., object], given: object) -> float:
    start = time.perf_counter()
    work(given)
    return time.perf_counter() - start


def random_texts(rows: int, asked: int) -> tuple[Any, list[str]]:
    """A domain of random words with two labels, and further texts."""
    from memgrow import Domain, Example

    rng = random.Random(0)

    def text() -> str:
        return " ".join(f"word{rng.randrange(WORDS)}" for _ in range(rng.randrange(10, 50)))

    examples = tuple(Example(text(), label=str(n % 2)) for n in range(rows + 40))
    return Domain("random", examples[40:], examples[:20], examples[20:40]), [text() for _ in range(asked)]


def make_encoder(folder: Path) -> None:
    """A Hugging Face folder: a random BERT of MiniLM's width with three layers, and a tokenizer of whole words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
    from transformers.utils import logging

    specials = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    pieces = [*specials, *(f"word{n}" for n in range(WORDS))]
    tokenizer = Tokenizer(models.WordLevel({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(list(specials))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), specials, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=128, **names).save_pretrained(folder)
    torch.manual_seed(0)
    logging.disable_progress_bar()
    sizes = {"hidden_size": 384, "num_hidden_layers": 3, "num_attention_heads": 12, "intermediate_size": 1536}
    BertModel(BertConfig(vocab_size=len(pieces), max_position_embeddings=128, **sizes)).save_pretrained(folder)


if __name__ == "__main__":
    main()
