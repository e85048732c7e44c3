"""A search path for Python, on which `setuptools` is a stand-in that builds nothing."""
