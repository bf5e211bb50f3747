"""The operator: informers, controllers and what the API asks of them, put together."""
