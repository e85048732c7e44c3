"""Two small domains of which one takes some words for the opposite of what the other does."""

import random

from memgrow.data import Domain, Example


def reviews(name: str, words: dict[str, str], seed: int) -> Domain:
    """Texts of ten words, of which one decides on the label; some labels are wrong."""
    rng, filling = random.Random(seed), [f"{name}{number}" for number in range(12)] + ["the", "a", "it"]

    def some(count: int) -> list[Example]:
        examples = []
        for _ in range(count):
            word = rng.choice(list(words))
            text = [*rng.choices(filling, k=9), word]
            rng.shuffle(text)
            label = words[word] if rng.random() < 0.9 else rng.choice(["good", "bad"])
            examples.append(Example(" ".join(text), label=label))
        return examples

    return Domain(name, some(96), some(40), some(20))


def opposed_reviews() -> list[Domain]:
    """What a word says of food is in part the opposite of what it says of films, so mixtures answer differently."""
    food = {"tasty": "good", "fine": "good", "hot": "good", "stale": "bad", "poor": "bad", "slow": "bad"}
    film = {"witty": "good", "fine": "good", "slow": "good", "stale": "bad", "poor": "bad", "hot": "bad"}
    return [reviews("food", food, 1), reviews("film", film, 2)]
