"""The cluster's metadata: what exists (image), how it may change (decisions, controller), where it is kept (stores).

Nothing here knows partition logs or the network: the broker listens to the controller's images and acts on them.
"""
