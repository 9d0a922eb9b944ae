"""REST API of Connect: the endpoints, bodies, status codes and messages of Kafka Connect 4.3.

`routes.py` has the table of endpoints. Each resource parses a request, asks the herder, and builds the body.
`dispatch.py` does what all endpoints share: content types, time-outs, error bodies, and forwarding to another worker.

docs/connect-rest.md lists the answers that differ from Kafka Connect's on purpose.
"""
