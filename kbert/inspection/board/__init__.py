"""What TensorBoard shows of every training: curves, settings, norms and histograms."""
