"""Bodies of requests become events: inflated, taken apart, checked; and what a sender is told if that fails."""
