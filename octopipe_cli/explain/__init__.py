"""Why a step takes as long as it does: the bottleneck, the bound, the bubbles, what would help. Prints nothing."""
