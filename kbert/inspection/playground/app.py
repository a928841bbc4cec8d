"""The playground's page, made with Gradio: tabs, controls and events over the views."""

import functools
import os
import pathlib
import socket
from collections.abc import Callable, Mapping

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is imported
import gradio as gr  # noqa: E402

from kbert.config import MASK_RATE  # noqa: E402
from kbert.inspection.analysis.attention_heads import STATISTICS, attention_statistics  # noqa: E402
from kbert.inspection.analysis.states import text_states  # noqa: E402
from kbert.inspection.playground import html  # noqa: E402
from kbert.inspection.playground.answers import ask, form_of  # noqa: E402
from kbert.inspection.playground.models import Model  # noqa: E402
from kbert.inspection.views.embeddings import input_row  # noqa: E402
from kbert.inspection.views.masking import mask_text  # noqa: E402
from kbert.inspection.views.pairs import draw_pair  # noqa: E402
from kbert.serving.limits import MAX_REQUEST_BYTES  # noqa: E402
from kbert.tasks.table import check_characters  # noqa: E402

_STYLE = pathlib.Path(__file__).with_name("style.css")
_LONGEST = 128  # tokens whose attention is drawn
_SEEDS = 2**31 - 1
_QUIET = {"show_progress": "hidden", "api_visibility": "private"}
_NONE = "none"
_PAPER = "by the paper's rule"
_TEXT = "The river froze early that winter, and nobody had expected it."
_SECOND = "The children skated on the ice until it was dark."
_SHARES = (("share_mask", "[MASK]", 0.8), ("share_random", "random", 0.1), ("share_kept", "kept", 0.1))
_STORY = "The animal did not cross the street because it was too tired."
_DOCUMENTS = (
    "The river froze early that winter. Nobody had expected it. The children skated on the ice until it was dark. "
    "Then their mothers called them home.",
    "A library is a collection of books. Some libraries are open to everyone. Others belong to a school or a company.",
)
# Where something with a number is clicked, or chosen by the keyboard: buttons are clicked by it, parts of pictures not.
_CLICKS = """
for (const kind of ["click", "keydown"]) element.addEventListener(kind, (event) => {
  const chosen = event.target.closest("[data-n]");
  if (chosen && (kind === "click" || (event.key === "Enter" && chosen.localName === "g")))
    trigger("click", { n: Number(chosen.dataset.n) });
});
"""


def build(models: Mapping[str, Model]) -> gr.Blocks:
    """The page for these models. It keeps nothing of its users but what their own page sends back."""
    with gr.Blocks(title="kbert playground", analytics_enabled=False) as page:
        gr.Markdown("# kbert playground\nWhat BERT is trained on and what it computes, by the code that trains it.")
        with gr.Tabs():
            _masking(page, models)
            _next_sentence(models)
            _input_representation(models)
            _attention(models)
            _ask(models)
    return page


def serve(models: Mapping[str, Model], host: str, port: int, share: bool = False) -> gr.Blocks:
    """Starts to serve the page, in threads; ``close()`` ends it.

    Args:
        port: 0 takes the first free one from 7860 on.
        share: whether Gradio opens a public link.

    Raises:
        OSError: the port is taken, or there is no such address.
    """
    fonts = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}  # none from elsewhere
    page = build(models)
    try:
        # Gradio would try the wrong address with 100 ports.
        family, *_, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        socket.create_server(address, family=family).close()
        page.launch(
            server_name=host,
            server_port=port or None,
            share=share,
            theme=gr.themes.Default(**fonts),
            css=_STYLE.read_text(encoding="utf-8"),
            ssr_mode=False,
            quiet=True,
            footer_links=[],
            run_history=False,
            enable_monitoring=False,
            prevent_thread_lock=True,
        )
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"Port {port} of {host} cannot be opened: {reason}. Choose another `host` or `port`.") from error
    return page


