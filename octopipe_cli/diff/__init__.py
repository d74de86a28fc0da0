"""What differs between two plans, as typed changes: nothing here prints."""
