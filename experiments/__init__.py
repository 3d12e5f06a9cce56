"""The pictures and tables on which the literature of these solvers rests, reproduced.

One module each: what is measured, how it is drawn, what it claims, and whether that holds.
"""