def _answering(function: Callable, outputs: int) -> Callable:
    """Answers a wrong input with a sentence in the first output, and empties the others."""

    @functools.wraps(function)
    def answer(*values):
        try:
            size = sum(len(check_characters(value, "The text").encode()) for value in values if isinstance(value, str))
            if size > MAX_REQUEST_BYTES:
                raise ValueError(f"The texts are too long: {size:,} bytes. Shorten them to {MAX_REQUEST_BYTES:,}.")
            return function(*values)
        except (ValueError, TypeError, OSError) as error:
            message = html.error((str(error).splitlines() or [type(error).__name__])[0][:500])
            return (message, *[None] * (outputs - 1))

    return answer


def _live(triggers, function, inputs, outputs) -> None:
    """Answers at every change; of several that come meanwhile the last one."""
    options = {"show_progress": "minimal", "trigger_mode": "always_last", "api_visibility": "private"}
    gr.on([*triggers, *(one.change for one in inputs)], _answering(function, len(outputs)), inputs, outputs, **options)


def _seeded(prefix, seed, words):
    """A seed, and a button that makes it the next one."""
    box = gr.Number(seed, label="Seed", precision=0, elem_id=f"{prefix}_seed")
    again = gr.Button(words, scale=0, min_width=160, elem_id=f"{prefix}_again")
    again.click(lambda seed: ((seed or 0) + 1) % _SEEDS, box, box, **_QUIET)
    return box


def _text(value, label, elem_id, lines=2):
    return gr.Textbox(value, label=label, lines=lines, min_width=300, elem_id=elem_id)


def _model_choice(models, elem_id, label="Model", default=0):
    return gr.Dropdown(list(models), value=list(models)[default], label=label, elem_id=elem_id)


def _two_texts(prefix, first=_TEXT, second=_SECOND):
    with gr.Row():
        text = _text(first, "Text", f"{prefix}_text")
        return text, _text(second, "Second text (may be empty)", f"{prefix}_second")


def _given(text, second):
    return (text, second) if second and second.strip() else (text or "",)


def _masking(page, models) -> None:
    with gr.Tab("Masking", id="masking", elem_id="tab_masking"):
        name = _model_choice(models, "masking_model")
        text, second = _two_texts("masking")
        with gr.Row():
            rate = gr.Slider(0.01, 1, MASK_RATE, step=0.01, label="Tokens chosen", elem_id="mask_rate")
            shares = [
                gr.Slider(0, 1, share, step=0.01, label=f"of these: {label}", elem_id=elem_id)
                for elem_id, label, share in _SHARES
            ]
        with gr.Row():
            whole = gr.Checkbox(False, label="Whole words", elem_id="whole_word")
            seed = _seeded("masking", 1, "Mask anew")
        chips = gr.HTML(elem_id="masking_chips")
        table = gr.HTML(elem_id="masking_table")

        def mask(name, text, second, rate, masked, random, kept, whole, seed):
            total = masked + random + kept or 1  # another sum while a slider moves ahead of the others
            masked, random = masked / total, random / total
            kept = max(0.0, 1 - masked - random)
            shares = {"[MASK]": masked, "random": random, "kept": kept}
            model = models[name]
            made = mask_text(
                model.tokenizer,
                _given(text, second),
                model.model,
                mask_rate=rate,
                mask_token_rate=masked,
                random_token_rate=random,
                keep_rate=kept,
                whole_word=whole,
                seed=(seed or 0) % _SEEDS,
                sequence_length=model.model.config.max_sequence_length,
            )
            told = html.masking_sentence(made, rate, shares) + html.truncated(made.truncated)
            if made.chosen and made.loss is None:
                told += html.note(f"{name} guesses nothing: {_silence(model.model)}.")
            return told + html.masked_chips(made), html.masking_table(made)

        inputs = [name, text, second, rate, *shares, whole, seed]
        _live([page.load], mask, inputs, [chips, table])
        for number, share in enumerate(shares):
            others = shares[:number] + shares[number + 1 :]
            share.input(_rest, [share, *others], others, trigger_mode="always_last", **_QUIET)


def _rest(moved: float, first: float, second: float) -> tuple[float, float]:
    """The other two shares after one was moved: they keep their ratio, and all three add up to 1."""
    part = first / (first + second) if first + second else 0.5
    left = round(1 - moved, 2)
    first = round(left * part, 2)
    return first, round(left - first, 2)


