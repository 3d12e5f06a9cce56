"""Inputs that nobody means well with: `make fuzz`, or `python -m fuzz --help`.

A target makes input number k from (seed, k) alone, gives it to bridle and says what became of it:
accepted or refused. Anything but a result or a documented error is a failure, as is a crash of the
process, or an input that takes too long. Inputs are tried in a process of their own, many of them;
which one is at hand is written to memory that survives it.

    target           what is tried
    readers          data files of every format, templates, trees, text models of other tools
    models           model files of every kind: loaded, and used
    checkpoints      checkpoints: a run goes on from them
    matrices         sparse matrices whose parts do not fit, and odd arrays, in public functions
    commands         the command line: arguments of every command, with files good and bad
"""
