"""Pictures of the playground's views."""

import pathlib
import time

from screenshots.pictures import Pictures

TEXT = "The river froze early that winter, and nobody had expected it."
PAIR = "The children skated on the ice until it was dark."
STORY = "The animal did not cross the street because it was too tired."
MASKED = "The army crossed the [MASK] and attacked the [MASK] at night."
QUESTION = "Who carried the first stone to the bank?"
CONTEXT = (
    "The old bridge across the river burnt down twice within thirty years. After the second fire the town collected "
    "money for a new one, and the mayor himself carried the first stone to the bank. The work took four summers."
)
ENTITIES = (
    "Ada Lovelace met Charles Babbage in London. Later the British Museum bought his papers from Oxford University."
)
LIBRARY = "Trains the model for a fixed number of epochs, with callbacks."
# Picture: view, models, what is typed, what of the page is shown.
PICTURES = {
    "masking": ("masking", ["tiny"], {"text": TEXT, "text_pair": PAIR}, "body"),
    "next_sentence": ("next_sentence", ["tiny"], {}, ".view"),
    "input_representation": ("input_representation", ["tiny"], {"text": TEXT, "text_pair": PAIR}, ".column"),
    "attention": ("attention", ["encoder"], {"text": STORY, "text_pair": ""}, ".column"),
    "fill_mask": ("fill_mask", ["tiny"], {"masked_text": MASKED}, ".view"),
    "question_answering": ("question_answering", ["questions"], {"question": QUESTION, "context": CONTEXT}, ".view"),
    "entities": ("entities", ["entities"], {"entity_text": ENTITIES}, ".view"),
    "classification": ("classification", ["healthy", "overfitting"], {"text": LIBRARY}, ".view"),
}


def make(pictures: Pictures, names) -> None:
    """Makes these pictures, from one playground with all models."""
    from helpers.playground import serving

    of_runs = ("tiny", "healthy", "overfitting", "questions", "entities")
    made = [str(pictures.runs / run) for run in of_runs if (pictures.runs / run / "model").is_dir()]
    pictures.window(1100)
    with serving([*made, pictures.encoder]) as address:
        for name in names:
            view, models, typed, shown = PICTURES[name]
            models = [pathlib.PurePath(pictures.encoder).name if one == "encoder" else one for one in models]
            _open(pictures.browser, f"{address}#{view}", models, typed)
            _ACTIONS.get(name, lambda browser: None)(pictures.browser)
            pictures.browser.js("for (const one of document.querySelectorAll('.scroll')) one.style.maxHeight = 'none'")
            pictures.shoot(name, shown)


def _open(browser, url, models, typed):
    browser.open(url)
    for box in browser.all("[name=model]"):
        if box.is_selected() != (box.get_attribute("value") in models):
            box.click()
    for field, text in typed.items():
        browser.type(f"[name={field}]", text)
    browser.settle()


def _choose_token(browser):
    browser.all("button.token")[2].click()
    browser.wait(lambda: len(browser.all(".strip")) == 5)


def _choose_head(browser):
    """A head that looks at one neighbour, in dark colours; the pointer is away from the tokens."""
    browser.one('.head[data-layer="0"][data-head="2"]').click()
    time.sleep(5)  # until the head's own lines are there
    browser.js("document.documentElement.dataset.theme = 'dark'")


_ACTIONS = {
    "input_representation": _choose_token,
    "attention": _choose_head,
}
