"""FireboltEngineClass: what several engines have in common."""
