"""What tests share: waiting, clocks and processes here, what one part of the product needs in a room of its name."""
