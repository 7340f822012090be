"""How well models predict songs.

`losses` scores every token. `positions` compares the loss with full context to the loss in restarted windows
(`restarts`), position by position. `realizations` tries models with other numbers of noise realisations.
"""
