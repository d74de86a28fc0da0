"""A plan executed through torch.distributed.pipelining. Heavy: torch is imported inside functions only."""
