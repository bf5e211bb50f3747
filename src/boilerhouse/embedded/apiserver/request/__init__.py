"""From the wire to a request and back: routes, content types, bodies, errors."""
