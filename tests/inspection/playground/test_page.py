"""Every tab of the playground in a real browser, offline: what is chosen, typed and clicked, and what is then seen.

Each test ends with the browser's own account: nothing requested from another host, nothing wrong in the console.
"""

import re

import pytest
from helpers.browser import NoBrowserError, start_browser
from helpers.model_settings import settings_of
from helpers.playground_page import TABS, choose, fill, open_tab
from helpers.stored_models import make_model
from helpers.tiny_bert import tiny_tokenizer

import kbert
from kbert.inspection.analysis.attention_heads import attention_statistics
from kbert.inspection.analysis.states import text_states
from kbert.inspection.playground.models import named_models
from kbert.inspection.views.masking import mask_text
from kbert.inspection.views.pairs import draw_pair

pytestmark = pytest.mark.parity  # .ci/run has gradio and a browser, and fails if these are skipped

TASKS = {
    "pretraining": {},
    "span": {"pair": True},
    "tagging": {"labels": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]},
    "classification": {"labels": ["good", "bad", "neither"]},
    "multiple_choice": {},
    "similarity": {},
    "next_sentence": {},
}
TEXT = "the capital of france is paris ."
MARKUP = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>${1+1}{{this}} &lt;b&gt;'
DOCUMENT = "The film is good. It was never very bad. Paris is the capital of France."


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    home = tmp_path_factory.mktemp("models")
    for task, fields in TASKS.items():
        settings = settings_of(task, 17, **fields)
        kbert.save_pretrained(make_model(task), home / task, tokenizer=tiny_tokenizer(), settings=settings)
    return named_models(home / task for task in TASKS)


@pytest.fixture(scope="module")
def address(models):
    pytest.importorskip("gradio")
    from kbert.inspection.playground.app import serve

    page = serve(models, "127.0.0.1", 0)
    yield page.local_url
    page.close()


@pytest.fixture(scope="module")
def chromium():
    try:
        browser = start_browser()
    except NoBrowserError as reason:
        pytest.skip(str(reason))
    yield browser
    browser.driver.quit()


@pytest.fixture
def page(address, chromium):
    """The page, newly opened; afterwards the account of what the test made the browser do."""
    chromium.console(), chromium.requests()
    chromium.hosts.clear()
    chromium.driver.get(address)
    chromium.wait(lambda: chromium.all("#masking_chips .chip"))
    yield chromium
    chromium.requests()
    assert chromium.hosts == {address.split("/")[2]} and chromium.hosts.pop().startswith("127.0.0.1:")
    assert not chromium.js("return window.broken")
    leave(chromium)


def leave(page):
    """Leaves the page, which aborts what it still waits for: the console says so, and is checked before."""
    assert page.console() == []
    page.driver.get("about:blank")
    page.console()


def slide(page, elem_id, value):
    """Moves a slider without letting it go."""
    page.js(
        "const one = document.querySelector(arguments[0]);"
        "Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(one, arguments[1]);"
        "one.dispatchEvent(new Event('input', { bubbles: true }))",
        f"#{elem_id} input[type=range]",
        value,
    )


def rows(page, elem_id):
    text = "(row) => [...row.cells].map((cell) => cell.textContent.trim())"
    return page.js(f"return [...document.querySelectorAll('#{elem_id} tbody tr')].map({text})")


def comes(page, elem_id, text):
    page.wait(lambda: text in page.js("return document.getElementById(arguments[0])?.textContent ?? ''", elem_id))


