"""The prepared corpus, windows of it, and where music comes from."""
