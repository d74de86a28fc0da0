"""Plans in the formats of engines and viewers: one module a target."""
