"""A plan executed through torch.distributed.pipelining: ranks started, stages built, steps timed, gradients checked.

Heavy: torch is imported inside functions only, but for `timed_layers`, which is imported where torch is there.
"""
