"""The pictures and tables on which the literature of these solvers rests, reproduced.

One module each: what is measured, how it is drawn, what it claims, and whether that holds.
"""

import os

# Solvers are compared on one thread; idle threads of a BLAS would count as processor time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
