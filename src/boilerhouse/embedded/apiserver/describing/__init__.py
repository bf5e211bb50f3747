"""How the API describes itself and its objects: discovery, OpenAPI, tables."""
