"""The REST API: what people, programs and instances ask of Boilerhouse over HTTP."""
