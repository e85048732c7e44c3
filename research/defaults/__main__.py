"""`python -m research.defaults`: see study.py. What several processes run must not be in this file."""

from research.defaults.study import main

main()
