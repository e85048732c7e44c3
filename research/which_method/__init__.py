"""Which method should be the default: candidates, streams, the rule that decides, and its figures."""
