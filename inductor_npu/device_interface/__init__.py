"""What Dynamo and Inductor ask of a device: streams, events, guards, properties, timing."""
