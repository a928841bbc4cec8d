"""The pictures of the pages; docs/maintainers/make_screenshots.py makes them."""
