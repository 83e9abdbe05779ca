"""Projections: pure functions from an outcome to the words of one surface or protocol."""
