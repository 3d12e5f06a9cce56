"""What every test may rely on."""

from __future__ import annotations

import signal

# A test run that was started in the background ignores Ctrl-C, and so would what it tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