def _silence(model) -> str:
    if "mlm_logits" not in model.output:
        return "it has no masked-LM head"
    return "a left-to-right model never sees a [MASK], and predicts every token from those before it"


def _next_sentence(models) -> None:
    with gr.Tab("Next sentence", id="next_sentence", elem_id="tab_next_sentence") as tab:
        name = _model_choice(models, "pair_model")
        with gr.Row():
            first, second = (_text(text, f"Document {n}", f"document_{n}", 4) for n, text in enumerate(_DOCUMENTS, 1))
        with gr.Row():
            label = gr.Radio([_PAPER, "IsNext", "NotNext"], value=_PAPER, label="The label", elem_id="pair_label")
            length = gr.Slider(8, 128, 64, step=1, label="Tokens of the row", elem_id="pair_length")
            seed = _seeded("pair", 0, "Draw anew")
        marked, verdict, steps = (gr.HTML(elem_id=f"pair_{part}") for part in ("documents", "verdict", "steps"))

        def draw(name, first, second, label, length, seed):
            model = models[name]
            pair = draw_pair(
                model.tokenizer,
                (first or "", second or ""),
                model.model,
                label=None if label == _PAPER else label,
                sequence_length=min(length, model.model.config.max_sequence_length),
                seed=(seed or 0) % _SEEDS,
            )
            return html.pair_documents(pair), html.pair_verdict(pair, name), html.pair_steps(pair)

        _live([tab.select], draw, [name, first, second, label, length, seed], [marked, verdict, steps])


def _input_representation(models) -> None:
    with gr.Tab("Input representation", id="input", elem_id="tab_input") as tab:
        name = _model_choice(models, "input_model")
        text, second = _two_texts("input")
        chosen = gr.State(1)
        gr.Markdown("Click a row to see its three embeddings, their sum and its LayerNorm.")
        with gr.Row():
            with gr.Column(min_width=320):
                table = gr.HTML(elem_id="input_table", js_on_load=_CLICKS)
            with gr.Column(min_width=320):
                parts = gr.HTML(elem_id="input_sum")

        def show(name, text, second, chosen):
            model = models[name]
            row = input_row(model.model.encoder, model.tokenizer, _given(text, second))
            chosen = min(chosen, len(row.tokens) - 1)
            return html.input_table(row, chosen) + html.truncated(row.truncated), html.input_sum(row, chosen)

        table.click(_clicked, None, chosen, **_QUIET)
        _live([tab.select], show, [name, text, second, chosen], [table, parts])


def _clicked(event: gr.EventData) -> int:
    return int(event.n)


def _attention(models) -> None:
    with gr.Tab("Attention", id="attention", elem_id="tab_attention") as tab:
        text, second = _two_texts("attention", _STORY, "")
        with gr.Row():
            names = [(name.replace("_", " "), name) for name in STATISTICS]
            measure = gr.Dropdown(names, value="entropy", label="Measure of the heads", elem_id="measure")
            clear = gr.Button("Unpin all", scale=0, min_width=160, elem_id="unpin")
        gr.Markdown("Click a head in the table to see its lines. Click tokens at the left to pin them.")
        pinned = gr.State([])
        clear.click(lambda: [], None, pinned, **_QUIET)
        with gr.Row():
            for side in ("left", "right"):
                _attention_side(models, tab, side, text, second, measure, pinned)


