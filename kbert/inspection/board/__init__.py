"""What TensorBoard shows of every training: curves, settings, graphs, norms and histograms."""
