"""REST API of Connect: the endpoints, bodies, status codes and messages of Kafka Connect 4.3.

`routes.py` has the table of endpoints. Each resource parses a request, asks the herder, and builds the body.
`dispatch.py` does what all endpoints share: content types, time-outs, error bodies, and forwarding to another worker.

The answers that differ from Kafka Connect on purpose are listed in tests/compat/kafka_connect/rest_differences.py.
"""
