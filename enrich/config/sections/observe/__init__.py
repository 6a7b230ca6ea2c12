"""The section `observe`: what the observer promises, when it raises an alarm, and where its page is."""
