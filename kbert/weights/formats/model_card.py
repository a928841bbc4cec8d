"""README.md of a model directory: what the model is, and how to open it."""

from kbert.pipelines.settings import ModelSettings
from kbert.weights.description import ModelDescription
from kbert.weights.formats.huggingface_config import transformers_class
from kbert.weights.formats.sentence_transformers import embeds

README = "README.md"


def model_card(description: ModelDescription, settings: ModelSettings, parameters: int) -> str:
    """The card as Markdown, at most 20 lines."""
    config = description.config
    their_class = transformers_class(description)
    if their_class is None:
        library, theirs = "kbert", "transformers has no model that computes the same, so it refuses this one."
    elif embeds(description, settings):
        library = "sentence-transformers"
        theirs = 'In sentence-transformers: `SentenceTransformer("DIRECTORY")`.'
    else:
        library, theirs = "transformers", f'In transformers: `{their_class}.from_pretrained("DIRECTORY")`.'
    lines = [
        "---",
        f"library_name: {library}",
        "tags: [bert, kbert]",
        "---",
        "",
        f"# BERT: {description.task.replace('_', ' ')}",
        "",
        f"Layers: {config.num_layers}. Hidden size: {config.hidden_dim}. Heads: {config.num_heads}. "
        f"Vocabulary: {config.vocabulary_size:,}. Parameters: {parameters:,}.",
        f"Sequence length: {settings.sequence_length} tokens.",
        "",
        'In kbert: `kbert.build_pipeline("DIRECTORY").predict(texts)`.',
        theirs,
        "",
        "How it was made: kbert.json.",
    ]
    return "\n".join(lines) + "\n"
