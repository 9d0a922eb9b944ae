"""Doubles for what a broker stands on, shipped for the tests of those who build on it."""
