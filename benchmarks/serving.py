"""Requests per second of a served model with and without batching, and requests lost while a domain is published.

    python benchmarks/serving.py --out results/serving.json

Trains a model of the demo's sizes, serves it with `memgrow serve` and sends requests over loopback: 64 connections,
each with one request at a time. Batched serving (`--together 64`) and one forward pass per request (`--together 1`)
take turns. Then, under the same load, a new domain is uploaded, learned and published.
"""

import argparse
import asyncio
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import torch

from memgrow.data import Domain, Example, Stream, synthetic_stream, write_jsonl
from memgrow.data.disk import atomic_write, pack_json
from memgrow.evaluation.demo import MODEL, TRAINING
from memgrow.learner import Learner
from recorded_command import recorded_command

CONNECTIONS = 64
TOGETHER = {"batched": 64, "one_by_one": 1}
SERVE = [sys.executable, "-c", "from memgrow.cli import main; main()", "serve"]


@contextmanager
def serving(folder: Path, together: int) -> Iterator[tuple[int, int]]:
    """The port and the process id of a service."""
    log = folder.with_name("log")
    options = ["--port", "0", "--device", "cpu", "--threads", "1", "--together", str(together)]
    with log.open("wb") as errors, subprocess.Popen([*SERVE, str(folder), *options], stderr=errors) as process:
        try:
            until = time.monotonic() + 60
            while (found := re.search(r"http://127\.0\.0\.1:(\d+)/", log.read_text(errors="replace"))) is None:
                if time.monotonic() > until:
                    raise SystemExit(f"the service did not start: {log.read_text(errors='replace')}")
                time.sleep(0.1)
            yield int(found.group(1)), process.pid
        finally:
            process.terminate()


def request(example: Example) -> bytes:
    body = json.dumps({"inputs": [{"premise": example.text, "hypothesis": example.pair}]}).encode()
    head = f"POST /predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


async def load(port: int, requests: Sequence[bytes], until: Coroutine[Any, Any, Any]) -> dict[str, Any]:
    """Send requests over all connections until a coroutine has ended."""
    latencies, statuses, versions = list[float](), Counter[int](), Counter[str]()
    done = asyncio.Event()

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while not done.is_set():
            sent = time.perf_counter()
            writer.write(requests[number % len(requests)])
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"content-length: (\d+)", head.lower()).group(1))  # type: ignore[union-attr]
            body = await reader.readexactly(length)
            latencies.append(time.perf_counter() - sent)
            statuses[int(head[9:12])] += 1
            versions[re.match(rb'{"version": (\d+)', body).group(1).decode()] += 1  # type: ignore[union-attr]
            number += 1
        writer.close()

    started = time.perf_counter()
    clients = [asyncio.create_task(client(number)) for number in range(CONNECTIONS)]
    await until
    seconds = time.perf_counter() - started
    done.set()
    ended = await asyncio.wait_for(asyncio.gather(*clients, return_exceptions=True), 60)
    broken = sum(isinstance(one, BaseException) for one in ended)
    ordered = sorted(latencies) or [0.0]
    return {
        "requests": len(latencies),
        "per_second": round(len(latencies) / seconds, 1),
        "median_ms": round(median(ordered) * 1e3, 2),
        "p99_ms": round(ordered[int(0.99 * (len(ordered) - 1))] * 1e3, 2),
        "not_answered_with_200": sum(count for status, count in statuses.items() if status != 200) + broken,
        "versions": dict(sorted(versions.items())),
    }


async def publish(port: int, file: Path, job: dict[str, Any]) -> None:
    """Upload a domain and wait until it has been published, and a second longer."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        answer = await client.post("/adapt?publish=true", files={"file": ("new.jsonl", file.read_bytes())})
        while job.get("state") not in ("published", "failed"):
            await asyncio.sleep(0.2)
            job |= (await client.get(f"/jobs/{answer.json()['job']}")).json()
    await asyncio.sleep(1.0)


def cpu_seconds(process: int) -> float:
    """CPU time of a process so far (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(folder: Path, file: Path, requests: Sequence[bytes], rounds: int, seconds: float) -> dict[str, Any]:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in TOGETHER}
    for number in range(rounds):
        for name, together in TOGETHER.items():
            with serving(folder, together) as (port, process):
                asyncio.run(load(port, requests, asyncio.sleep(0.5)))  # warm-up
                before = cpu_seconds(process)
                figures = asyncio.run(load(port, requests, asyncio.sleep(seconds)))
                cpu = (cpu_seconds(process) - before) / figures["requests"] * 1e3
            found[name].append({**figures, "cpu_ms_per_request": round(cpu, 3)})
            print(
                f"round {number + 1}, {name}: {figures['per_second']:,} requests/s, {figures['median_ms']} ms",
                flush=True,
            )
    job: dict[str, Any] = {}
    with serving(folder, TOGETHER["batched"]) as (port, _):
        during = asyncio.run(load(port, requests, publish(port, file, job)))
    pairs = list(zip(found["batched"], found["one_by_one"], strict=True))
    ratios = [a["per_second"] / b["per_second"] for a, b in pairs]
    return {
        "connections": CONNECTIONS,
        "rounds": found,
        "ratio": round(median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
        "cpu_ratio": round(median(b["cpu_ms_per_request"] / a["cpu_ms_per_request"] for a, b in pairs), 2),
        "publication": {**during, "state": job["state"], "training_seconds": job["seconds"]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="per round")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    first, second, new = synthetic_stream(seed=0, domains=3)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        learner = Learner.create("F+M+V", model=MODEL, training=replace(TRAINING, epochs=2), device="cpu")
        learner.learn([first, second], folder=folder)
        (file,) = write_jsonl(Stream([Domain("new", train=[*new.train, *new.validation])]), Path(scratch) / "data")
        requests = [request(example) for domain in (first, second) for example in domain.test]
        figures = measure(folder, file, requests, given.rounds, given.seconds)
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    machine |= {name: version(name) for name in ("torch", "fastapi", "uvicorn")}
    if given.out:
        atomic_write(given.out, pack_json({"command": recorded_command(__file__), "machine": machine, **figures}))
    print(f"publication: {figures['publication']}")
    print(f"batched serving answers {figures['ratio']} times as many requests as one forward pass for each")


if __name__ == "__main__":
    main()
