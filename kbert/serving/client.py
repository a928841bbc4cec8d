"""A client of TensorFlow Serving, over REST. It imports no TensorFlow.

From top to bottom: the client, the checks of what it is given, the rows of a file.

Shapes: B rows, C choices, m entries of a padded output.
"""

import codecs
import itertools
import pathlib
import shlex
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from kbert.aliases import PathLike
from kbert.checks import Bounds, check_option, is_missing
from kbert.files import parse_json
from kbert.options import Count
from kbert.serving.rest_transport import RestTransport, ServingError, request_json, unexpected
from kbert.serving.saved_model_file import check_version

if TYPE_CHECKING:
    import pandas as pd

# Of a timeout; sockets cannot wait much longer than a thousand times that.
_Timeout = Annotated[float, Bounds("(0, 1000000]")]
_WAIT = 0.2  # seconds before the second try, doubled each time


class ServingClient:
    """Sends requests to a model on a TensorFlow Serving server.

    Args:
        url: ``http://host:8501``, or with TLS ``https://…``.
        model: the model's name on the server.
        version: its version. None: the server's choice.
        label: a version label, such as "stable", in place of a version.
        timeout: seconds that one attempt waits for a connection, and then for each part of the answer.
        tries: the number of attempts if the server cannot be reached or is overloaded (429, 502, 503). A slow request
            is not repeated, which would add to the load.
        root_certificates: for https, a PEM file of the certificates that sign the server's. None: the
            certificates of the public authorities.
        client_certificate: for a server that authenticates its clients, the files (certificate, key), both PEM.

    Raises:
        ValueError: a URL of another kind, a model or label that is not a string, a version that is not a positive int,
            both a version and a label, a timeout that is not a positive number, certificates without TLS, no `tries`.
        OSError: a file of certificates that cannot be read.

    Every call raises `ServingError` with the reason if there is no answer. Answers of more than 256 MB are not read.
    Redirects are not followed, so that texts are sent only to the named server.

    Example::

        client = ServingClient("http://localhost:8501", "reviews")
        client.predict({"text": ["A charming journey."]})["label"]  # ["positive"]
    """

    def __init__(
        self,
        url: str,
        model: str,
        version: int | None = None,
        label: str | None = None,
        timeout: float = 10.0,
        tries: int = 3,
        root_certificates: PathLike | None = None,
        client_certificate: tuple[PathLike, PathLike] | None = None,
    ) -> None:
        _check_url(url)
        if version is not None and label is not None:
            raise _refusal("give a version or a label", (version, label))
        if version is not None:
            check_version("ServingClient", version)
        _check_name("model", model)
        if label is not None:
            _check_name("label", label)
        check_option("ServingClient", "timeout", timeout, _Timeout)
        check_option("ServingClient", "tries", tries, Count)
        _check_certificates(url, root_certificates, client_certificate)
        self.url = url.rstrip("/")
        self.model = model
        self.version = version
        self.label = label
        self.timeout = timeout
        self.tries = tries
        self._only_outputs = {}  # signature → the name of its output, where it has only one
        address = _model_address(self.url, model, version, label)
        self._transport = RestTransport(address, timeout, root_certificates, client_certificate)

    def predict(
        self, inputs: "Mapping[str, Any] | pd.DataFrame", signature: str = "serving_default"
    ) -> dict[str, list]:
        """Answers: dict of output → list, one entry per row.

        Padding is removed from entries that are lists. The output ``count`` says how much is real, for an n-best list
        ``n_best_count``.

        Args:
            inputs: dict of column → list of strings (for choices: of lists of strings, which may differ in length), or
                NumPy arrays of them; or a pandas DataFrame. Strings are str or bytes.
            signature: name of the signature.

        Raises:
            ValueError: columns of different lengths, or one that is not a list of strings or of lists of strings.
        """
        columns = request_columns(inputs)
        outputs = self._call("predict", signature, columns)
        if outputs == {}:
            raise unexpected(self.url, "the outputs of a signature", outputs)
        if not isinstance(outputs, dict):  # a single output is returned without its name
            outputs = {self._only_output(signature): outputs}
        rows = len(next(iter(columns.values()), ()))
        answers = {name: self._rows(values, rows) for name, values in outputs.items()}
        return trim_answers(answers, self.url)

    def classify(
        self, examples: Sequence[Mapping[str, str | bytes]], signature: str = "classify"
    ) -> list[list[tuple[str, float]]]:
        """(label, score) of all classes for each example, a dict of column → string.

        Raises:
            ValueError: `examples` of another kind.
        """
        rows = self._call("classify", signature, check_examples(examples))
        try:
            rows = self._rows(rows, len(examples))
            return [[(label, score) for label, score in row] for row in rows]
        except (TypeError, ValueError):
            raise unexpected(self.url, "labels and scores", rows) from None

    def regress(self, examples: Sequence[Mapping[str, str | bytes]], signature: str = "regress") -> list[float]:
        """A number for each example, a dict of column → string.

        Raises:
            ValueError: `examples` of another kind.
        """
        rows = self._call("regress", signature, check_examples(examples))
        return self._rows(rows, len(examples))

    def metadata(self) -> dict[str, dict]:
        """The model's signatures, from the server: dict of signature → {"inputs": …, "outputs": …}."""
        return self._with_retries(self._transport.metadata)

    def curl(self, inputs: Any, signature: str = "serving_default", verb: str = "predict") -> str:
        """The curl command for a request.

        Args:
            inputs: as for `predict`; for the verbs classify and regress the examples.
            signature: name of the signature.
            verb: predict, classify or regress.
        """
        rows = request_columns(inputs) if verb == "predict" else check_examples(inputs)
        body = request_json(verb, signature, rows, ensure_ascii=False)
        address = shlex.quote(f"{self._transport.address}:{verb}")
        return f"curl --max-time {self.timeout:g} -d {shlex.quote(body)} {address}"

    def _only_output(self, signature: str) -> str:
        if signature not in self._only_outputs:
            try:
                names = list(self.metadata()[signature]["outputs"])
            except (KeyError, TypeError):
                names = []
            self._only_outputs[signature] = names[0] if len(names) == 1 else "output"
        return self._only_outputs[signature]

    def _rows(self, values: Any, rows: int) -> list:
        if not isinstance(values, list) or len(values) != rows:
            raise unexpected(self.url, f"a list of {rows} answers", values)
        return values

    def _call(self, verb: str, signature: str, rows: dict[str, list] | list[dict]) -> Any:
        _check_name("signature", signature)
        return self._with_retries(lambda: self._transport.call(verb, signature, rows))

    def _with_retries(self, ask: Callable) -> Any:
        for number in range(self.tries - 1):
            try:
                return ask()
            except ServingError as error:
                if not error.may_retry:
                    raise
                time.sleep(_WAIT * 2**number)
        return ask()


