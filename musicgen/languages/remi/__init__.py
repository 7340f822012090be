"""REMI, the token language of piano music."""
