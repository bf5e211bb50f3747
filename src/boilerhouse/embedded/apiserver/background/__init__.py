"""What the server does by itself: owners, namespaces, definitions, expiry."""
