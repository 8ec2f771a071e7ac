"""The commands, one module each, with modules for their work."""
