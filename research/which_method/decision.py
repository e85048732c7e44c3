"""The rules of research/which_method/README.md, from scores to a default."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean

from research.common.statistics import Paired, holm, paired_over_seeds
from research.which_method.candidates import Family

LEVEL = 0.05
CHOOSING_STREAMS = 2  # that must be whole before a default is changed

Scores = Mapping[str, Mapping[int, float]]
"""On one stream, by candidate and seed: more is better."""


@dataclass(frozen=True)
class Against(Paired):
    """A candidate held against the baseline."""

    p_holm: float | None

    @property
    def is_better(self) -> bool:
        return self.difference > 0 and self.p_holm is not None and self.p_holm < LEVEL


@dataclass(frozen=True)
class Choice:
    """Who wins on the streams for choosing, and why."""

    streams: tuple[str, ...]  # those that are whole: others do not count
    out: Mapping[str, str]  # by candidate, the stream on which it is clearly below the baseline
    against: Mapping[str, Against] = field(default_factory=dict)  # the mean over the streams, of those that are not out
    best: str | None = None
    level: tuple[str, ...] = ()  # better than the baseline, and not clearly below the best
    winner: str | None = None  # none while no stream is whole


@dataclass(frozen=True)
class Check:
    """What became of the winner on the streams for checking."""

    winner: str
    against: Mapping[str, Against]  # by stream that is whole
    above: tuple[str, ...]  # streams
    below: tuple[str, ...]
    enough: bool  # whether as many streams are whole as a change of the default needs
    default: str


@dataclass(frozen=True)
class Trials:
    """What was run of one part, by stream in the order in which they are run."""

    seeds: Sequence[int]
    accuracy: Mapping[str, Scores]
    forgetting: Mapping[str, Scores]

    def whole(self, *names: str) -> tuple[str, ...]:
        """The streams on which all of these have all their seeds."""
        return tuple(
            stream
            for stream, scores in self.accuracy.items()
            if all(has_all(scores, name, self.seeds) for name in names)
        )

    def gain(self, name: str, baseline: str, stream: str) -> Paired:
        return _against(self.accuracy[stream], name, baseline, self.seeds)

    def forgets(self, name: str, baseline: str, streams: Sequence[str]) -> Paired:
        """How much more than the baseline it forgets: the mean over the streams, seed by seed."""
        return self.over(self.forgetting, name, baseline, streams)

    def over(self, measure: Mapping[str, Scores], name: str, baseline: str, streams: Sequence[str]) -> Paired:
        """The difference from the baseline in a measure: the mean over the streams, seed by seed."""
        some = [measure[stream] for stream in streams]
        means = {
            one: {seed: fmean(scores[one][seed] for scores in some) for seed in self.seeds} for one in (name, baseline)
        }
        return _against(means, name, baseline, self.seeds)


@dataclass(frozen=True)
class SecondCheck:
    """What became of a candidate that is level with the baseline and forgets less."""

    asked: tuple[str, ...]  # candidates that may become the default by it; the first goes on
    stream: str
    gain: Paired | None  # on that stream
    streams: tuple[str, ...]  # for checking, that are whole
    forgets: Paired | None  # more than the baseline, over them
    default: str


@dataclass(frozen=True)
class LateTrial:
    """What became of one candidate of the third rule."""

    gains: Mapping[str, Mapping[str, Paired]]  # in accuracy, by stream and by what it is held against
    forgets: Paired | None  # more than the default until then, over all streams; none while one is not whole
    holds: bool


@dataclass(frozen=True)
class ThirdCheck:
    """What became of the candidates that mend one which fell."""

    reason: Paired  # why they are asked: the one that they mend against the default until then, where choices are made
    asked: Mapping[str, LateTrial]
    default: str


def choose(family: Family, streams: Mapping[str, Scores], seeds: Sequence[int]) -> Choice:
    """The first three steps of the rule. `streams` are in the order in which they are run."""
    out: dict[str, str] = {}
    whole: dict[str, Scores] = {}
    for stream, scores in streams.items():
        left = [one.name for one in family.candidates if one.name not in out]
        if not all(has_all(scores, name, seeds) for name in left):
            continue
        whole[stream] = scores
        for name in left:
            if name != family.baseline and is_clear(_against(scores, name, family.baseline, seeds), below=True):
                out[name] = stream
    if not whole:
        return Choice((), out)
    left = [one.name for one in family.candidates if one.name not in out]
    means = {name: {seed: fmean(scores[name][seed] for scores in whole.values()) for seed in seeds} for name in left}
    paired = {name: _against(means, name, family.baseline, seeds) for name in left if name != family.baseline}
    adjusted = holm({name: one.p_t for name, one in paired.items()})
    against = {name: Against(**asdict(one), p_holm=adjusted[name]) for name, one in paired.items()}
    better = [name for name, one in against.items() if one.is_better]
    if not better:
        return Choice(tuple(whole), out, against, None, (), family.baseline)
    best = max(better, key=lambda name: against[name].difference)
    level = [name for name in better if name == best or not is_clear(_against(means, name, best, seeds), below=True)]
    return Choice(tuple(whole), out, against, best, tuple(level), level[0])


def check(family: Family, choice: Choice, streams: Mapping[str, Scores], seeds: Sequence[int]) -> Check:
    """The fourth step: the winner becomes the default, or the baseline does. With too few streams nothing changes."""
    winner, baseline = choice.winner or family.baseline, family.baseline
    whole = {
        stream: scores
        for stream, scores in streams.items()
        if all(has_all(scores, one, seeds) for one in (winner, baseline))
    }
    paired = {
        stream: _against(scores, winner, baseline, seeds) for stream, scores in whole.items() if winner != baseline
    }
    adjusted = holm({stream: one.p_t for stream, one in paired.items()})
    against = {stream: Against(**asdict(one), p_holm=adjusted[stream]) for stream, one in paired.items()}
    above = tuple(stream for stream, one in against.items() if one.is_better)
    below = tuple(stream for stream, one in against.items() if is_clear(one, below=True))
    checked = len(whole) >= family.checking_streams or winner == baseline
    enough = len(choice.streams) >= CHOOSING_STREAMS and checked
    chosen = winner if above and not below else baseline
    return Check(winner, against, above, below, enough, chosen if enough else family.default)


def second_check(family: Family, first: str, choosing: Trials, checking: Trials) -> SecondCheck | None:
    """The second rule, where the family has one; `first` is the default by the first."""
    stream, baseline = family.second_stream, family.baseline
    if stream is None:
        return None
    known = [one.name for one in family.candidates if one.name != baseline]
    asked = tuple(name for name in known if _forgets_less(name, baseline, choosing, checking, stream))
    if not asked or stream not in (streams := checking.whole(asked[0], baseline)):
        return SecondCheck(asked, stream, None, (), None, first)
    gain, forgets = checking.gain(asked[0], baseline, stream), checking.forgets(asked[0], baseline, streams)
    holds = not is_clear(gain, below=True) and is_clear(forgets, below=True)
    return SecondCheck(asked, stream, gain, streams, forgets, asked[0] if holds else baseline)


def _forgets_less(name: str, baseline: str, choosing: Trials, checking: Trials, but: str) -> bool:
    """Whether it is clearly below the baseline nowhere, and clearly forgets less where the choice is made."""
    for trials in (choosing, checking):
        for stream in trials.whole(name, baseline):
            if stream != but and is_clear(trials.gain(name, baseline, stream), below=True):
                return False
    streams = choosing.whole(name, baseline)
    return bool(streams) and is_clear(choosing.forgets(name, baseline, streams), below=True)


def third_check(family: Family, second: str, choosing: Trials, third: Trials) -> ThirdCheck | None:
    """The third rule, where the family has one and it has been asked; `second` is the default by the second."""
    if family.late_of is None or not third.accuracy or not choosing.whole(family.late_of, second):
        return None
    reason = choosing.over(choosing.accuracy, family.late_of, second, choosing.whole(family.late_of, second))
    asked: dict[str, LateTrial] = {}
    for name in (one.name for one in family.late) if reason.difference > 0 and is_clear(reason) else ():
        asked[name] = _late_trial(family, name, second, third)
        if asked[name].holds:
            return ThirdCheck(reason, asked, name)
        if asked[name].forgets is None:  # not run as yet: those after it are asked only when it has failed
            break
    return ThirdCheck(reason, asked, second)


def _late_trial(family: Family, name: str, second: str, third: Trials) -> LateTrial:
    rivals, whole = (family.baseline, second), third.whole(name, family.baseline, second)
    streams = [stream for stream in family.third_streams if stream in whole]
    gains = {stream: {rival: third.gain(name, rival, stream) for rival in rivals} for stream in streams}
    if len(streams) < len(family.third_streams):
        return LateTrial(gains, None, False)
    forgets = third.forgets(name, second, streams)
    below = any(is_clear(one, below=True) for some in gains.values() for one in some.values())
    return LateTrial(gains, forgets, not below and not (forgets.difference > 0 and is_clear(forgets)))


def has_all(scores: Scores, name: str, seeds: Sequence[int]) -> bool:
    return set(seeds) <= set(scores.get(name, {}))


def is_clear(paired: Paired, *, below: bool = False) -> bool:
    """Whether the 95% interval leaves zero out, and is below it where that is asked for.

    Differences that are all equal and not zero have no spread and no interval: nothing is clearer than that.
    """
    if paired.low is None or paired.high is None:
        return paired.n > 1 and (paired.difference < 0 if below else paired.difference != 0)
    return paired.high < 0 or (not below and paired.low > 0)


def _against(scores: Scores, name: str, other: str, seeds: Sequence[int]) -> Paired:
    return paired_over_seeds(*([scores[one][seed] for seed in seeds] for one in (name, other)))
