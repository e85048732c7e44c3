"""A model that answers requests and learns while it does: `create_app` makes the web application of a model's folder.

Importing this package needs no web server; what does is the extra `serve`.
"""
