"""Findings of every evaluation, as files, on a page and in the terminal.

`findings` is the data, `files` writes and reads a folder, `page` makes the page, `drawing` makes the images.
"""
