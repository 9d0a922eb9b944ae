"""REST API of the schema registry: the endpoints, parameters, bodies and error codes of Confluent's registry.

`endpoints.py` has the table of endpoints, from which the routes and the OpenAPI description are made. A handler takes
an `ApiCall`, asks the registry, and returns an `ApiReply`. `dispatch.py` does what all endpoints share: paths, content
types, error bodies, and forwarding to the leader.

docs/registry.md lists the answers that differ from Confluent's on purpose.
"""
