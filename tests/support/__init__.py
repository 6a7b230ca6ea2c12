"""What tests share: clocks that are set by hand, engines under the contract, helpers for topics and processes."""
