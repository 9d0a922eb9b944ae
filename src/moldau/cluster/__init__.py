"""Cluster metadata: the image, the decisions that change it, the controller, and the metadata stores.

This package does not know partition logs or the network. The broker listens for new images and acts on them.
"""
