"""Measures of music that was made: how much like other music it is."""
