"""Pictures of the playground's tabs, with the models of saved_models: at 1280 and 390 pixels, light and dark."""

import itertools

from screenshots.pictures import ROOT, Pictures

MODELS = ("kbert-mini", "kbert-tiny", "kbert-mini-sentiment")
_TABS = {  # tab: what is done there on wide and narrow pages, and the heights of the pictures
    "masking": ({}, {}, 1100, 1300),
    "next_sentence": ({}, {}, 1250, 1500),
    "input": ({"click": "#input_table [data-n='2']"}, {"click": "#input_table [data-n='2']"}, 1000, 1700),
    "attention": ({}, {"click": "#lines_left [data-n='7'] span"}, 1200, 1300),
    "ask": ({"choose": ("ask_model", "kbert-mini-sentiment")}, {}, 800, 900),
}
_WIDTHS = {"": 1280, "_phone": 390}
_THEMES = {"": "light", "_dark": "dark"}
PICTURES = {
    f"playground_{tab}{width}{theme}": (tab, width, theme)
    for tab, width, theme in itertools.product(_TABS, _WIDTHS, _THEMES)
}


def make(pictures: Pictures, names) -> None:
    """Makes these pictures, from one playground."""
    from helpers.playground_page import choose, open_tab

    from kbert.inspection.playground.app import serve
    from kbert.inspection.playground.models import named_models

    page = serve(named_models(ROOT / "saved_models" / name for name in MODELS), "127.0.0.1", 0)
    browser = pictures.browser
    for name in names:
        tab, width, theme = PICTURES[name]
        wide, narrow, *heights = _TABS[tab]
        done, height = (narrow, heights[1]) if width else (wide, heights[0])
        with browser.emulating(_THEMES[theme], _WIDTHS[width]):
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
