"""One linear problem on many machines: rows and dual variables stay where they are.

`part` is what a worker holds, `problem` what the others see of it: a problem like any other, for
`solve()`. `local` runs the parts in this process, `cluster` on a Dask cluster.
"""
