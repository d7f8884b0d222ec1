"""What happens to one call on its way: autocast, values, the engine, dispatch."""
