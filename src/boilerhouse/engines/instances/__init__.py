"""FireboltInstance: what the engines of one installation share, such as its metadata."""
