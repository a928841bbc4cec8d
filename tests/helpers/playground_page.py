"""What tests and the docs' pictures do with the playground's page."""

TABS = {
    "masking": "Masking",
    "next_sentence": "Next sentence",
    "input": "Input representation",
    "attention": "Attention",
    "ask": "Ask",
}


_SHOWN = {  # what a tab shows when it has its first answer
    "masking": "masking_chips",
    "next_sentence": "pair_steps",
    "input": "input_sum",
    "attention": "lines_left",
    "ask": "ask_told, #ask_labels",
}


def open_tab(page, name):
    page.js(
        "[...document.querySelectorAll('button[role=tab], .overflow-dropdown button')]"
        ".filter((one) => one.textContent.trim() === arguments[0]).pop().click()",
        TABS[name],
    )
    page.wait(lambda: any(one.text.strip() for one in page.all(f"#{_SHOWN[name]}")))


def fill(page, elem_id, text):
    """Types into a box or number, as the clipboard does."""
    box = page.one(f"#{elem_id} textarea, #{elem_id} input:not([type=range])")
    page.put(box, str(text))


def choose(page, elem_id, name):
    """An entry of a drop-down."""
    page.one(f"#{elem_id} input").click()
    option = page.wait(
        lambda: [one for one in page.all(f"#{elem_id} [role=option], [role=option]") if one.text.strip() == name]
    )
    option[0].click()
