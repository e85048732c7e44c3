"""The HTTP service of `memgrow serve`: predictions, training in the background, publishing and rollback.

The web framework is the extra `memgrow[serve]`; importing this package does not need it.
"""
