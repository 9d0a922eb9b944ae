"""Taxi: riders matched to the nearest free driver, surge prices by area and minute, fares from positions."""
