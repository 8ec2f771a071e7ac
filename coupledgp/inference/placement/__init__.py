"""Where to put the next sensors: objectives of sets of places, and their greedy maximisation."""
