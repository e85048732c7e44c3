"""Pretrained Transformers as encoders: their files, where they come from, their tokens, and the encoder itself.

All that needs the extra `encoders` is imported within functions, so that memgrow works without it.
"""
