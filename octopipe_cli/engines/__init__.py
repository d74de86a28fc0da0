"""What each engine can execute, as rules on plans: placement, orders, layouts (design, section 6)."""
