"""Commands of earlier versions: each says for one release what to use instead."""

REMOVED_COMMANDS = {
    "history": "use memgrow inspect MODEL",
    "doctor": "use memgrow --version",
    "recipes": "--recipe takes small, small-dialogue, demo or a YAML file of settings",
    "tune": "use scikit-learn's search with memgrow.sklearn.MemgrowClassifier",
    "prune": "slots are no longer pruned; train a model with fewer slots (--set slots=N)",
    "export-domain": "domain files are gone until the domain memory replaces them",
    "import-domain": "domain files are gone until the domain memory replaces them",
    "paper": "run python -m research.paper in a checkout of the repository",
    "theorem": "run python -m research.theorem in a checkout of the repository",
}
