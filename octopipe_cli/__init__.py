"""octopipe: partition, placement and schedule of pipeline-parallel training, planned together."""

__version__ = "0.1.0"