def test_masking(page, models):
    """Sliders, whole words, seed and second text change chips, table and sentence: they are those of the view."""
    model = models["pretraining"]
    fill(page, "masking_text", TEXT)
    fill(page, "masking_second", "very bad !")
    slide(page, "mask_rate", 0.5)
    page.one("#whole_word input").click()
    page.one("#masking_again").click()
    page.wait(lambda: page.one("#masking_seed input").get_attribute("value") == "2")
    expected = mask_text(
        model.tokenizer,
        (TEXT, "very bad !"),
        model.model,
        mask_rate=0.5,
        whole_word=True,
        seed=2,
        sequence_length=model.model.config.max_sequence_length,
    )
    table = [[token.original, token.corrupted, token.original if token.is_chosen else "–"] for token in expected.tokens]
    page.wait(lambda: [[row[0], re.sub("^[■⇄=] ", "", row[1]), row[2]] for row in rows(page, "masking_table")] == table)
    comes(page, "masking_chips", f"{len(expected.chosen)} of the row's {len(expected.tokens)} tokens were chosen")
    guesses = [re.sub(r"^✓ | [\d.]+%$", "", text) for text in page.texts("#masking_chips .guess")]
    assert guesses == [guess for token in expected.chosen for guess, _ in token.guesses]
    struck = [token.original for token in expected.chosen if token.kind != "kept"]
    assert page.texts("#masking_chips s") == struck
    solid, dashed = ("text-decoration-style", page.all("#masking_chips .token.a, #masking_chips .token.b"))[::-1]
    styles = {one.get_attribute("class").split()[1]: one.value_of_css_property(dashed) for one in solid}
    assert styles == {"a": "solid", "b": "dashed"}


def test_the_three_shares_add_up_to_one(page):
    slide(page, "mask_rate", 1)
    slide(page, "share_mask", 0)

    def share(name):
        return float(page.one(f"#share_{name} input[type=range]").get_property("value"))

    page.wait(lambda: share("random") == share("kept") == 0.5)
    for part in ("(100% by the rule", "[MASK] (0% by the rule)", "token (50% by the rule)", "unchanged (50%"):
        comes(page, "masking_chips", part)


def test_a_share_of_nothing_and_numbers_out_of_range_are_no_errors(page):
    slide(page, "share_kept", 0)  # leaves 0.89 and 0.11, whose sum is a little above 1
    comes(page, "masking_chips", "became a random token (11% by the rule) and 0 stayed unchanged (0% by the rule)")
    for seed in (-5, 10**12):
        fill(page, "masking_seed", seed)
        page.one("#masking_again").click()
        following = (seed + 1) % (2**31 - 1)
        page.wait(lambda n=following: page.one("#masking_seed input").get_property("value") == str(n))
    assert page.all("#masking_chips .chip.chosen") and not page.all(".error, .toast-body")
    fill(page, "share_random", 7)
    page.press("TAB")
    comes(page, "masking_chips", "became a random token (53% by the rule)")  # 1 of 0.89 + 1


def test_next_sentence(page, models):
    model = models["pretraining"]
    open_tab(page, "next_sentence")
    fill(page, "document_1", DOCUMENT)
    first = set()
    for label in ("IsNext", "NotNext"):
        page.one(f"#pair_label input[value={label}]").click()
        comes(page, "pair_steps", f"The label of this pair is {label}.")
        documents = (DOCUMENT, page.one("#document_2 textarea").get_attribute("value"))
        length = model.model.config.max_sequence_length
        pair = draw_pair(model.tokenizer, documents, model.model, label=label, sequence_length=length)
        assert page.texts("#pair_steps .steps li") == pair.steps and page.texts("#pair_steps .token") == pair.tokens
        first.add(tuple(page.texts("#pair_documents .token.a")[:-1]))
        marked = [pair.sentences[pair.document][n] for n in pair.second]
        assert page.texts("#pair_documents .token.b")[:-1] == marked  # the last one is the legend
        comes(page, "pair_verdict", f"says {'IsNext' if pair.is_next >= 0.5 else 'NotNext'}")
    assert len(first) == 1  # A is kept
    choose(page, "pair_model", "classification")
    comes(page, "pair_verdict", "has no next-sentence head")
    fill(page, "document_1", " ")
    comes(page, "pair_documents", "Document 1 must have at least one sentence")


