"""What the shells' completions are written from, and a module for each shell."""
