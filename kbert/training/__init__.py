"""Hardware choice, exact resume, callbacks, arithmetic of speed."""
