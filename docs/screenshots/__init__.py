"""The pictures of docs/inspection.md; docs/make_screenshots.py makes them."""
