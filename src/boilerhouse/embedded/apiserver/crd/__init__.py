"""CustomResourceDefinitions: judged, then made into kinds."""
