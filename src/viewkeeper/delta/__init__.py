"""The laws of change: the change of an expression whose relations change, as an expression again.

One file per operator family; `compile.py` dispatches and checks the contract of each result. `δS` is the net change of
S; S@old and S@new are S before and after; S ⋉ K are the rows of S with one of the keys K, compared with <=>.
"""
