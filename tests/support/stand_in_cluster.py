"""A cluster in this process, in the place of Ray: its nodes see nothing of the store."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from memgrow.experiments.cluster import NEEDS, ClusterExecutor, LostError, Packages, device_of, do_job
from memgrow.experiments.store import Store


@dataclass
class StandIn:
    """A cluster in this process. All that goes to a node and comes back is pickled on the way."""

    nodes: dict[str, dict[str, float]] = field(default_factory=lambda: {"a": {"CPU": 1}, "b": {"CPU": 2}})
    packages: Packages = field(default_factory=Packages)
    loses: Callable[[int], bool] = lambda number: False  # jobs by number: the node of their first attempt dies
    kills: Callable[[int], bool] = lambda number: False  # every node that tries these
    started: list[int] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)
    most: int = 0  # jobs under way at a time
    shared: list[bytes] = field(default_factory=list)
    _waiting: dict[int, Callable[[], bytes]] = field(default_factory=dict)
    _ended: dict[int, bytes] = field(default_factory=dict)
    _said: list[tuple[int, str, Any]] = field(default_factory=list)

    def capacity(self, needs):
        return sum(min(int(has.get(kind, 0) / amount) for kind, amount in needs.items()) for has in self.nodes.values())

    def share(self, context):
        # On a node there is no such folder.
        self.shared.append(pickle.dumps(replace(context, store=Store(context.store.folder / "nowhere"))))
        return len(self.shared) - 1

    def start(self, shared, number, job, parents, needs):
        assert needs == NEEDS["cpu"]
        sent = pickle.dumps((job, parents))

        def run() -> bytes:
            where = sorted(self.nodes)[number % len(self.nodes)]
            if self.loses(number):
                self._said.append((number, where, None))
                where = "c"

            def tell(where, step):
                self._said.append((number, where, pickle.loads(pickle.dumps(step))))

            context = pickle.loads(self.shared[shared])
            return pickle.dumps(do_job(context, *pickle.loads(sent), where, tell, self.packages))

        self.started.append(number)
        self._waiting[number] = run
        self.most = max(self.most, len(self._waiting))
        return number

    def wait(self, under_way, seconds):
        last = under_way[-1]  # in another order than they began in
        if last not in self._ended:
            self._ended[last] = b"" if self.kills(last) else self._waiting[last]()
        return [last]

    def fetch(self, ended):
        del self._waiting[ended]
        if not self._ended[ended]:
            raise LostError("its process died four times")
        return pickle.loads(self._ended[ended])

    def said(self):
        said, self._said = self._said, []
        return said

    def stop(self, under_way):
        self.stopped += under_way


@dataclass
class OnStandIn:
    """The backend of a stand-in."""

    cluster: StandIn
    about = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return

    def device(self, asked):
        return device_of(asked, self.cluster.capacity)

    def executor(self, context, report, jobs, work, workers=None):
        return ClusterExecutor(self.cluster, context, report, workers)
