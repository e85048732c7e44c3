"""The report as one HTML file that needs nothing beside it: no script, no network, no other file."""
