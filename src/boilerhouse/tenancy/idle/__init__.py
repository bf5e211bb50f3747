"""When an instance counts as unused: from what is known to a verdict, and to words for people."""
