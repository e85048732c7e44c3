"""Experiments: runs described as data, the grid that makes them, and the tables that come of them."""
