"""One of several choices: SWAG, DREAM and tables."""
