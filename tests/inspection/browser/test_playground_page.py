"""The playground's page in a real browser: what is clicked, typed and pointed at, and what is then to be seen.

Every test ends with the browser's own account: nothing asked of another host, nothing wrong in the console.
"""

import json
import urllib.request

import pytest

pytestmark = pytest.mark.parity  # .ci/run has a browser and fails if these were skipped

TEXT = "the capital of france is paris . london was never the capital of france ."
MARKUP = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>&lt;b&gt; the film'
VIEWS = ("masking", "next_sentence", "input_representation", "attention", "fill_mask", "question_answering", "entities")


@pytest.fixture
def page(browser, server):
    """The page, with a short text in both boxes; afterwards the account of what the test made the browser do."""
    browser.expected = []  # what the console may say, since the test meant it
    browser.open(server, settle=False)
    browser.put("[name=text]", TEXT)
    browser.type("[name=text_pair]", "very good !")
    yield browser
    browser.requests()
    assert browser.hosts == {server.split("/")[2]}
    assert [line for line in browser.console() if not any(text in line for text in browser.expected)] == []


def choose(page, *names):
    """Exactly these models."""
    for box in page.all("[name=model]"):
        if box.is_selected() != (box.get_attribute("value") in names):
            box.click()
    page.settle()


def ask(server, view, body):
    """The server's answer, as JSON."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{server}api/{view}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def asked(page, server, view):
    """The last question that the page asked, and the answer to it."""
    bodies = [body for method, url, body in page.requests() if method == "POST" and url.endswith(f"api/{view}")]
    question = json.loads(bodies[-1])
    return question, ask(server, view, question)


def table(page):
    text = "(row) => [...row.cells].map((cell) => cell.textContent)"
    return page.js(f"return [...document.querySelectorAll('tbody tr')].map({text})")


def test_masking(page, server):
    """Slider, toggle and button change the question; the table is the answer to it."""
    question, before = asked(page, server, "masking")
    assert question["text"] == TEXT and question["mask_rate"] == 0.15 and not question["whole_word"]
    page.one("[name=mask_rate]").send_keys(*["\ue014"] * 35)  # the arrow key to the right
    page.settle()
    question, answer = asked(page, server, "masking")
    assert question["mask_rate"] == 0.5 and answer["counts"]["chosen"] > before["counts"]["chosen"]
    assert [row[:3] for row in table(page)] == [
        [str(one["position"]), one["token"], one["corrupted"]] for one in answer["tokens"]
    ]
    chosen = [one for one in answer["tokens"] if one["kind"] != "not chosen"]
    assert len(page.all(".bars")) == len(chosen) == answer["counts"]["chosen"]
    shown = page.texts("tr:not([data-kind='not chosen']) .bar-name")
    assert [name.removeprefix("✓ ") for name in shown] == [
        guess["token"] for one in chosen for guess in one["predictions"]
    ]
    page.one("[name=whole_word]").click()
    page.one("[name=resample]").click()
    page.settle()
    question, again = asked(page, server, "masking")
    assert question["whole_word"] and question["seed"] == 1
    assert [one["kind"] for one in again["tokens"]] != [one["kind"] for one in answer["tokens"]]


def test_masking_on_a_phone(page):
    """The prediction stands under its token, only chosen positions are listed, and nothing scrolls inside the page."""
    with page.emulating(width=390):
        page.settle()
        assert page.one("[name=chosen_only]").is_selected()
        assert not any(row.is_displayed() for row in page.all("tr[data-kind='not chosen']"))
        chosen = page.all(".token.chosen")
        assert chosen and len(page.all(".token.chosen .guess")) == len(chosen)
        rows = page.all("tr:not([data-kind='not chosen'])")[1:]
        for row in rows:
            bars = row.find_element("css selector", ".bars")
            assert bars.location["y"] >= row.find_elements("tag name", "td")[1].location["y"] + 10
        assert page.js(_SCROLLERS) == []
        assert page.js("return document.documentElement.scrollWidth") <= 390


# Boxes and answers of the open view that hide a part of what they hold below their lower edge.
_HIDING = """return [...document.querySelectorAll(".view textarea, .results *")]
    .filter((one) => /auto|scroll/.test(getComputedStyle(one).overflowY))
    .filter((one) => one.scrollHeight > one.clientHeight + 1).map((one) => one.name || one.className)"""


@pytest.mark.parametrize(
    "width, views",
    [
        (1100, ("next_sentence",)),
        (390, ("masking", "question_answering")),
        pytest.param(1100, VIEWS, marks=pytest.mark.slow),
        pytest.param(390, VIEWS, marks=pytest.mark.slow),
    ],
)
def test_boxes_show_their_whole_text(browser, server, width, views):
    """The sample texts of views, in a wide window and on a phone; the answers, too, on a phone."""
    with browser.emulating(width=width):
        browser.open(server)
        for view in views:
            browser.view(view)
            hiding = browser.js(_HIDING)
            assert [name for name in hiding if width == 390 or "scroll" not in name] == [], (view, width)
            if view == "next_sentence" and width == 1100:
                first, other = browser.all("[name=document], [name=other]")
                assert first.size == other.size and first.location["y"] == other.location["y"]


# What scrolls by itself in the open view's answers.
_SCROLLERS = """return [...document.querySelectorAll(".results *")]
    .filter((one) => /auto|scroll/.test(getComputedStyle(one).overflowY))
    .filter((one) => one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1)
    .map((one) => one.className)"""


def test_the_shares_make_one(page, server):
    page.one("[name=random_token_rate]").send_keys("\ue010")  # the key End: all of it
    page.settle()
    question, answer = asked(page, server, "masking")
    assert (question["mask_token_rate"], question["random_token_rate"]) == (0, 1)
    assert page.one(".rest").text.endswith(": 0.00")
    assert (
        0 < answer["counts"]["random"] <= answer["counts"]["chosen"]
    )  # a random token may be the one that stood there


def test_next_sentence(page, server):
    page.view("next_sentence")
    question, answer = asked(page, server, "next_sentence")
    boxes = page.all("[name=document], [name=other]")
    assert [box.get_property("value") for box in boxes] == [question["document"], question["other"]]
    assert boxes[0].size["height"] == boxes[1].size["height"] and question["label"] is None
    assert page.one(".label b").text.endswith(answer["pair"]["label"])
    assert page.texts(".steps li") == answer["steps"]
    assert len(page.all("p.tokens .token")) == len(answer["pair"]["tokens"])
    said = "IsNext" if answer["verdict"]["is_next"] >= 0.5 else "NotNext"
    mark = "✓" if said == answer["pair"]["label"] else "✗"
    assert page.one(".verdict").text.startswith(f"{mark} The model says {said}: ")
    page.type("[name=document]", "The film. The capital. The film. The capital. The film.")
    _, answer = asked(page, server, "next_sentence")
    for label in ("IsNext", "NotNext"):
        page.one(f"[name=label][value={label}]").click()
        page.settle()
        question, other = asked(page, server, "next_sentence")
        assert question["label"] == label and page.one(".label b").text.endswith(label)
        assert other["pair"]["first"] == answer["pair"]["first"]


def test_input_representation(page, server):
    page.view("input_representation")
    tokens = page.all("button.token")
    assert len(page.all(".strip")) == 0
    tokens[2].click()
    page.wait(lambda: len(page.all(".strip")) == 5)
    bottom = "return document.querySelector('[data-part=sum]').getBoundingClientRect().bottom <= window.innerHeight"
    page.wait(lambda: page.js(bottom))
    question, answer = asked(page, server, "input_representation")
    assert question["position"] == 2 and tokens[2].get_attribute("aria-pressed") == "true"
    for name, norm in answer["norms"].items():
        shown = page.one(f"[data-part={name}] figcaption").text.split()[-1]
        assert float(shown) == pytest.approx(norm, rel=5e-3)
    page.press("ARROW_RIGHT")
    page.press("ENTER")
    page.wait(lambda: page.texts(".facts dd")[0] == "3" and len(page.all(".strip")) == 5)


def test_attention(page, server):
    """Pointing at a token shows where it looks; the table of heads chooses the head, with the keys too."""
    page.view("attention")
    question, answer = asked(page, server, "attention")
    assert len(page.all(".head")) == answer["layers"] * (answer["heads"] + 1)
    many = len(page.all(".lines line"))
    page.point_at(page.all(".query")[3])
    page.wait(lambda: page.texts(".keys .weight") == [_percent(weight) for weight in answer["probabilities"][3]])
    assert 0 < len(page.all(".lines line")) <= len(answer["tokens"]) and many > len(page.all(".lines line"))
    page.all(".query")[3].click()  # keeps it
    page.one('.head[data-layer="0"][data-head="0"]').click()
    page.press("ARROW_RIGHT")
    page.press("ENTER")
    assert page.one(".head[aria-pressed=true]").get_attribute("data-head") == "1"
    second = ask(server, "attention", question | {"layer": 0, "head": 1})["probabilities"][3]
    page.wait(lambda: page.texts(".keys .weight") == [_percent(weight) for weight in second])
    page.one('.head[data-layer="1"][data-head="mean"]').click()
    mean = ask(server, "attention", question | {"layer": 1, "head": None})["probabilities"][3]
    page.wait(lambda: page.texts(".keys .weight") == [_percent(weight) for weight in mean])


def _percent(probability):
    return "< 0.1 %" if 0 < probability < 0.0005 else f"{100 * probability:.1f} %"


def test_answers_of_several_models(page):
    """Side by side; proposals."""
    choose(page, "pretraining", "span")
    assert page.texts(".column h3") == ["pretraining", "span"] and len(page.all("table")) == 2
    assert page.all(".column:first-child .bars") and not page.all(".column:last-child .bars")
    page.view("fill_mask")
    page.type("[name=masked_text]", "the [MASK] of france")
    assert len(page.all(".fill")) == 1 and len(page.all(".fill li")) == 5
    assert "cannot do this" in page.one(".column:last-child .note").text


def test_an_answer_in_its_text(page, server):
    choose(page, "span")
    page.view("question_answering")
    page.type("[name=context]", TEXT)
    _, answer = asked(page, server, "question_answering")
    assert "".join(page.texts(".marked")) == TEXT
    assert page.texts("mark") == [answer["answer"]] * bool(answer["answer"])
    for button, candidate in zip(page.all(".candidate"), answer["candidates"], strict=True):
        button.click()
        assert page.texts("mark") == [candidate["answer"]] * bool(candidate["answer"])


@pytest.mark.slow  # entities in their text: test_what_is_typed_stays_text; the answers: playground/test_answer_views.py
def test_entities_and_a_label(page, server):
    choose(page, "tagging")
    page.view("entities")
    page.type("[name=entity_text]", TEXT)
    _, answer = asked(page, server, "entities")
    assert page.texts("mark") == [f"{one['text']} {one['type']}" for one in answer["entities"]]

    choose(page, "classification")
    page.view("classification")
    _, answer = asked(page, server, "classification")
    assert page.one(".summary b").text == answer["label"] and len(page.all(".bars li")) == 3


@pytest.mark.parametrize(
    "models, views",
    [
        (("pretraining", "tagging"), ("masking", "entities")),
        pytest.param(("pretraining", "span", "tagging"), VIEWS, marks=pytest.mark.slow),
    ],
)
def test_what_is_typed_stays_text(page, models, views):
    """Script and markup, in every box of views, with models that answer there."""
    choose(page, *models)
    for view in views:
        page.view(view)
        for box in page.all(".view textarea"):
            if view == VIEWS[0]:
                box.send_keys("\ue009a", "\ue000", MARKUP)  # key by key, after Control and a
            else:
                page.put(box, MARKUP)
        page.settle()
        assert page.js("return document.querySelectorAll('main img, main script').length") == 0
        assert page.js("return window.broken === undefined")
    assert page.texts(".marked")[0].replace(" PER", "").replace(" LOC", "") == MARKUP


def test_an_answer_that_comes_while_one_types_is_not_the_last(page):
    page.js(
        "window.real = window.fetch; window.fetch = async (...all) => {"
        " const answer = await window.real(...all);"
        " await new Promise((release) => (window.release = release)); return answer; }"
    )
    page.put("[name=text]", "the film")
    page.wait(lambda: page.js("return Boolean(window.release)"))  # the answer is there, and held back
    state = page.driver.execute_async_script(
        "const box = document.querySelector('[name=text]'); window.fetch = window.real; box.value = 'good film';"
        " box.dispatchEvent(new Event('input', { bubbles: true })); window.release();"
        " setTimeout(() => arguments[0](document.querySelector('.view').dataset.state), 100)"
    )
    assert state == "waiting"
    page.settle()
    assert [row[1] for row in table(page)][1:3] == ["good", "film"]


def test_errors_stand_in_the_page(page):
    page.expected = ["status of 400"]  # the browser's own line about the answer
    page.type("[name=seed]", "9" * 30)
    assert "`seed`: expected a whole number" in page.one("[role=alert]").text
    page.type("[name=seed]", "3")
    assert not page.all("[role=alert]") and table(page)


def test_keyboard(page):
    page.one("[role=tab][aria-selected=true]").send_keys("")
    for key, name in (("ARROW_RIGHT", "next_sentence"), ("END", "classification"), ("HOME", "masking")):
        page.press(key)
        page.settle()
        assert page.one("[role=tab][aria-selected=true]").get_attribute("data-tab") == name
        assert page.js("return document.activeElement.dataset.tab") == name
        assert page.one(".view").get_attribute("data-view") == name
    assert page.js(_UNNAMED) == 0


# How many controls have no name for those who do not see them.
_UNNAMED = """return [...document.querySelectorAll("button, input, select, textarea, [tabindex='0']")]
    .filter((one) => !one.textContent.trim() && !one.labels?.length && !one.getAttribute("aria-label")).length"""

# The least contrast between a text and its background, among the texts that are to be seen.
_CONTRAST = """
const light = (colour) => {
  const [red, green, blue] = colour.match(/[\\d.]+/g).map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const behind = (node) => {
  for (; node; node = node.parentElement) {
    const colour = getComputedStyle(node).backgroundColor;
    if (colour !== "rgba(0, 0, 0, 0)") return colour;
  }
};
const says = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
const seen = (node) => !node.closest("svg, select") && node.offsetParent;
const texts = [...document.querySelectorAll("body *")].filter((node) => seen(node) && says(node));
return Math.min(...texts.map((node) => {
  const [one, other] = [light(getComputedStyle(node).color), light(behind(node))].sort((a, b) => b - a);
  return (one + 0.05) / (other + 0.05);
}));
"""


@pytest.mark.parametrize(
    "views", [("masking", "question_answering"), pytest.param(VIEWS, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_dark_light_and_narrow(page, views):
    """As the system says, unless the reader chooses; text is readable (4.5:1); no view is wider than 360 pixels."""
    for scheme, other in (("light", "dark"), ("dark", "light")):
        with page.emulating(scheme, width=360):
            page.wait(lambda scheme=scheme: page.js("return document.documentElement.dataset.theme") == scheme)
            for view in views:
                page.view(view)
                assert page.js("return document.documentElement.scrollWidth") <= 360, view
                assert page.js(_CONTRAST) >= 4.5, (view, scheme)
            page.one("#appearance").send_keys(other)
            assert page.js("return document.documentElement.dataset.theme") == other
            page.press("HOME")  # auto
            assert page.js("return document.documentElement.dataset.theme") == scheme
