"""What the use cases need from the world: one Protocol a need, kept by an adapter and by a fake in tests."""
