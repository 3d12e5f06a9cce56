"""Rows on disk: read in ranges, within a promise about memory."""
