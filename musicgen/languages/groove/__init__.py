"""The token language of grooves: bass, drums and one other instrument."""
