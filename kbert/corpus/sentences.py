"""Running prose → sentences."""


def split_sentences(text, language="en"):
    """Splits a paragraph of prose into its sentences, stripped; only white space is lost.

    Line ends count as spaces. `language` (ISO 639-1) decides the abbreviations and the full stops. sentencex
    (Wikimedia's segmenter, about 300 languages) does the work: abbreviations ("Mr.", "U.S.", "e.g."), initials,
    decimals and quoted speech do not end a sentence. tensorflow_text's StateBasedSentenceBreaker breaks after every
    full stop ("Mr. | Smith", "3. | 5 million") and is about fifty times slower.
    """
    import sentencex

    sentences = sentencex.segment(language, " ".join(text.split()))
    return [sentence for sentence in map(str.strip, sentences) if sentence]
