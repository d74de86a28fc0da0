"""Hugging Face configs to architectures."""
