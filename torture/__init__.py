"""`make torture`: models that are killed, starved, crowded, damaged and fed with nonsense, within a given time."""
