"""What is guaranteed: steps, sagas, their executor, compensation and recovery."""
