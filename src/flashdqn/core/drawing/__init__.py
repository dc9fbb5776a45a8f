"""Pictures as plain shapes, their colors, and how they become pixels or characters."""
