"""Verdicts on a posterior: is the model good, are its intervals honest, is it close enough."""
