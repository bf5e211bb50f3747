"""One container through its lives: launched, probed, restarted."""
