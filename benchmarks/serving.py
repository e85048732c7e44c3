"""How many requests a second a served model answers, batched and one by one, and whether a publication loses any.

    python benchmarks/serving.py --out results/serving.json

makes a model of the demo's sizes, serves it by `memgrow serve` and asks it from this process over loopback: a bounded
number of connections, each with one request at a time, for a bounded time. Batched serving (`--together 64`) and its
naive twin, one forward pass for each request (`--together 1`), take turns on the same model. Then, under the same load,
a new domain is uploaded, learnt and published. Ratios are taken within one run. The CPU time that the server took for a
request is told as well: other work on the machine changes it less than the requests a second.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

import torch

from memgrow.data import Domain, Example, Stream, synthetic_stream, write_jsonl
from memgrow.evaluation.demo import MODEL, TRAINING
from memgrow.learner import Learner
from memgrow.storage import atomic_write, pack_json
from recorded_command import recorded_command

CONNECTIONS = 64  # at the same time, each with one request under way
MOST = 200_000  # requests of one round, whatever the time
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/")
BOUNDARY = b"memgrow-benchmark"


@dataclass
class Load:
    """What clients have seen."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    versions: Counter[int] = field(default_factory=Counter)
    broken: int = 0  # connections that ended in the middle of a request

    def to_json(self) -> dict[str, Any]:
        ordered = sorted(self.latencies) or [0.0]
        return {
            "requests": len(self.latencies),
            "per_second": round(len(self.latencies) / self.seconds, 1),
            "median_ms": round(median(ordered) * 1e3, 2),
            "p99_ms": round(ordered[int(0.99 * (len(ordered) - 1))] * 1e3, 2),
            "not_answered_with_200": sum(n for status, n in self.statuses.items() if status != 200) + self.broken,
            "versions": {str(number): count for number, count in sorted(self.versions.items())},
        }


class Client(asyncio.Protocol):
    """One connection that sends its next request as soon as it has its answer."""

    def __init__(self, requests: Sequence[bytes], first: int, load: Load, running: asyncio.Event) -> None:
        self._requests, self._next, self._load, self._running = requests, first, load, running
        self._buffer, self._sent, self._waiting = b"", 0.0, False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        if not self._running.is_set() or len(self._load.latencies) >= MOST:
            self._transport.close()
            return
        self._transport.write(self._requests[self._next % len(self._requests)])
        self._next += 1
        self._sent, self._waiting = time.perf_counter(), True

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return
        length = int(re.search(rb"content-length: (\d+)", head.lower()).group(1))  # type: ignore[union-attr]
        if len(body) < length:
            return
        self._buffer, self._waiting = b"", False
        self._load.latencies.append(time.perf_counter() - self._sent)
        self._load.statuses[int(head[9:12])] += 1
        if found := re.match(rb'{"version": (\d+)', body):
            self._load.versions[int(found.group(1))] += 1
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        self._load.broken += self._waiting
        if not self.ended.done():
            self.ended.set_result(None)


async def ask(port: int, requests: Sequence[bytes], until: Any) -> Load:
    """Ask over all connections until a coroutine has ended."""
    load, running, loop = Load(), asyncio.Event(), asyncio.get_running_loop()
    running.set()
    started = time.perf_counter()
    clients = [
        (await loop.create_connection(lambda n=n: Client(requests, n, load, running), "127.0.0.1", port))[1]  # type: ignore[misc]
        for n in range(CONNECTIONS)
    ]
    await until
    load.seconds = time.perf_counter() - started
    running.clear()
    await asyncio.wait_for(asyncio.gather(*(client.ended for client in clients)), 60)
    return load


@contextmanager
def serving(folder: Path, together: int, log: Path) -> Iterator[tuple[int, int]]:
    """A service in another process; its port and its number as a process."""
    start = [sys.executable, "-c", "from memgrow.cli import main; main()", "serve", str(folder)]
    command = [*start, "--port", "0", "--device", "cpu", "--threads", "1", "--together", str(together)]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stderr=errors) as process,
    ):
        try:
            for _ in range(600):
                if found := ADDRESS.search(log.read_text(errors="replace")):
                    break
                time.sleep(0.1)
            else:
                raise SystemExit(f"the service did not start: {log.read_text(errors='replace')}")
            yield int(found.group(1)), process.pid
        finally:
            process.terminate()
            process.wait(30)


