"""The paper's experiments on MultiNLI: its protocol, its tables as data, and what was tried beyond it."""
