"""The Long-Range Arena: sequences to classify, and the paper's models for them, on the same core as the music."""
