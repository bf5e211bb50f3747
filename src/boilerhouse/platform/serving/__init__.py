"""Listening sockets: accepting within limits, HTTP and WebSockets on them."""
