"""Pictures of the playground's views."""

import pathlib

from screenshots.pictures import Pictures

TEXT = "Returns the sum of the array elements over the given axis."
PAIR = "The default is to sum all of the elements of the input array."
STORY = "The animal did not cross the street because it was too tired."
MASKED = "Returns the [MASK] of the array elements over the given [MASK]."
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
    "masking": ("masking", ["pretrained"], {"text": TEXT, "text_pair": PAIR}, "body"),
    "next_sentence": ("next_sentence", ["pretrained"], {}, ".column"),
    "input_representation": ("input_representation", ["pretrained"], {"text": TEXT, "text_pair": PAIR}, ".column"),
    "attention": ("attention", ["encoder"], {"text": STORY, "text_pair": ""}, ".column"),
    "fill_mask": ("fill_mask", ["pretrained"], {"masked_text": MASKED}, ".view"),
    "question_answering": ("question_answering", ["questions"], {"question": QUESTION, "context": CONTEXT}, ".view"),
    "entities": ("entities", ["entities"], {"entity_text": ENTITIES}, ".view"),
    "classification": ("classification", ["healthy", "overfitting"], {"text": LIBRARY}, ".view"),
}
WIDTH = 1000


def make(pictures: Pictures, names) -> None:
    """Makes these pictures, from one playground with all models."""
    from helpers.playground_server import serving

    of_runs = ("quickstart/pretrained", "healthy", "overfitting", "questions", "entities")
    sources = [*(str(pictures.runs / run) for run in of_runs), pictures.encoder]
    pictures.window(WIDTH)
    with serving(sources) as address:
        for name in names:
            view, models, typed, shown = PICTURES[name]
            models = [pathlib.PurePath(pictures.encoder).name if one == "encoder" else one for one in models]
            _open(pictures.browser, f"{address}#{view}", models, typed)
            _ACTIONS.get(name, lambda browser: None)(pictures.browser)
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
    """The pronoun's attention, in the head that looks most at the animal; in dark colours."""
    browser.one('.head[data-layer="4"][data-head="2"]').click()
    browser.settle()
    browser.all(".query")[9].click()
    browser.point_at(browser.all(".query")[9])  # else the pointer chooses what the page moves below it
    browser.js("document.documentElement.dataset.theme = 'dark'")


_ACTIONS = {
    "masking": lambda browser: browser.one("[name=chosen_only]").click(),
    "input_representation": _choose_token,
    "attention": _choose_head,
}