def test_input_representation(page):
    open_tab(page, "input")
    fill(page, "input_text", TEXT)
    fill(page, "input_second", "very bad !")
    page.wait(lambda: len(rows(page, "input_table")) == 13)
    very = str(tiny_tokenizer().token_to_id("very"))
    assert rows(page, "input_table")[9] == ["9", "very", very, "B", "9"]
    page.all("#input_table tbody tr")[9].click()  # in its middle, beside the token
    comes(page, "input_sum", "very at position 9")
    numbers = [[float(cell) for cell in row[1:]] for row in rows(page, "input_sum")]
    for token, segment, position, total, _ in numbers:
        assert token + segment + position == pytest.approx(total, abs=2e-3)
    assert len(page.all("#input_sum .strip svg")) == 5 and page.one("#input_table [aria-pressed=true]").text == "very"


def test_attention(page, models):
    """A head is opened, tokens are pinned by mouse and keyboard, and two models stand side by side."""
    open_tab(page, "attention")
    fill(page, "attention_text", TEXT)
    choose(page, "attention_model_right", "classification")
    page.wait(lambda: page.all("#lines_right [data-n]"))
    for side, name in (("left", "pretraining"), ("right", "classification")):
        model = models[name]
        (states,) = text_states(model.model.encoder, model.tokenizer, [TEXT])
        entropy = attention_statistics(states.attention, states.tokens)["entropy"]
        page.wait(lambda side=side, states=states: page.texts(f"#lines_{side} .left") == states.tokens)
        assert [row[1:] for row in rows(page, f"heads_{side}")] == [[f"{x:.2f}" for x in layer] for layer in entropy]
    page.one("#heads_left [data-n='3']").click()
    comes(page, "lines_left", "Layer 2, head 1")
    page.one("#lines_left [data-n='2'] span").click()
    page.wait(lambda: len(page.all("#lines_left [aria-pressed=true]")) == 1)
    drawn = page.js(
        "return [...document.querySelectorAll('#lines_left g')].filter((g) => g.querySelector('line')).length"
    )
    assert drawn == 1 and "%" in "".join(page.texts("#lines_left .right"))
    page.wait(lambda: page.all("#lines_right [aria-pressed=true]"))
    page.js("document.querySelector('#lines_left [data-n=\"4\"]').focus()")
    page.press("ENTER")
    page.wait(lambda: len(page.all("#lines_left [aria-pressed=true]")) == 2)
    page.one("#unpin").click()
    page.wait(lambda: not page.all("#lines_left [aria-pressed=true]"))
    choose(page, "measure", "to cls")
    page.wait(lambda: all(float(cell) <= 1 for row in rows(page, "heads_left") for cell in row[1:]))


def test_ask(page, models):
    """The form and the answer change with the model's task."""
    open_tab(page, "ask")
    fill(page, "ask_1", "paris is the [MASK] .")
    page.one("#ask_button").click()
    page.wait(lambda: len(page.all("#ask_told .guess")) == 5)
    choose(page, "ask_model", "span")
    page.wait(lambda: all("stone to the bank" in page.value(f"#ask_{n} textarea") for n in (1, 2)))
    fill(page, "ask_1", "the capital of france")
    fill(page, "ask_2", "a film of london was never bad")
    page.one("#ask_button").click()
    comes(page, "ask_told", "candidate")
    comes(page, "ask_marked", "london")
    choose(page, "ask_model", "tagging")
    page.wait(lambda: not page.all("#ask_2 textarea"))
    page.wait(lambda: page.all("#ask_marked") and "Ada" in page.one("#ask_marked").text)
    choose(page, "ask_model", "classification")
    page.wait(lambda: page.all("#ask_labels") and "neither" in page.one("#ask_labels").text)
    choose(page, "ask_model", "multiple_choice")
    page.wait(lambda: "ate the door." in page.one("#ask_labels").text)
    choose(page, "ask_model", "similarity")
    comes(page, "ask_told", "cosine")
    assert len(rows(page, "ask_told")) == 3
    choose(page, "ask_model", "next_sentence")
    page.wait(lambda: page.all("#ask_labels") and "NotNext" in page.one("#ask_labels").text)