def _attention_side(models, tab, side, text, second, measure, pinned) -> None:
    """One model: its heads, and the lines of the chosen one. The right side may have none."""
    with gr.Column(min_width=320):
        if side == "left":
            name = _model_choice(models, "attention_model_left")
        else:
            name = _model_choice([_NONE, *models], "attention_model_right", "Model beside it", 2 * (len(models) > 1))
        head = gr.State(None)
        heads = gr.HTML(elem_id=f"heads_{side}", js_on_load=_CLICKS)
        lines = gr.HTML(elem_id=f"lines_{side}", js_on_load=_CLICKS)

        def show(name, text, second, measure, pinned, head):
            if name == _NONE:
                return "", ""
            model = models[name]
            tokenizer = model.tokenizer
            if "mlm_logits" in model.model.output:
                tokenizer = tokenizer.reading_special_tokens()
            (states,) = text_states(model.model.encoder, tokenizer, [_given(text, second)], _LONGEST)
            values = attention_statistics(states.attention, states.tokens)[measure]
            if head is None or head >= values.size:  # the clearest one: the least spread, else the highest
                head = int(values.argmin() if measure == "entropy" else values.argmax())
            layer, number = divmod(head, values.shape[1])
            table = html.heads_table(values, (layer, number), is_fraction=measure not in ("entropy", "distance"))
            drawn = html.attention_lines(states.attention[layer, number], states.tokens, states.segment_ids, pinned)
            title = f"Layer {layer + 1}, head {number + 1}: lines from each token at the left to those it attends to."
            drawn = html.note(title) + drawn + html.truncated(states.truncated) + html.SEGMENTS
            return table + html.note(STATISTICS[measure]), drawn

        heads.click(_clicked, None, head, **_QUIET)
        lines.click(_toggled, pinned, pinned, **_QUIET)
        _live([tab.select], show, [name, text, second, measure, pinned, head], [heads, lines])


def _toggled(pinned: list[int], event: gr.EventData) -> list[int]:
    return sorted(set(pinned) ^ {int(event.n)})


def _ask(models) -> None:
    with gr.Tab("Ask", id="ask", elem_id="tab_ask") as tab:
        name = _model_choice(models, "ask_model")
        with gr.Row():
            texts = [gr.Textbox(lines=4, elem_id=f"ask_{n}", visible=n == 1, min_width=300) for n in (1, 2)]
        button = gr.Button("Ask", variant="primary", elem_id="ask_button")
        labels = gr.Label(elem_id="ask_labels", visible=False, show_label=False)
        marked = gr.HighlightedText(elem_id="ask_marked", visible=False, show_label=False)
        told = gr.HTML(elem_id="ask_told")

        def choose(name):
            fields = [*form_of(models[name].pipeline).fields.items(), (None, "")]
            boxes = [gr.Textbox(example, label=label, visible=label is not None) for label, example in fields[:2]]
            return "", *boxes

        def answer(name, *given):
            return _shown(ask(models[name].pipeline, [text or "" for text in given]), given)

        shown = gr.on([tab.select, name.change], _answering(choose, 3), name, [told, *texts], api_visibility="private")
        answering = _answering(answer, 3)  # one function, so that Gradio answers in the order of the questions
        for asked in (button.click, shown.then):
            asked(answering, [name, *texts], [told, labels, marked], api_visibility="private")


def _shown(row, given):
    """The updates of the sentence or table, the labels and the marked text, by what the answer has."""
    told, labels, marked = "", gr.Label(visible=False), gr.HighlightedText(visible=False)
    if "masks" in row:
        told = html.filled_masks(given[0], row["masks"]) if row["masks"] else html.error("Expected a text with [MASK].")
    elif "probabilities" in row:
        labels = gr.Label(row["probabilities"], visible=True, num_top_classes=20)
        on = row.get("labels")
        told = "" if on is None else html.note("Labels above their thresholds: " + (", ".join(on) or "none") + ".")
    elif "entities" in row:
        entities = [{"entity": one["type"], "start": one["start"], "end": one["end"]} for one in row["entities"]]
        marked = gr.HighlightedText({"text": given[0], "entities": entities}, visible=True)
        told = "" if entities else html.note("The model finds no entities.")
    elif "n_best" in row:
        place = [{"entity": "answer", "start": row["start"], "end": row["end"]}] if row["answer"] else []
        marked = gr.HighlightedText({"text": given[1], "entities": place}, visible=True)
        told = html.note(f"Answer: {row['answer'] or 'none'}") + html.listed_answers(row)
    elif "similarities" in row:
        ordered = sorted(row["similarities"], key=lambda pair: -pair[1])
        told = html.ranked(["text", "cosine"], ordered, "{:.3f}".format)
    elif "is_next" in row:
        labels = gr.Label({"IsNext": row["is_next"], "NotNext": 1 - row["is_next"]}, visible=True)
    else:
        told = html.plain(row)
    return told, labels, marked
