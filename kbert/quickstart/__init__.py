"""The quickstart's steps: a corpus and labelled sentences of the installation, and what a pre-trained model brings."""
