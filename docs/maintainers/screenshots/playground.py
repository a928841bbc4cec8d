"""Pictures of the playground's tabs, with the models of saved_models: at 1280 and 390 pixels, light and dark."""

from screenshots.pictures import ROOT, Pictures

MODELS = ("kbert-mini", "kbert-tiny", "kbert-mini-sentiment")
# Picture: tab, what is done there, width, theme, height.
PICTURES = {
    "playground_masking": ("masking", {}, 1280, "light", 900),
    "playground_masking_phone": ("masking", {}, 390, "dark", 1300),
    "playground_next_sentence": ("next_sentence", {}, 1280, "light", 1100),
    "playground_next_sentence_phone": ("next_sentence", {}, 390, "light", 1500),
    "playground_input": ("input", {"click": "#input_table [data-n='2']"}, 1280, "light", 1000),
    "playground_input_phone": ("input", {"click": "#input_table [data-n='2']"}, 390, "dark", 1700),
    "playground_attention": ("attention", {}, 1280, "dark", 1200),
    "playground_attention_phone": ("attention", {"click": "#lines_left [data-n='7'] span"}, 390, "light", 1300),
    "playground_ask": ("ask", {"choose": ("ask_model", "kbert-mini-sentiment")}, 1280, "light", 800),
    "playground_ask_phone": ("ask", {}, 390, "dark", 900),
}


def make(pictures: Pictures, names) -> None:
    """Makes these pictures, from one playground."""
    from helpers.playground_page import choose, open_tab

    from kbert.inspection.playground.app import serve
    from kbert.inspection.playground.models import named_models

    page = serve(named_models(ROOT / "saved_models" / name for name in MODELS), "127.0.0.1", 0)
    browser = pictures.browser
    for name in names:
        tab, done, width, scheme, height = PICTURES[name]
        with browser.emulating(scheme, width):
            browser.driver.get(page.local_url)
            browser.wait(lambda: browser.all("#masking_chips .chip"))
            open_tab(browser, tab)
            if "choose" in done:
                choose(browser, *done["choose"])
            if "click" in done:
                browser.wait(lambda done=done: browser.all(done["click"]))[0].click()
            browser.rest()
            pictures.shoot(name, "body", height)
    page.close()
