"""What the reader of claims looks up: Pods, spares, memory of earlier passes."""
