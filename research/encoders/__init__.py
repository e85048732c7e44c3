"""The study of memory in pretrained encoders: streams, rows, runs, and the figures that records give."""
