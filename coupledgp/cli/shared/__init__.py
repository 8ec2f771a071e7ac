"""Options and figures that several commands have in common; it knows no command."""
