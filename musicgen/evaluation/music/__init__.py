"""Generated music compared with real music.

`songs` gathers pieces. `statistics` measures them (`metrics`) and compares the distributions (`overlap`). `novelty`
looks for passages that pieces share with training songs (`passages`).
"""
