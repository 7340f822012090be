"""The studio: a local web page, and an interface for programs, to write, hear and steer music."""
