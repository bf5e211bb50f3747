"""Images: imported, unpacked, stored."""