_COUNTS = ("n_best_count", "count")  # outputs int [B]: how many entries of each row are real


def trim_answers(answers: dict[str, list], url: str = "") -> dict[str, list]:
    """The outputs of a kbert model without padding; the counts themselves stay.

    Outputs have one width for all rows, so that a server can batch. ``count`` is the number of real entries of a row
    (masks, words, entities or tokens), ``n_best_count`` of the outputs ``n_best_…``. An output [B, m, …] is a list of B
    lists. A count that is impossible is a ServingError with the `url`.
    """
    return {name: _trimmed(name, values, answers, url) for name, values in answers.items()}


def _trimmed(name: str, values: list, answers: dict[str, list], url: str) -> list:
    counter = _COUNTS[0] if name.startswith("n_best") else _COUNTS[1]
    has_lists = all(isinstance(row, list) for row in values)
    if name in _COUNTS or counter not in answers or not has_lists:
        return values
    counted = list(zip(values, answers[counter], strict=True))
    if not all(isinstance(count, int) and 0 <= count <= len(row) for row, count in counted):
        raise unexpected(url, f"numbers of entries as {counter!r}", answers[counter])
    return [row[:count] for row, count in counted]


# Checks of what a client is given, before it connects or sends anything.


def _refusal(what: str, received: Any) -> ValueError:
    return ValueError(f"ServingClient: {what}. Received: {received!r:.200}")


def _check_url(url: str) -> None:
    _check_name("url", url)
    expected = "expected http://host:8501 or https://…"
    try:
        parts = urllib.parse.urlsplit(url)
        parts.port  # noqa: B018  a property that checks
    except ValueError as error:
        raise ValueError(f"ServingClient: {expected}. Received: {url!r} ({error})") from None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise _refusal(expected, url)


def _model_address(url: str, model: str, version: int | None, label: str | None) -> str:
    address = f"{url}/v1/models/{urllib.parse.quote(model, safe='')}"
    if label is not None:
        return f"{address}/labels/{urllib.parse.quote(label, safe='')}"
    return address if version is None else f"{address}/versions/{version}"


