"""Simple predictions that a model should beat: of tables, on graphs, of fields."""
