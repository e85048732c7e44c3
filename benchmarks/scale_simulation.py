"""What serving many domains on one encoder takes: costs of the parts, measured here, and requests, simulated with them.

    python benchmarks/scale_simulation.py --out results/scale.json

Measured, in seconds of the CPU on one thread: a Transformer of MiniLM's size (random weights) that reads 32 texts of 32
pieces; its memories reading the slots of one domain for one text of the 32 or for all; choosing the nearest of 10,000
domains; reading a domain's file; saving and loading slots. Simulated: batches of 32 requests whose domains follow
Zipf's law, and a cache of domains that drops what was asked for longest ago. The time of a batch is that of the
encoder, of each distinct domain in it, and of each file that has to be read.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import nn

from memgrow.models.fit import MOST_SEGMENTS
from memgrow.nn import Growth, ResidualMemory
from memgrow.nn.routing import DomainRouter, routed
from recorded_command import recorded_command

WIDTH, LAYERS, HEADS, KEY, SLOTS, MEMORIES, LABELS = 384, 6, 12, 64, 256, 2, 3  # MiniLM's sizes, and the defaults
TEXTS, PIECES = 32, 32  # of a batch
DOMAINS = (1, 10, 100, 1_000, 10_000)
CACHES = (None, 1_000)  # domains that are held; None: all
EXPONENTS = (0.0, 1.0)  # of Zipf's law: 0 asks for all domains alike
FIRST, COUNTED = 2_000, 2_000  # batches: to fill the cache, and that are counted


def seconds(action: Callable[[], object], rounds: int = 7) -> float:
    """The median of rounds after one that is not counted."""
    taken = []
    for turn in range(rounds + 1):
        began = time.process_time()
        action()
        if turn:
            taken.append(time.process_time() - began)
    return statistics.median(taken)


def bytes_of_a_domain() -> dict[str, int]:
    slots = MEMORIES * SLOTS * (KEY + WIDTH) * 4
    queries = MEMORIES * KEY * WIDTH * 4
    return {"slots": slots, "queries": queries, "router": 2 * WIDTH * 4, "head": (WIDTH + 1) * LABELS * 4}


@torch.no_grad()
def measure() -> dict[str, float]:
    """Seconds of each part."""
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True, activation="gelu")
    encoder = nn.TransformerEncoder(layer, LAYERS).eval()
    states = torch.randn(TEXTS, PIECES, WIDTH)
    memory = ResidualMemory(WIDTH, key_size=KEY)
    for number in range(TEXTS):
        memory.grow(SLOTS, f"d{number}")
    together, apart = torch.zeros(TEXTS, 1, dtype=torch.long), torch.arange(TEXTS).unsqueeze(1)

    def read(routes: torch.Tensor) -> None:
        with routed(routes):
            memory(states)

    router, growth = DomainRouter(WIDTH), Growth()
    router.plan(growth, DOMAINS[-1])
    growth.commit()
    router.means.normal_(), router.variances.uniform_(0.5, 1)
    every, texts = range(DOMAINS[-1]), torch.randn(TEXTS, WIDTH)
    one, all_ = seconds(lambda: read(together)), seconds(lambda: read(apart))
    found = {
        "encoder, a batch": seconds(lambda: encoder(states)),
        "memories, a batch of one domain": MEMORIES * one,
        "memories, a batch of 32 domains": MEMORIES * all_,
        "memories, each further domain": MEMORIES * (all_ - one) / (TEXTS - 1),
        "nearest of 10,000 domains, a batch": seconds(lambda: router.choose(texts, every, 1)),
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "domain"
        content = {"all": torch.randn(sum(bytes_of_a_domain().values()) // 4)}
        found["a domain's file, written"] = seconds(lambda: safetensors.torch.save_file(content, file))
        found["a domain's file, read"] = seconds(lambda: safetensors.torch.load(file.read_bytes()))
    return found


def simulate(domains: int, exponent: float, cache: int | None, cost: dict[str, float]) -> dict[str, Any]:
    """Texts a second of one core, how many domains a batch has, and how often a file has to be read."""
    chance, held = random.Random(0), OrderedDict[int, None]()
    often = list(accumulate((rank + 1) ** -exponent for rank in range(domains)))
    spent = distinct = misses = 0.0
    for number in range(FIRST + COUNTED):
        asked = set(chance.choices(range(domains), cum_weights=often, k=TEXTS))
        missed = 0 if cache is None else len(asked - held.keys())
        for one in asked:
            held[one] = None
            held.move_to_end(one)
        while cache is not None and len(held) > cache:
            held.popitem(last=False)
        if number < FIRST:
            continue
        distinct += len(asked)
        misses += missed
        spent += cost["encoder, a batch"] + cost["memories, a batch of one domain"]
        spent += (len(asked) - 1) * cost["memories, each further domain"] + missed * cost["a domain's file, read"]
    size = sum(bytes_of_a_domain().values())
    return {
        "domains": domains,
        "exponent": exponent,
        "cache": cache,
        "texts a second": COUNTED * TEXTS / spent,
        "domains a batch": distinct / COUNTED,
        "files read a batch": misses / COUNTED,
        "GiB of domains in memory": min(domains, cache or domains) * size / 2**30,
        "GiB of files": domains * size / 2**30,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    cost = measure()
    runs = [
        simulate(domains, exponent, cache, cost)
        for exponent in EXPONENTS
        for cache in CACHES
        for domains in DOMAINS
        if cache is None or domains > cache
    ]
    found = {
        "command": recorded_command(__file__),
        "sizes": {"width": WIDTH, "layers": LAYERS, "key_size": KEY, "slots": SLOTS, "memories": MEMORIES},
        "batch": {"texts": TEXTS, "pieces": PIECES},
        "bytes of a domain": bytes_of_a_domain(),
        "most domains of a folder": MOST_SEGMENTS,
        "seconds": cost,
        "simulated": runs,
    }
    text = json.dumps(found, indent=1) + "\n"
    asked.out.write_text(text) if asked.out else sys.stdout.write(text)


if __name__ == "__main__":
    main()
