"""What the studies share: corpora, runs and their records, tests of significance, tables."""
