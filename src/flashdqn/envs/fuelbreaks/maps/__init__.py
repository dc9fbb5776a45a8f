"""What a planner knows about a landscape besides its fuels: houses, ignitions, forbidden ground, costs."""
