"""Which rows are odd, how odd, and why."""