def cpu_seconds(process: int) -> float | None:
    """The CPU time of a process so far; None where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def request(example: Example) -> bytes:
    body = json.dumps({"inputs": [{"premise": example.text, "hypothesis": example.pair}]}).encode()
    head = f"POST /predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def upload(port: int, file: Path) -> str:
    """The job of a file that was accepted."""
    part = b'content-disposition: form-data; name="file"; filename="new.jsonl"'
    body = b"--" + BOUNDARY + b"\r\n" + part + b"\r\n\r\n" + file.read_bytes() + b"\r\n--" + BOUNDARY + b"--\r\n"
    headers = {"content-type": f"multipart/form-data; boundary={BOUNDARY.decode()}"}
    with urlopen(Request(f"http://127.0.0.1:{port}/adapt", body, headers), timeout=60) as answer:
        return str(json.load(answer)["job"])


def job(port: int, number: str) -> dict[str, Any]:
    with urlopen(f"http://127.0.0.1:{port}/jobs/{number}", timeout=60) as answer:
        return dict(json.load(answer))


async def publish(port: int, file: Path, told: dict[str, Any]) -> None:
    """Upload a domain, wait until it has been published, and a second longer."""
    await asyncio.sleep(1.0)
    number = await asyncio.to_thread(upload, port, file)
    until = time.monotonic() + 300
    while time.monotonic() < until:
        told |= await asyncio.to_thread(job, port, number)
        if told["state"] in ("published", "failed", "discarded"):
            break
        await asyncio.sleep(0.2)
    await asyncio.sleep(1.0)


def measure(folder: Path, file: Path, requests: Sequence[bytes], rounds: int, seconds: float) -> dict[str, Any]:
    """Both ways in turn, and then the publication."""
    kinds = {"batched": 64, "one_by_one": 1}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in kinds}
    log = folder.with_name("log")
    for number in range(rounds):
        for name, together in kinds.items():
            with serving(folder, together, log) as (port, process):
                asyncio.run(ask(port, requests, asyncio.sleep(0.5)))  # warms up
                before = cpu_seconds(process)
                load = asyncio.run(ask(port, requests, asyncio.sleep(seconds))).to_json()
                after = cpu_seconds(process)
            cpu = None if before is None or after is None else round((after - before) / load["requests"] * 1e3, 3)
            found[name].append({**load, "cpu_ms_per_request": cpu})
            print(f"round {number + 1}, {name}: {load['per_second']:,} requests/s, {load['median_ms']} ms", flush=True)
    told: dict[str, Any] = {}
    with serving(folder, kinds["batched"], log) as (port, _):
        during = asyncio.run(ask(port, requests, publish(port, file, told))).to_json()
    print(f"publication: {told.get('state')}, {during}", flush=True)
    per_cpu = [
        b["cpu_ms_per_request"] / a["cpu_ms_per_request"]
        for a, b in zip(found["batched"], found["one_by_one"], strict=True)
        if a["cpu_ms_per_request"] and b["cpu_ms_per_request"]
    ]
    ratios = [a["per_second"] / b["per_second"] for a, b in zip(found["batched"], found["one_by_one"], strict=True)]
    return {
        "connections": CONNECTIONS,
        "rounds": found,
        "ratio": round(median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
        "cpu_ratio": round(median(per_cpu), 2) if per_cpu else None,
        "publication": {**during, "state": told.get("state"), "training_seconds": told.get("seconds")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each round")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    first, second, new = synthetic_stream(seed=0, domains=3)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        learner = Learner.create("F+M+V", model=MODEL, training=replace(TRAINING, epochs=2), device="cpu")
        learner.learn([first, second], folder=folder)
        (file,) = write_jsonl(Stream([Domain("new", train=[*new.train, *new.validation])]), Path(scratch) / "data")
        requests = [request(example) for domain in (first, second) for example in domain.test]
        figures = measure(folder, file, requests, asked.rounds, asked.seconds)
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    packages = {name: version(name) for name in ("torch", "fastapi", "uvicorn")}
    if asked.out:
        command = recorded_command(__file__)
        atomic_write(asked.out, pack_json({"command": command, "machine": {**machine, **packages}, **figures}))
    print(f"batched serving answers {figures['ratio']} times as many requests as one forward pass for each")


if __name__ == "__main__":
    main()
