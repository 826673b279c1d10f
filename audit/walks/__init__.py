"""Walks: the checks that follow a log in its order, as pure functions over sorted Arrow batches.

    record_batches, side files ─copy─> one directory by itself ─copies─> the log ─log─> turns of producers
    transaction_states of the log ─story─> outcomes
    turns, outcomes, transaction indexes ─pairs─> what is wrong with markers and with what hangs
    the log, producer snapshots ─snapshots─> what is wrong with these

Pure        pyarrow, numpy and Python; no engine, no clock, no file. An engine sorts, and calls ``Walk.run``.
Ordinary    rows are judged by columns, a batch at a time; Python looks at those out of the ordinary.
Findings    rows of ``columns.FOUND``, whichever walk they come from; ``causes`` says which explain which.
"""
