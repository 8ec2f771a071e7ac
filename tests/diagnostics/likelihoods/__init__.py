"""Tests of reports of classes, counts and other laws that are not normal."""
