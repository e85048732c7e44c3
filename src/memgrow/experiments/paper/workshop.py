"""Where the paper's runs are made: the corpus, the store of finished runs, the machine."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memgrow.experiments.grid import Grid, Outcome, Watcher
from memgrow.experiments.paper.corpus import Corpus
from memgrow.experiments.paper.protocol import Data
from memgrow.experiments.run import Run
from memgrow.experiments.store import Store


@dataclass(frozen=True)
class Workshop:
    """What all runs share. What was made before comes out of the store."""

    corpus: Corpus
    store: Store
    vectors: Path | None
    device: str
    workers: int | None
    watcher: Watcher
    makes: bool = True  # False: only what is in the store
    _grids: dict[tuple[Data, bool], Grid] = field(default_factory=dict)

    def run(self, data: Data, runs: Sequence[Run]) -> Outcome:
        grid = self.grid(data)
        return grid.run(runs) if self.makes else grid.found(runs)

    def grid(self, data: Data, keep_models: bool = False) -> Grid:
        """One for each kind of data: to know a stream by its checksum takes a while."""
        if (data, keep_models) not in self._grids:
            self._grids[data, keep_models] = Grid(
                self.corpus.stream(data),
                self.store,
                vectors=self.vectors,
                device=self.device,
                workers=self.workers,
                progress=self.watcher,
                keep_models=keep_models,
            )
        return self._grids[data, keep_models]
