"""Measuring models: metrics, calibration, drift, comparisons, reports."""
