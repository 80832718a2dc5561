"""Frameworks: how several ranks train one net."""
