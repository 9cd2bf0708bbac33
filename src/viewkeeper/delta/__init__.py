"""The laws of change: what changes in an expression when its relations change, as an expression again.

One file per operator family; `compile.py` dispatches and checks the contract of each result. `δS` is the net change of
S; S@old and S@new are S before and after; S ⋉ K are the rows of S with one of the keys K, compared with <=>.
"""
