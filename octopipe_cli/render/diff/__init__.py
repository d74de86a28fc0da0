"""Comparisons of plans as text, markdown, annotations, JUnit XML and JSON: a class for each, one interface."""
