"""The broker process: connections, request handlers, coordinators and background work."""
