"""The pictures of docs/inspection.md; docs/maintainers/make_screenshots.py makes them."""
