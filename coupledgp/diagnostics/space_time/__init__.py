"""Splits, rivals and scores of models of space and time on hidden readings."""