def _check_certificates(url: str, root_certificates, client_certificate) -> None:
    if (root_certificates or client_certificate) and urllib.parse.urlsplit(url).scheme != "https":
        raise _refusal("certificates are for https://", url)
    own = () if client_certificate is None else client_certificate
    if not isinstance(own, tuple | list) or len(own) not in (0, 2):
        raise _refusal("`client_certificate` must be two files, (certificate, key)", client_certificate)
    for file in filter(None, (root_certificates, *own)):
        open(file, "rb").close()  # an error now, not at the first request


def _check_name(name: str, value: str) -> None:
    if not isinstance(value, str) or not value:
        raise _refusal(f"`{name}` must be a string that is not empty", value)


def request_columns(inputs: "Mapping[str, Any] | pd.DataFrame") -> dict[str, list]:
    """The columns of a request as lists of str or bytes, [B], or of lists of them, [B, C].

    None, NaN and pandas' NA are "". Rows of [B, C] that differ in length are padded to the longest with "", which is
    not a choice.
    """
    if hasattr(inputs, "columns"):  # a DataFrame
        inputs = {name: inputs[name] for name in inputs.columns}
    if not isinstance(inputs, Mapping) or not inputs:
        raise _refusal("expected a dict of column → list of strings", inputs)
    columns = {name: _column(name, column) for name, column in inputs.items()}
    rows = {name: len(column) for name, column in columns.items()}
    if len(set(rows.values())) > 1:
        raise _refusal("expected columns of one length", rows)
    return columns


def _column(name: str, column) -> list:
    rows = _listed(column)
    if isinstance(rows, (list, tuple)):
        rows = [_without_missing(_listed(row)) for row in rows]
        are_lists = {isinstance(row, (list, tuple)) for row in rows}
    if not isinstance(rows, list) or len(are_lists) > 1:
        raise _refusal(f"`{name}` must be a list of strings, or of lists of strings", column)
    if are_lists != {True}:
        for number, row in enumerate(rows):
            _check_string(row, f"`{name}`[{number}]")
        return rows
    for number, row in enumerate(rows):
        for place, string in enumerate(row):
            _check_string(string, f"`{name}`[{number}][{place}]")
    width = max(map(len, rows))
    return [[*row, *[""] * (width - len(row))] for row in rows]


def check_examples(examples: Any) -> list[dict]:
    """The examples, after a check that they are a list of dicts of column → string."""
    if not isinstance(examples, (list, tuple)):
        raise _refusal("expected a list of dicts of column → string", examples)
    for number, example in enumerate(examples):
        if not isinstance(example, Mapping):
            raise _refusal(f"examples[{number}]: expected a dict of column → string", example)
        for name, value in example.items():
            _check_string(value, f"examples[{number}], `{name}`")
    return examples


def _check_string(value, where: str) -> None:
    if not isinstance(value, (str, bytes)):
        raise _refusal(f"{where}: expected str or bytes", value)


def _without_missing(value):
    """A string or a list of them, with "" for None, NaN and pandas' NA."""
    if isinstance(value, (list, tuple)):
        return [_without_missing(item) for item in value]
    return "" if is_missing(value) else value


def _listed(values):
    """A NumPy array or a pandas Series as a list."""
    return values.tolist() if hasattr(values, "tolist") else values


def ask(
    client: ServingClient, rows: Iterable[Mapping[str, Any]], signature: str, batch_size: int
) -> Iterator[dict[str, Any]]:
    """The answers to rows, one dict each; the curl line of each request goes to standard error.

    All rows have equal columns. ``classify`` and ``regress`` are sent tf.Examples, as TensorFlow Serving requires.
    """
    verb = signature if signature in ("classify", "regress") else "predict"
    rows = iter(rows)
    while batch := list(itertools.islice(rows, batch_size)):
        columns = batch
        if verb == "predict":
            columns = {name: [row[name] for row in batch] for name in batch[0]}
        print(client.curl(columns, signature, verb), file=sys.stderr)
        if verb == "classify":
            for scores in client.classify(batch, signature):
                yield {"probabilities": dict(scores)}
        elif verb == "regress":
            for score in client.regress(batch, signature):
                yield {"score": score}
        else:
            answers = client.predict(columns, signature)
            for number in range(len(batch)):
                yield {name: values[number] for name, values in answers.items()}


def read_json_rows(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file; blank lines are skipped."""
    columns = None
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        row = parse_json(line, f"{path}, line {number}")
        if columns is None and isinstance(row, dict):
            columns = sorted(row)
        if not isinstance(row, dict) or sorted(row) != columns:
            expected = f"expected an object with {columns or 'columns'}"
            raise ValueError(f"{path}, line {number}: {expected}. Received: {line.decode():.80}")
        yield row