@pytest.mark.parametrize(
    "tab, box, shown",
    [
        ("masking", "masking_text", "masking_chips"),
        ("next_sentence", "document_1", "pair_documents"),
        ("input", "input_text", "input_table"),
        ("attention", "attention_text", "lines_left"),
        ("ask", "ask_1", "ask_told"),
    ],
)
def test_what_is_typed_stays_text(page, tab, box, shown):
    open_tab(page, tab)
    fill(page, box, MARKUP if tab != "ask" else MARKUP + " [MASK]")
    if tab == "ask":
        page.one("#ask_button").click()
    comes(page, shown, "${1+1}{{this}}" if tab in ("next_sentence", "ask") else "[UNK]")
    assert not page.all(f"#{shown} img") and not page.all(f"#{shown} script")


def test_a_wrong_or_large_input_is_a_sentence_in_the_page(page):
    page.put("#masking_text textarea", "good " * 300_000)
    comes(page, "masking_chips", "The texts are too long: 1,500,")
    assert page.one("#masking_chips [role=alert]").is_displayed() and not rows(page, "masking_table")
    fill(page, "masking_text", TEXT)
    page.wait(lambda: page.all("#masking_chips .chip"))


def test_half_a_surrogate_pair_is_named():
    pytest.importorskip("gradio")
    from kbert.inspection.playground.app import _answering

    assert "half a surrogate pair, \\ud83d" in _answering(str.upper, 1)("good \ud83d film")[0]


def test_an_address_that_cannot_be_opened_is_named(models, address):
    from kbert.inspection.playground.app import serve

    port = int(address.rstrip("/").rpartition(":")[2])
    for host, number, reason in (("127.0.0.1", port, "Address already in use"), ("192.0.2.1", 0, "Cannot assign")):
        with pytest.raises(OSError, match=f"Port {number} of {host} cannot be opened: {reason}.* another `host`"):
            serve(models, host, number)


def test_two_users_do_not_see_each_other(page, address):
    open_tab(page, "attention")
    page.one("#lines_left [data-n='1'] span").click()
    page.wait(lambda: page.all("#lines_left [aria-pressed=true]"))
    mine = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    page.driver.get(address)
    page.wait(lambda: page.all("#masking_chips .chip"))
    open_tab(page, "attention")
    assert not page.all("#lines_left [aria-pressed=true]")
    fill(page, "attention_text", "very bad !")
    page.wait(lambda: page.texts("#lines_left .left") == ["[CLS]", "very", "bad", "!", "[SEP]"])
    page.driver.close()
    page.driver.switch_to.window(mine)
    assert page.all("#lines_left [aria-pressed=true]") and "very" not in page.texts("#lines_left .left")


def test_a_narrow_dark_window(page, address):
    """No tab is wider than a phone's screen, and text stands out from its background in both themes."""
    for scheme in ("light", "dark"):
        with page.emulating(scheme, 390):
            page.driver.get(address)
            page.wait(lambda: page.all("#masking_chips .chip"))
            for name in TABS:
                open_tab(page, name)
                assert page.js("return document.documentElement.scrollWidth") <= 390, name
            open_tab(page, "masking")
            for css in ("#masking_chips .note", "#masking_chips .guess", "#masking_table td"):
                assert contrast(page, css) >= 4.5, (scheme, css)
            leave(page)


def contrast(page, css):
    """The contrast of an element's color with the page's background, as WCAG defines it."""
    script = """
      const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
      const rgb = (...colors) => {
        for (const color of colors) { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); }
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
      };
      const back = getComputedStyle(document.body).getPropertyValue("--body-background-fill");
      const element = document.querySelector(arguments[0]);
      return [rgb(back), rgb(back, getComputedStyle(element).color)];
    """

    def luminance(color):
        parts = [part / 255 for part in color]
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted(luminance(color) for color in page.js(script, css))
    return (high + 0.05) / (low + 0.05)
