"""Elements that the data or their places choose: found by comparing places, not loaded or stored singly."""
