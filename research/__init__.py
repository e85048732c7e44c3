"""The studies behind memgrow: the paper's tables, its theorem, pretrained encoders, and which method is the default.

They are in the repository and not in the wheel. Run them from its root: `python -m research.paper table2`.
"""
